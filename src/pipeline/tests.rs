//! Tests of loading: every kind of mistake in a pipeline file, with its exact place.

use std::path::Path;

use super::testing::rehearse;
pub(super) use super::testing::{load_bytes, load_with};
use super::{LoadOptions, Pipeline, load};
use pairloom_registry::AnyStage;
use pairloom_spec::loss::Loss;
use pairloom_stage::Stage;

/// Valid pipeline file; the tests change it to make mistakes.
pub(super) const VALID: &str = r#"seed = 7

[stage.pairs.ingest]
synthetic = { train = 20, val = 5, test = 5 }

[stage.cnn.extract]
images = "pairs.images"
network = "squeezenet1_0"
weights = "random"

[stage.fit.train]
features = "cnn.features"
captions = "pairs.captions"
loss = "max"
epochs = 2

[stage.vectors.embed]
model = "fit.model"
features = "cnn.features"
captions = "pairs.captions"

[stage.test.evaluate]
images = "vectors.image_embeddings"
captions = "vectors.caption_embeddings"
dataset = "scenes"

[[expect]]
sql = "SELECT rsum FROM test.summary"
at_least = 300
"#;

/// Every diagnostic as `line:column message / hint`.
pub(super) fn diagnostics_of(text: &str, overrides: &[&str]) -> Vec<String> {
    let diagnostics = load_bytes(text.as_bytes(), overrides, true).expect_err("the file is wrong");
    let line = |diagnostic: &super::Diagnostic| {
        let (line, column) = diagnostics.position(diagnostic);
        let hint = diagnostic.problem.hint.as_ref().map(|hint| format!(" / {hint}")).unwrap_or_default();
        format!("{line}:{column} {}{hint}", diagnostic.problem.message)
    };
    diagnostics.as_slice().iter().map(line).collect()
}

/// Diagnostics of the valid file with `from` replaced by `to`.
pub(super) fn changed(from: &str, to: &str) -> Vec<String> {
    assert_eq!(VALID.matches(from).count(), 1, "`{from}` must be in the valid file once");
    diagnostics_of(&VALID.replace(from, to), &[])
}

pub(super) fn settings(pipeline: &Pipeline<AnyStage>, stage: &str) -> serde_json::Value {
    pipeline.plan.stages().iter().find(|node| node.name == stage).expect("a stage").stage.settings()
}

#[test]
fn a_valid_file_becomes_stages_with_seeds_and_shorthands_filled_in() {
    let pipeline = load_bytes(VALID.as_bytes(), &[], true).unwrap();
    let names: Vec<_> = pipeline.plan.stages().iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["pairs", "cnn", "fit", "vectors", "test"]);
    assert_eq!(settings(&pipeline, "pairs")["synthetic"]["seed"], 7);
    assert_eq!(settings(&pipeline, "fit")["seed"], 7);
    assert_eq!(settings(&pipeline, "fit")["loss"]["max"]["margin"], 0.2);
    assert_eq!(pipeline.expectations.len(), 1);
    assert_eq!(pipeline.expectations[0].wanted(), "at least 300");
}

#[test]
fn overrides_replace_and_add() {
    let overrides = [
        "stage.fit.train.epochs=3",
        "seed=11",
        "stage.fit.train.loss.sum.margin=0.1",
        "stage.test.evaluate.dataset=2024",
        "stage.pairs.ingest.synthetic.seed=5",
    ];
    let pipeline = load_bytes(VALID.as_bytes(), &overrides, true).unwrap();
    assert_eq!(settings(&pipeline, "fit")["epochs"], 3);
    assert_eq!(settings(&pipeline, "fit")["seed"], 11);
    assert_eq!(settings(&pipeline, "fit")["loss"]["sum"]["margin"], 0.1);
    assert_eq!(settings(&pipeline, "test")["dataset"], "2024", "a text setting takes a number in an override as text");
    assert_eq!(settings(&pipeline, "pairs")["synthetic"]["seed"], 5);
    assert_eq!(pipeline.seed, 11);
}

