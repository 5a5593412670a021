//! Tests of messages: one for each mistake, in the words of the field, and warnings.

use super::tests::{VALID, changed, diagnostics_of, load_bytes, settings};
use super::{LoadOptions, load};
use pairloom_registry::AnyStage;

/// Typos of names, kinds, settings, references and values: one diagnostic each.
#[test]
fn one_typo_is_one_mistake() {
    let bank = "images = \"vectors.image_embeddings\"\n";
    let banked = VALID.replace(
        bank,
        &format!(
            "{bank}methods = [{{ csls = {{}} }}, {{ nnn = {{}} }}]\nquery_bank = {{ images = \"vectors.image_embeddings\", \
             captions = \"vectors.caption_embeddings\", split = \"train\" }}\n"
        ),
    );
    assert!(load_bytes(banked.as_bytes(), &[], true).is_ok());
    let typos = [
        ("[stage.pairs.ingest]", "[stage.pair.ingest]"),
        ("[stage.pairs.ingest]", "[stage.pairs.ingst]"),
        ("[stage.fit.train]", "[stage.fitt.train]"),
        ("[stage.vectors.embed]", "[stage.vector.embed]"),
        ("synthetic =", "syntetic ="),
        ("train = 20", "trian = 20"),
        ("network =", "netwrok ="),
        ("weights = \"random\"", "weights = \"randm\""),
        (
            "features = \"cnn.features\"\ncaptions = \"pairs.captions\"\nloss",
            "featurs = \"cnn.features\"\ncaptions = \"pairs.captions\"\nloss",
        ),
        ("epochs =", "epohcs ="),
        ("loss = \"max\"", "loss = \"mx\""),
        ("model = \"fit.model\"", "modl = \"fit.model\""),
        ("model = \"fit.model\"", "model = \"fit.modl\""),
        ("\ncaptions = \"vectors", "\ncaption = \"vectors"),
        ("dataset", "datset"),
        ("methods", "method"),
        ("query_bank", "query_bnk"),
        ("split =", "splt ="),
        ("at_least", "at_last"),
        ("[[expect]]", "[[expct]]"),
    ];
    for (from, to) in typos {
        assert_eq!(banked.matches(from).count(), 1, "{from}");
        let found = diagnostics_of(&banked.replace(from, to), &[]);
        assert_eq!(found.len(), 1, "{to}: {found:#?}");
    }
}

/// A column of splits is a name, or a table with other names of splits.
#[test]
fn a_value_of_two_types_is_checked_as_the_one_that_it_has() {
    let folder = |column: &str| {
        let split = format!("split = {{ column = {column} }}");
        format!("[stage.pairs.ingest]\nimage_folder = {{ images = \"p\", captions = \"c.csv\", {split} }}\n")
    };
    let captions =
        |column: &str| format!("[stage.pairs.ingest]\ncaptions = {{ file = \"c.csv\", split_column = {column} }}\n");
    let renamed = "{ name = \"Subset\", values = { \"dev\" = \"val\" } }";
    let load = |text: &str, overrides: &[&str]| load_bytes(text.as_bytes(), overrides, false);
    for column in [renamed, "\"Subset\""] {
        for text in [folder(column), captions(column)] {
            let loaded = load(&text, &[]);
            assert!(loaded.is_ok(), "{text}{}", loaded.unwrap_err());
        }
    }
    let column = &settings(&load(&folder(renamed), &[]).unwrap(), "pairs")["image_folder"]["split"]["column"];
    assert_eq!(column["values"]["dev"], "val");
    // An argument is a text where a text may be.
    let argument = "stage.pairs.ingest.image_folder.split.column=2014";
    let column = &settings(&load(&folder("\"a\""), &[argument]).unwrap(), "pairs")["image_folder"]["split"]["column"];
    assert_eq!(*column, "2014");
    for (text, setting) in [(folder("3"), "column"), (captions("3"), "split_column")] {
        let found = load(&text, &[]).unwrap_err().to_string();
        let expected =
            format!("`{setting}` is the integer 3, expected a string, in quotes, or a table, written `{{ … }}`");
        assert!(found.contains(&expected), "{found}");
    }
    let found = load(&folder("{ name = \"Subset\", vlues = {} }"), &[]).unwrap_err().to_string();
    assert!(found.contains("has no setting `vlues`") && found.contains("did you mean `values`?"), "{found}");
}