#[test]
fn an_unknown_setting() {
    assert_eq!(
        changed("epochs = 2", "epochs = 2\n  ebochs = 3"),
        ["16:3 `train` has no setting `ebochs` / did you mean `epochs`?"]
    );
    assert_eq!(
        changed("test = 5 }", "test = 5, pixel = 3 }"),
        ["4:46 `synthetic` has no setting `pixel` / did you mean `pixels`?"]
    );
}

#[test]
fn a_missing_setting_points_at_its_kind() {
    assert_eq!(changed("epochs = 2\n", ""), ["11:12 `train` lacks the setting `epochs`"]);
    assert_eq!(changed(", test = 5", ""), ["4:1 `synthetic` lacks the setting `test`"]);
}

#[test]
fn a_wrong_type() {
    assert_eq!(
        changed("epochs = 2", "epochs = \"two\""),
        ["15:10 `epochs` is the string \"two\", expected an integer"]
    );
    assert_eq!(
        changed("dataset = \"scenes\"", "dataset = 3"),
        ["25:11 `dataset` is the integer 3, expected a string, in quotes"]
    );
    assert_eq!(
        changed("epochs = 2", "epochs = 2\ngradient_clip = true"),
        ["16:17 `gradient_clip` is true, expected a finite number"]
    );
    assert_eq!(
        changed("epochs = 2", "epochs = 2\ngradient_clip = nan"),
        ["16:17 `gradient_clip` is the number NaN, expected a finite number"]
    );
    assert_eq!(
        changed("weights = \"random\"", "weights = \"random\"\nnormalize = 1"),
        ["10:13 `normalize` is the integer 1, expected `true` or `false`"]
    );
    assert_eq!(
        changed(
            "captions = \"vectors.caption_embeddings\"",
            "captions = \"vectors.caption_embeddings\"\nprotocols = \"all\""
        ),
        ["25:13 `protocols` is the string \"all\", expected an array, written `[…]`"]
    );
    assert_eq!(
        changed(
            "features = \"cnn.features\"\ncaptions = \"pairs.captions\"\nloss",
            "features = 1\ncaptions = \"pairs.captions\"\nloss"
        ),
        ["12:12 `features` is the integer 1, expected a table of another stage, written \"stage.table\""]
    );
}

#[test]
fn an_item_of_a_list() {
    let relevance = "relevance = [{ name = \"a\", ratings = \"r.ratings\", at_least = 3.0 }, { name = \"b\" }]";
    let file =
        format!("{VALID}[stage.t.evaluate]\nimages = \"a.b\"\ncaptions = \"a.b\"\ndataset = \"x\"\n{relevance}\n");
    let got = diagnostics_of(&file, &[]).join("\n");
    assert!(got.contains("item 2 of `relevance`: names no table"), "{got}");
}

/// A table with arbitrary keys: each value is checked, and a diagnostic points to it.
#[test]
fn a_table_with_arbitrary_keys() {
    let correlate = |score: &str| {
        let scores = format!("[{{ name = \"gt\", sampling = \"own\", {score} }}]");
        diagnostics_of(&format!("{VALID}[stage.s.correlate]\nratings = \"pairs.images\"\nscores = {scores}\n"), &[])
    };
    assert_eq!(
        correlate("published = { all = \"high\" }")[1],
        "32:64 `all` is the string \"high\", expected a finite number"
    );
    let got = correlate("published = { all = 0.7, rest = 0.1 }");
    assert_eq!(got[1], "32:76 `rest` is no set of pairs; there are `all`");
}

#[test]
fn a_number_out_of_range() {
    assert_eq!(
        changed("epochs = 2", "epochs = -2"),
        ["15:10 `epochs` is the integer -2, expected an integer of at least 1"]
    );
    assert_eq!(
        changed("epochs = 2", "epochs = 4294967296"),
        ["15:10 `epochs` is the integer 4294967296, expected an integer of at most 4294967295"]
    );
    assert_eq!(
        changed("seed = 7", "seed = 99999999999999999999"),
        ["1:8 `seed` is the integer 99999999999999999999, expected an integer of at most 9223372036854775807"]
    );
}

#[test]
fn an_unknown_alternative() {
    assert_eq!(
        changed("\"squeezenet1_0\"", "\"squeezenet1\""),
        ["8:11 `network` is the string \"squeezenet1\" / did you mean `squeezenet1_0`?"]
    );
    assert_eq!(
        changed("loss = \"max\"", "loss = \"mix\""),
        ["14:8 `loss` is the string \"mix\" / did you mean `max`?"]
    );
    assert_eq!(
        changed("loss = \"max\"", "loss = { mix = { margin = 0.2 } }"),
        ["14:10 `loss` has no alternative `mix` / did you mean `max`?"]
    );
    assert_eq!(
        changed("loss = \"max\"", "loss = { max = { marge = 0.2 } }"),
        ["14:18 `max` has no setting `marge` / did you mean `margin`?"]
    );
    assert_eq!(
        changed("loss = \"max\"", "loss = { max = {}, sum = {} }"),
        ["14:20 `loss` is both `max` and `sum`, expected one"]
    );
    assert_eq!(
        changed("weights = \"random\"", "weights = \"file\""),
        ["9:11 `weights` is \"file\", which needs a value / write `{ file = … }`"]
    );
    let got = changed("weights = \"random\"", "weights = { random = {} }");
    assert_eq!(got, ["9:13 `random` takes no value, expected \"random\" alone"]);
    // The alternatives of the schema, which editors offer.
    let schema = serde_json::to_value(schemars::schema_for!(Loss)).unwrap();
    let losses = schema["oneOf"].as_array().unwrap().iter().map(|loss| loss["required"][0].as_str().unwrap());
    let all = format!("expected one of {}", losses.map(|loss| format!("`{loss}`")).collect::<Vec<_>>().join(", "));
    assert!(all.starts_with("expected one of `sum`, `max`, `knn_margin`, `local_scaling`, `hal`, `info_nce`"), "{all}");
    for (loss, what) in [("{}", "14:1 `loss` is an empty table"), ("3", "14:8 `loss` is the integer 3")] {
        assert_eq!(changed("loss = \"max\"", &format!("loss = {loss}")), [format!("{what}, {all}")]);
    }
    assert_eq!(
        changed(
            "captions = \"vectors.caption_embeddings\"",
            "captions = \"vectors.caption_embeddings\"\nprotocols = [\"all\", \"fivefold\"]"
        ),
        ["25:21 item 2 of `protocols` is the string \"fivefold\" / did you mean `five_fold`?"]
    );
}

#[test]
fn a_wrong_or_missing_kind_of_a_stage() {
    assert_eq!(
        changed("[stage.fit.train]", "[stage.fit.trian]"),
        ["11:12 stage `fit` has no kind `trian` / did you mean `train`?"]
    );
    assert_eq!(
        changed("[stage.fit.train]", "[stage.fit]")[0],
        "11:8 stage `fit` has no kind, expected a table `[stage.fit.KIND]`"
    );
    assert_eq!(
        changed("[[expect]]", "[stage.test.report]\ntitle = \"x\"\nsummary = \"test.summary\"\n\n[[expect]]")[0],
        "27:13 stage `test` is both `evaluate` and `report`, expected one"
    );
    assert_eq!(
        changed("[[expect]]", "[stage.\"a b\".report]\ntitle = \"x\"\nsummary = \"test.summary\"\n\n[[expect]]")[0],
        "27:8 \"a b\" is not a valid stage name, expected letters, digits, `-` and `_`"
    );
}