/// A misspelt kind hides no mistake below it, and no stage that reads it is wrong because of it.
#[test]
fn a_misspelt_kind_is_read_as_the_one_that_is_meant() {
    let text = VALID.replace("[stage.fit.train]", "[stage.fit.trian]").replace("epochs = 2", "epohcs = 2");
    let found = diagnostics_of(&text, &[]);
    let expected = [
        "11:12 stage `fit` has no kind `trian` / did you mean `train`?",
        "15:1 `train` has no setting `epohcs` / did you mean `epochs`?",
    ];
    assert_eq!(found, expected);
    // A table of results of an evaluation that depends on the misspelt one.
    let table = "[matrix.loss]\nsetting = \"fit.loss\"\nvalues = [\"max\", \"sum\"]\n[stage.page.report]\ntitle = \"t\"\n\
                 sweep = { summaries = [\"test@*.summary\"], baseline = \"max\" }\n";
    let text = format!("{VALID}{table}");
    assert!(load_bytes(text.as_bytes(), &[], true).unwrap().warnings.as_slice().is_empty());
    for (kind, typo) in [("embed", "embde"), ("evaluate", "evalaute"), ("train", "trian"), ("evaluate", "ranking")] {
        let found = diagnostics_of(&text.replace(&format!(".{kind}]"), &format!(".{typo}]")), &[]);
        assert!(found.len() == 1 && found[0].contains(&format!("has no kind `{typo}`")), "{found:#?}");
    }
}

#[test]
fn a_missing_stage_is_reported_once_with_all_its_lines() {
    let text = VALID.replace("[stage.pairs.ingest]", "[stage.pair.ingest]");
    let diagnostics = load_bytes(text.as_bytes(), &[], true).expect_err("wrong");
    let [only] = diagnostics.as_slice() else { panic!("{diagnostics}") };
    assert_eq!(
        only.problem.message,
        "`images` is `pairs.images`, but no stage is called `pairs`; there are `cnn`, `fit`, `pair`, `test`, `vectors`"
    );
    assert_eq!(only.problem.hint.as_deref(), Some("did you mean `pair.images`?"));
    assert_eq!(only.note.as_deref(), Some("`pairs` is named again in lines 13, 20"));
}

/// A mistyped setting of a stage may be the reason for a missing table or column.
#[test]
fn outputs_and_queries_of_a_stage_with_mistakes_are_not_reported() {
    let bank = |name: &str| {
        VALID
            .replace("epochs = 2", &format!("epochs = 2\nloss = {{ hal = {{}} }}\n{name} = {{ neighbours = 2 }}"))
            .replace("loss = \"max\"\n", "")
            .replace("test.summary", "fit.nothing")
            .replace(
                "[stage.test.evaluate]",
                "[stage.test.evaluate]\nquery_bank = { memory_bank = \"fit.memory_bank\" }",
            )
    };
    let right = diagnostics_of(&bank("memory_bank"), &[]);
    assert!(right.len() == 1 && right[0].contains("no such table"), "{right:?}");
    let found = diagnostics_of(&bank("memory_bnk"), &[]);
    assert_eq!(found, ["16:1 `train` has no setting `memory_bnk` / did you mean `memory_bank`?"]);
}

/// A model that could not be read is not the default, which reads no regions.
#[test]
fn stages_are_not_checked_against_a_model_with_mistakes() {
    let data = "features = \"cnn.features\"\ncaptions = \"pairs.captions\"\n";
    assert_eq!(VALID.matches(data).count(), 2);
    let text = VALID.replace(data, &data.replace("features = \"cnn", "regions = \"cells.regions\"\n#"));
    let cells = "[stage.cells.extract]\nimages = \"pairs.images\"\nnetwork = \"squeezenet1_0\"\nweights = \"random\"\n\
                 pooling = { grid = 2 }\n[stage.pairwise.score_pairs]\nmodel = \"fit.model\"\nregions = \"cells.regions\"\n\
                 captions = \"pairs.captions\"\n";
    let with = |model: &str| format!("{text}{cells}").replace("epochs = 2\n", &format!("epochs = 2\nmodel.{model}\n"));
    assert!(load_bytes(with("vsrn = { embed_size = 8 }").as_bytes(), &[], true).is_ok());
    let found = diagnostics_of(&with("scan = { agregation = \"mean\" }"), &[]);
    assert!(found.len() == 1 && found[0].ends_with("did you mean `aggregation`?"), "{found:#?}");
    // Without the mistake, the model does not fit `embed`.
    let found = diagnostics_of(&with("scan = { aggregation = \"mean\" }"), &[]);
    assert!(found.len() == 1 && found[0].contains("a model of `scan` has no vector"), "{found:#?}");
}