#[test]
fn tables_and_stages_that_do_not_exist() {
    let fit = "captions = \"pairs.captions\"\nloss";
    assert_eq!(
        changed(fit, "captions = \"pairs.caption\"\nloss"),
        [
            "13:12 `captions` is `pairs.caption`, but stage `pairs` writes no `caption`; it writes `images`, `captions` / did you mean `pairs.captions`?"
        ]
    );
    assert_eq!(
        changed(fit, "captions = \"pair.captions\"\nloss"),
        [
            "13:12 `captions` is `pair.captions`, but no stage is called `pair`; there are `cnn`, `fit`, `pairs`, `test`, `vectors` / did you mean `pairs.captions`?"
        ]
    );
    assert_eq!(
        changed(fit, "captions = \"pairs.images\"\nloss"),
        [
            "13:12 `pairs.images` is the table `images` of an `ingest`; `captions` wants the table `captions` of an `ingest` / did you mean `pairs.captions`?"
        ]
    );
    assert_eq!(
        changed("images = \"vectors.image_embeddings\"", "images = \"fit.model\"")[0],
        "23:10 `fit.model` is the `model` of a `train`; `images` wants the table `image_embeddings` of an `embed`, an `extract` (with `captions`), an `ensemble` or of an `ingest` (embeddings) / did you mean `vectors.image_embeddings`?"
    );
    assert_eq!(
        changed(fit, "captions = \"pairs\"\nloss"),
        [
            "13:12 `captions` is the string \"pairs\", expected a table of another stage, written \"stage.table\" / did you mean \"pairs.captions\"?"
        ]
    );
}

#[test]
fn a_long_list_of_mistakes_is_truncated() {
    let many: String = (0..25).map(|i| format!("wrong{i} = 1\n")).collect();
    let diagnostics = load_bytes(format!("{many}{VALID}").as_bytes(), &[], true).expect_err("the file is wrong");
    let text = diagnostics.render(false);
    assert!(text.contains("`wrong19`") && !text.contains("`wrong20`"), "{text}");
    assert!(text.contains("and 5 more; `--json` shows all") && text.contains("25 mistakes"), "{text}");
    assert_eq!(diagnostics.to_json().len(), 25);
}

#[test]
fn stage_names_that_sql_cannot_distinguish() {
    let report = |name: &str| format!("[stage.{name}.report]\ntitle = \"x\"\nsummary = \"test.summary\"\n\n[[expect]]");
    assert_eq!(
        changed("[[expect]]", &report("Test")),
        [
            "27:8 stages `test` and `Test` differ in letter case alone / SQL does not tell them apart: give one another name"
        ]
    );
    assert_eq!(
        changed("[[expect]]", &report("Store")),
        ["27:8 a stage cannot be called `Store`: SQL has tables of its own under that name"]
    );
}

#[test]
fn a_cycle() {
    let tuned = "[stage.tuned.train]\nfeatures = \"cnn.features\"\ncaptions = \"pairs.captions\"\nepochs = 2\ninit_from = \"fit.model\"\n";
    let text = format!("{VALID}{tuned}").replacen("epochs = 2\n", "epochs = 2\ninit_from = \"tuned.model\"\n", 1);
    assert_eq!(
        diagnostics_of(&text, &[]),
        ["11:8 stages wait for each other: fit → tuned → fit / let one of them read something else"]
    );
    // A table of another kind does not make a cycle.
    assert_eq!(changed("images = \"pairs.images\"", "images = \"vectors.image_embeddings\"").len(), 1);
}

#[test]
fn mistakes_of_a_stage_that_cannot_be_read_do_not_hide_its_references() {
    let text = VALID.replace("epochs = 2\n", "").replace(
        "features = \"cnn.features\"\ncaptions = \"pairs.captions\"\nloss",
        "features = \"cnn.feature\"\ncaptions = \"pair.captions\"\nloss",
    );
    assert_eq!(
        diagnostics_of(&text, &[]),
        [
            "11:12 `train` lacks the setting `epochs`",
            "12:12 got `cnn.feature`, but stage `cnn` writes no `feature` / did you mean `features`?",
            "13:12 got `pair.captions`, but no stage is called `pair` / did you mean `pairs`?",
        ]
    );
}