/// A wrong item of a list does not hide the mistakes of the others.
#[test]
fn all_mistakes_of_a_list_are_reported() {
    let methods = "[\"nns\", \"cslss\", { csls = { k = 0 } }, { inverted_softmax = { beta = \"x\" } }, \"nns\"]";
    let found = changed("dataset = \"scenes\"", &format!("dataset = \"scenes\"\nmethods = {methods}"));
    let places: Vec<&str> = found.iter().filter_map(|text| text.split(' ').next()).collect();
    assert!(places.len() == 4 && [places[0], places[2], places[3]] == ["26:19", "26:80", "26:89"], "{found:#?}");
    assert!(found[1].contains("`k`") || found[1].contains("csls.k"), "{found:#?}");
    assert!(found[3].contains("appears twice"), "{found:#?}");
}

#[test]
fn a_table_of_another_kind_is_answered_with_the_fitting_ones() {
    let fit = "features = \"cnn.features\"\ncaptions = \"pairs.captions\"\nloss";
    assert_eq!(
        changed(fit, "features = \"pairs.captions\"\ncaptions = \"pairs.captions\"\nloss"),
        [
            "12:12 `pairs.captions` is the table `captions` of an `ingest`; `features` wants the table `features` of an `extract`, an `import_features`, an `import_arrays` or of an `ingest` (precomp) / did you mean `cnn.features`?"
        ]
    );
    // The columns of captions include those of images.
    assert_eq!(
        changed("images = \"vectors.image_embeddings\"", "images = \"vectors.caption_embeddings\""),
        [
            "23:10 `vectors.caption_embeddings` is the table `caption_embeddings` of an `embed`; `images` wants the table `image_embeddings` of an `embed`, an `extract` (with `captions`), an `ensemble` or of an `ingest` (embeddings) / did you mean `vectors.image_embeddings`?"
        ]
    );
    // Several outputs fit, or none.
    let more = "[stage.more.extract]\nimages = \"pairs.images\"\nnetwork = \"resnet18\"\nweights = \"random\"\n";
    let text = format!("{VALID}{more}").replace(
        "features = \"cnn.features\"\ncaptions = \"pairs.captions\"\nloss",
        "features = \"fit.model\"\ncaptions = \"pairs.captions\"\nloss",
    );
    assert!(diagnostics_of(&text, &[])[0].ends_with(" / did you mean one of `cnn.features`, `more.features`?"));
    let text = format!(
        "{VALID}[stage.r.correlate]\nratings = \"pairs.captions\"\nscores = [{{ name = \"gt\", sampling = \"own\" }}]\n"
    );
    assert!(
        diagnostics_of(&text, &[])[0].ends_with(" wants the table `ratings` of an `ingest` (ratings) / add a stage: `ratings` is the output of an `ingest` (ratings)"),
        "{:?}", diagnostics_of(&text, &[])
    );
    let page = "[stage.page.report]\ntitle = \"x\"\nsummary = \"test.summary\"\n";
    assert_eq!(
        diagnostics_of(&format!("{VALID}{page}").replace("\"fit.model\"", "\"page.page\""), &[])[0],
        "18:9 `page.page` is the `page` of a `report`; `model` wants the `model` of a `train` or of an `import_model` / did you mean `fit.model`?"
    );
}

#[test]
fn implausible_settings_are_warnings() {
    let overrides = ["stage.fit.train.learning_rate=10", "stage.fit.train.loss.max.margin=20"];
    let pipeline = load_bytes(VALID.as_bytes(), &overrides, true).expect("warnings alone");
    assert_eq!(pipeline.warnings.error_count(), 0);
    let text = pipeline.warnings.render(false);
    assert!(
        text.starts_with("warning: `learning_rate`: got 10; usual is 1e-5 to 1e-2 with Adam\n--> command line\n"),
        "{text}"
    );
    let carets = format!("--set stage.fit.train.loss.max.margin=20\n | {}^^\n\n", " ".repeat(38));
    assert!(text.ends_with(&carets), "{text}");
    assert_eq!(pipeline.warnings.to_json()[0]["severity"], "warning");
    // Beside mistakes, warnings are shown and not counted.
    let diagnostics = load_bytes(VALID.as_bytes(), &["stage.fit.train.batch_size=1", overrides[0]], true);
    let diagnostics = diagnostics.expect_err("a batch of one pair");
    assert_eq!((diagnostics.as_slice().len(), diagnostics.error_count()), (2, 1));
    assert!(diagnostics.render(false).contains("error: 1 mistake in"));
    assert_eq!(diagnostics.to_json()[0]["severity"], "error");
}

#[test]
fn patterns_set_all_stages_of_a_kind() {
    let second = "[stage.fit-b.train]\nfeatures = \"cnn.features\"\ncaptions = \"pairs.captions\"\nepochs = 3\n";
    let text = format!("{VALID}{second}");
    let epochs = |assignment: &str| {
        let pipeline = load_bytes(text.as_bytes(), &[assignment], true).expect(assignment);
        ["fit", "fit-b"].map(|stage| settings(&pipeline, stage)["epochs"].clone())
    };
    assert_eq!(epochs("stage.*.train.epochs=7"), [7, 7]);
    assert_eq!(epochs("stage.*-b.train.epochs=7"), [2, 7]);
    assert_eq!(epochs("stage.\"fit-b\".train.'epochs'=7"), [2, 7]);
    let wrong = |assignment: &str| diagnostics_of(&text, &[assignment]).join("; ");
    assert_eq!(wrong("stage.*.trian.epochs=7"), "1:15 the file has no stage of kind `trian` / did you mean `train`?");
    assert_eq!(wrong("stage.x*.train.epochs=7"), "1:13 no stage of kind `train` matches `x*`");
    assert_eq!(
        wrong("stage.*.*.seed=7"),
        "1:13 `*` stands for stages of one kind, and none is named / name the kind: `stage.*.ingest.…`"
    );
    assert_eq!(wrong("stage.*.train.epohcs=7"), "1:21 `train` has no setting `epohcs` / did you mean `epochs`?");
    let unclosed = wrong("stage.fit.train.loss={max={margin=0.1}");
    assert!(unclosed.starts_with("1:28 the value is not TOML: "), "{unclosed}");
    assert!(wrong("stage.\"fit.train.epochs=7").starts_with("1:7 `stage.\"fit.train.epochs=7` assigns nothing"));
}

#[test]
fn a_missing_file_is_answered_with_the_near_ones() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("pipelines")).unwrap();
    for name in ["mine.toml", "Cargo.toml", "pipelines/quickstart.toml"] {
        std::fs::write(folder.path().join(name), VALID).unwrap();
    }
    let shown = |name: &str| {
        let options = LoadOptions {
            overrides: &[],
            profile: None,
            only: &[],
            except: &[],
            environment: &|_| None,
            sources_must_exist: true,
            check_queries: &|_, _| Vec::new(),
        };
        let diagnostics = load::<AnyStage>(&folder.path().join(name), &options).expect_err(name);
        diagnostics.render(false).replace(&format!("{}/", folder.path().display()), "")
    };
    let there = " = there are `mine.toml`, `pipelines/quickstart.toml`\n";
    assert_eq!(
        shown("quickstart.toml"),
        format!(
            "error: there is no pipeline file `quickstart.toml`\n = hint: did you mean `pipelines/quickstart.toml`?\n{there}\n"
        )
    );
    assert!(shown("mien.toml").contains("did you mean `mine.toml`?\n"));
    assert!(shown("pipelines/quickstart").contains("did you mean `pipelines/quickstart.toml`?\n"));
    assert_eq!(
        shown("pipelines"),
        "error: `pipelines` is a folder, expected a pipeline file\n = there are `pipelines/quickstart.toml`\n\n"
    );
}

/// Problems of a stage as a whole have the same place.
#[test]
fn two_missing_settings_are_two_mistakes() {
    let without =
        VALID.replace("images = \"vectors.image_embeddings\"\ncaptions = \"vectors.caption_embeddings\"\n", "");
    let found = diagnostics_of(&without, &[]);
    assert!(found.len() == 2 && found[0].starts_with("22:8 `images`: is missing"), "{found:#?}");
    assert!(found[1].starts_with("22:8 `captions`: is missing"), "{found:#?}");
}