#[test]
fn expectations_on_changed_settings_are_skipped() {
    let ahead = "[[expect]]\nsql = \"SELECT count(*) FROM pairs.images WHERE split = 'test'\"\nequals = 5\n\
                 [[expect]]\ntable = \"fit.history\"\ncolumn = \"loss\"\nat_most = 9\n";
    let text = format!("{VALID}{ahead}");
    let skipped = |overrides: &[&str]| -> Vec<(String, String)> {
        let pipeline = load_bytes(text.as_bytes(), overrides, true).unwrap();
        assert_eq!(pipeline.expectations.len() + pipeline.skipped.len(), 3);
        pipeline.skipped.into_iter().map(|of| (of.expectation.wanted(), of.because)).collect()
    };
    let of = |wanted: &str, because: &str| (wanted.to_owned(), format!("--set {because}"));
    assert_eq!(skipped(&[]), []);
    // A training of two epochs, as in the file.
    assert_eq!(skipped(&["stage.fit.train.epochs=2"]), []);
    let epochs = "stage.*.train.epochs=1";
    assert_eq!(skipped(&[epochs]), [of("at least 300", epochs), of("at most 9", epochs)]);
    let cutoffs = "stage.test.evaluate.dataset=x";
    assert_eq!(skipped(&[cutoffs]), [of("at least 300", cutoffs)]);
    let seed = "seed=8";
    let all = ["at least 300", "exactly 5", "at most 9"];
    assert_eq!(skipped(&[seed]), all.map(|wanted| of(wanted, seed)));
    // Who says what is expected has it checked.
    assert_eq!(skipped(&[epochs, "expect.0.at_least=30"]), []);
}

#[test]
fn expectations() {
    assert_eq!(
        changed("at_least = 300\n", ""),
        ["27:1 `[[expect]]` bounds nothing / add `at_least`, `at_most` or `equals`"]
    );
    assert_eq!(
        changed("at_least", "at_last"),
        ["29:1 `[[expect]]` has no setting `at_last` / did you mean `at_least`?"]
    );
    assert_eq!(changed("test.summary\"", "nothing\""), ["28:7 no such table / name one"]);
    // Wrong queries are reported together with other mistakes.
    let both = VALID.replace("FROM test.summary", "FROM nothing").replace("seed = 7", "sead = 7");
    assert_eq!(
        diagnostics_of(&both, &[]),
        ["1:1 a pipeline file has no `sead` / did you mean `seed`?", "28:7 no such table / name one"]
    );
    assert_eq!(changed("[[expect]]", "[expect]"), ["27:1 `expect` is a table, expected tables `[[expect]]`"]);
}

/// The file with an expectation of a value of a table.
fn expecting(value: &str) -> String {
    VALID.replace("sql = \"SELECT rsum FROM test.summary\"", value)
}

#[test]
fn values_of_tables_are_checked_against_their_columns() {
    let right = "table = \"test.summary\"\ncolumn = \"rsum\"\nwhere = { method = \"nns\", n_images = 8 }";
    let pipeline = load_bytes(expecting(right).as_bytes(), &[], true).unwrap();
    assert_eq!(
        pipeline.expectations[0].sql(),
        "SELECT rsum FROM test.summary WHERE method = 'nns' AND n_images = 8",
        "in the order of the file"
    );
    let wrong = |from: &str, to: &str| {
        assert_eq!(right.matches(from).count(), 1, "{from}");
        let found = diagnostics_of(&expecting(&right.replace(from, to)), &[]);
        assert_eq!(found.len(), 1, "{found:#?}");
        found[0].clone()
    };
    for (from, to, message) in [
        ("test.", "tst.", "28:9 got `tst.summary`, but no stage is called `tst` / did you mean `test`?"),
        (
            "test.summary",
            "test.sumary",
            "28:9 got `test.sumary`, but stage `test` writes no table `sumary` / did you mean `summary`?",
        ),
        (
            "test.summary",
            "summary",
            "28:9 `table` is \"summary\", expected a table of this pipeline, written \"stage.table\"",
        ),
        (
            "\"rsum\"",
            "\"rsun\"",
            "29:10 got the column `rsun`, but the table `test.summary` has no such column / did you mean `rsum`?",
        ),
        (
            "\"rsum\"",
            "\"method\"",
            "29:10 got the column `method` of `test.summary`, which has texts, expected numbers",
        ),
        (
            "method =",
            "methd =",
            "30:11 got the column `methd`, but the table `test.summary` has no such column / did you mean `method`?",
        ),
        ("\"nns\"", "3", "30:20 `method` is the integer 3, expected a string, in quotes"),
        ("8 }", "\"8\" }", "30:38 `n_images` is the string \"8\", expected a number"),
        ("8 }", "[8] }", "30:38 `n_images` is an array, expected a string, a finite number, `true` or `false`"),
        ("column = \"rsum\"\n", "", "27:1 `[[expect]]` lacks the setting `column`"),
        (
            "table = \"test.summary\"\n",
            "",
            "27:1 `[[expect]]` lacks the setting `table` / write `table = \"stage.table\"`",
        ),
        (
            "column =",
            "sql = \"SELECT 1\"\ncolumn =",
            "28:9 `[[expect]]` has `sql` and `table`, expected one value / leave out `sql`; or leave out `table`, `column` \
             and `where`",
        ),
        (right, "", "27:1 `[[expect]]` names no value / add `table` and `column`, or `sql`"),
    ] {
        assert_eq!(wrong(from, to), message, "{to}");
    }
    // A stage with mistakes may have other tables.
    let doubtful = expecting(&right.replace("rsum", "rsun")).replace("dataset =", "datset =");
    assert_eq!(diagnostics_of(&doubtful, &[]).len(), 1);
}

#[test]
fn axes_are_columns_of_expected_values() {
    let matrix = "\n[matrix.seed]\nsetting = \"fit.seed\"\nvalues = [1, 2]\n";
    let text = |value: &str| format!("{}{matrix}", expecting(value));
    for right in [
        "table = \"test.summary\"\ncolumn = \"rsum\"\nwhere = { seed = 2 }",
        "table = \"test@seed=2.summary\"\ncolumn = \"rsum\"",
    ] {
        assert!(load_bytes(text(right).as_bytes(), &[], true).is_ok(), "{right}");
    }
    for (wrong, message) in [
        (
            "table = \"test.summary\"\ncolumn = \"rsum\"\nwhere = { seed = 3 }",
            "30:18 `seed` is the integer 3, which no instance of `test` has",
        ),
        (
            "table = \"test@seed=3.summary\"\ncolumn = \"rsum\"",
            "28:9 got `test@seed=3.summary`, but no instance of `test` has the coordinates `seed=3`",
        ),
        (
            "table = \"pairs.images\"\ncolumn = \"image_id\"\nwhere = { seed = 1 }",
            "30:11 got the column `seed`, but the table `pairs.images` has no such column",
        ),
    ] {
        let found = diagnostics_of(&text(wrong), &[]);
        assert!(found.len() == 1 && found[0].starts_with(message), "{found:#?}");
    }
}

#[test]
fn unknown_top_level_keys_and_missing_stages() {
    assert_eq!(
        changed("[[expect]]", "[[expects]]"),
        ["27:3 a pipeline file has no `expects` / did you mean `expect`?"]
    );
    assert_eq!(diagnostics_of("", &[]), ["1:1 the file has no stage, expected tables `[stage.NAME.KIND]`"]);
    assert_eq!(diagnostics_of("stage = 3", &[]), ["1:9 `stage` is the integer 3, expected tables `[stage.NAME.KIND]`"]);
}

#[test]
fn several_toml_syntax_errors_are_reported_together() {
    let diagnostics = diagnostics_of("a = \nb = [1,\n\nc = 3 4\n", &[]);
    assert!(diagnostics.len() >= 2 && diagnostics[0].starts_with("1:"), "{diagnostics:#?}");
    assert!(diagnostics[0].contains("not TOML: "), "{diagnostics:#?}");
}