/// Slips of newcomers: each message has a hint that leads to the right form.
#[test]
fn hints_about_the_form_of_a_file() {
    let cases = [
        (
            "epochs = 2",
            "epochs = 2\nepochs = 3",
            "16:1 `epochs` is set twice; the first is in line 15 / keep one of the two",
        ),
        (
            "loss = \"max\"",
            "loss = max",
            "14:8 not TOML: string values must be quoted, expected literal string / write `\"max\"`",
        ),
        (
            "loss = \"max\"",
            "loss = “max”",
            "14:8 not TOML: string values must be quoted, expected literal string / use straight quotes: `\"max\"`",
        ),
        (
            "epochs = 2",
            "epochs = 2\nlearning_rate = 0,1",
            "16:18 not TOML: unexpected key or value, expected newline, `#` / decimals have a point: `0.1`",
        ),
        (
            "epochs = 2",
            "epochs: 2",
            "15:7 not TOML: got `:`, expected `=` / a colon is YAML; a pipeline file is TOML: tables `[stage.NAME.KIND]`, settings `name = value`",
        ),
        (
            "[stage.fit.train]",
            "[stage.my fit.train]",
            "11:10 not TOML: unclosed table, expected `]` / names of stages have letters, digits, `-` and `_`",
        ),
        (
            "epochs = 2",
            "epochs = \"2\"",
            "15:10 `epochs` is the string \"2\", expected an integer / leave out the quotes: `2`",
        ),
        ("epochs = 2", "epochs = 2.0", "15:10 `epochs` is the number 2.0, expected an integer / write `2`"),
        ("epochs = 2", "epochs = 0", "15:10 `epochs` is the integer 0, expected an integer of at least 1"),
        (
            "weights = \"random\"",
            "weights = \"a/squeezenet.safetensors\"",
            "9:11 `weights` is the string \"a/squeezenet.safetensors\" / write `{ file = \"a/squeezenet.safetensors\" }`",
        ),
        (
            "epochs = 2",
            "epochs = 2\nembed_size = 64",
            "16:1 `train` has no setting `embed_size` / settings of that name: `model.vse.embed_size`, `model.scan.embed_size`, `model.vsrn.embed_size`, `model.sgraf.embed_size`",
        ),
        (
            "[stage.fit.train]",
            "[stage.train.fit]",
            "11:14 stage `train` has no kind `fit` / the name is first: write `[stage.fit.train]`",
        ),
        (
            "[stage.fit.train]",
            "[stage.fit.v2.train]",
            "11:12 stage `fit` has no kind `v2` / a name has no dot: write `[stage.fit-v2.train]`",
        ),
        ("[stage.fit.train]", "[fit.train]", "11:2 a pipeline file has no `fit` / write `[stage.fit.train]`"),
        (
            "[stage.fit.train]",
            "[stage.fit]\nepochs = 3\n[stage.fit.train]",
            "12:1 `epochs` is beside the kind `train` of stage `fit` / settings belong below `[stage.fit.train]`",
        ),
        ("at_least = 300", "at_least = 300\nat_most = 200", "30:11 no number is at least 300 and at most 200"),
        (
            "at_least = 300",
            "at_least = 300\nseed = 3",
            "30:1 `[[expect]]` has no setting `seed` / the seed of the pipeline stands above the first `[…]` of the file",
        ),
    ];
    for (from, to, expected) in cases {
        assert_eq!(changed(from, to), [expected], "{to}");
    }
    let twice = format!("{VALID}\n[stage.fit.train]\nepochs = 3\nloss = \"sum\"\n");
    assert_eq!(
        diagnostics_of(&twice, &[]),
        [
            "31:12 the table `[stage.fit.train]` is there twice; the first is in line 11 / give one of the stages another name, or join the two tables"
        ]
    );
    assert_eq!(
        diagnostics_of(&VALID.replace("[stage.", "[stages."), &[]),
        ["3:2 a pipeline file has no `stages` / did you mean `stage`?"]
    );
    let json = diagnostics_of("{\"stage\": {}}\n", &[]);
    assert!(json.len() == 1 && json[0].contains("this looks like JSON"), "{json:?}");
}

/// A wrong setting, a wrong connection and a wrong query are told together. A query of a stage with mistakes is not checked.
#[test]
fn mistakes_of_every_kind_are_reported_together() {
    let expect = "\n[[expect]]\nsql = \"SELECT nothing FROM fit.history\"\nat_least = 1\n\n[[expect]]\nsql = \"SELECT nothing FROM pairs.images\"\nat_least = 1\n";
    let wrong = VALID
        .replace("epochs = 2", "epochs = \"2\"")
        .replace("vectors.caption_embeddings", "vectors.captoin_embeddings");
    let found = diagnostics_of(&format!("{wrong}{expect}"), &[]);
    assert!(found.len() == 3, "{found:#?}");
    assert!(found[0].starts_with("15:10 `epochs` is the string"), "{found:#?}");
    assert!(found[1].contains("writes no `captoin_embeddings`"), "{found:#?}");
    assert_eq!(found[2], "36:7 no such table / name one");
}