#[test]
fn files_that_are_not_utf8_too_large_or_missing() {
    let diagnostics = load_bytes(b"seed = 1\n# caf\xe9 au lait\n", &[], true).expect_err("Latin-1");
    assert_eq!(diagnostics.position(&diagnostics.as_slice()[0]), (2, 6));
    assert_eq!(diagnostics.as_slice()[0].problem.message, "the byte 0xe9 is not UTF-8");
    let large = load_bytes(&vec![b'#'; 2 << 20], &[], true).expect_err("too large");
    assert!(large.as_slice()[0].problem.message.contains("1048576 bytes"));
    let gone = load(
        Path::new("gone.toml"),
        &LoadOptions {
            overrides: &[],
            profile: None,
            only: &[],
            except: &[],
            environment: &|_| None,
            sources_must_exist: true,
            check_queries: &rehearse,
        },
    );
    assert_eq!(gone.expect_err("missing").as_slice()[0].problem.message, "there is no pipeline file `gone.toml`");
}

#[test]
fn mistakes_of_overrides_point_into_the_argument() {
    // `--set ` is six characters.
    assert_eq!(
        diagnostics_of(VALID, &["stage.fit.train.epoch=3"]),
        ["1:23 `train` has no setting `epoch` / did you mean `epochs`?"]
    );
    assert_eq!(
        diagnostics_of(VALID, &["stage.fit.train.epochs=x"]),
        ["1:30 `epochs` is the string \"x\", expected an integer"]
    );
    assert_eq!(
        diagnostics_of(VALID, &["stage.fitt.train.epochs=3"]),
        ["1:13 the file has no stage `fitt` / did you mean `fit`?"]
    );
    assert_eq!(
        diagnostics_of(VALID, &["stage.fit.epochs=3"]),
        ["1:17 stage `fit` has no kind `epochs` in the file / did you mean `stage.fit.train.epochs`?"]
    );
    for (assignment, hint) in [
        ("fit.epochs=3", "a pipeline file has no `fit` / did you mean `stage.fit.train.epochs`?"),
        ("fit.train.epochs=3", "a pipeline file has no `fit` / did you mean `stage.fit.train.epochs`?"),
        ("train.epochs=3", "a pipeline file has no `train` / did you mean `stage.fit.train.epochs`?"),
        ("fit.epcohs=3", "a pipeline file has no `fit` / did you mean `stage.fit.train.epochs`?"),
        (
            "batch_size=3",
            "a pipeline file has no `batch_size` / did you mean one of `stage.cnn.extract.batch_size`, `stage.fit.train.batch_size`?",
        ),
    ] {
        assert_eq!(diagnostics_of(VALID, &[assignment]), [format!("1:7 {hint}")]);
    }
    assert_eq!(diagnostics_of(VALID, &["sead=3"]), ["1:7 a pipeline file has no `sead` / did you mean `seed`?"]);
    assert_eq!(
        diagnostics_of(VALID, &["seed"])[0],
        "1:7 `seed` assigns nothing: expected `PATH=VALUE` / write for example `--set stage.fit.train.epochs=3`, or `*` for all stages of a kind: `--set 'stage.*.train.epochs=3'`"
    );
    assert_eq!(diagnostics_of(VALID, &["a..b=3"]), ["1:9 `a..b` has an empty name in it"]);
}

#[test]
fn diagnostics_are_rendered_with_their_source_line() {
    let diagnostics = load_bytes(
        VALID.replace("epochs = 2", "epochs = 2\nebochs = 3").as_bytes(),
        &["stage.fit.train.batch_size=x"],
        true,
    );
    let text = diagnostics.expect_err("wrong").render(false);
    let shown: Vec<&str> = text.lines().collect();
    assert_eq!(shown[0], "error: `train` has no setting `ebochs`");
    assert!(shown[1].starts_with("  --> ") && shown[1].ends_with("p.toml:16:1"), "{text}");
    assert_eq!(shown[2..5], ["   |", "16 | ebochs = 3", "   | ^^^^^^"]);
    assert_eq!(shown[5], "   = hint: did you mean `epochs`?");
    assert!(shown[6].starts_with("   = valid: `batch_size`, "), "{text}");
    assert!(text.contains("--> command line\n |\n | --  "[..18].trim_end()), "{text}");
    assert!(text.contains("--set stage.fit.train.batch_size=x"), "{text}");
    assert!(text.ends_with("p.toml`\n") && text.contains("error: 2 mistakes in `"), "{text}");
}
