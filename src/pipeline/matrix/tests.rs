//! Tests of the matrix: instances of a file, with their settings and references, and every kind of mistake.

use crate::testing::load_part;
use crate::tests::{VALID, diagnostics_of, load_with};
use pairloom_stage::Stage;

/// Rows and seeds for the file of the tests.
pub(super) const MATRIX: &str = r#"
[[matrix.row]]
name = "1.1"
set.fit.loss = { sum = { margin = 0.05 } }

[[matrix.row]]
name = "1.2"
set.fit.loss = { max = { margin = 0.1 } }
set.fit.model.vse.embed_size = 64

[matrix.seed]
setting = "fit.seed"
values = [1, 2, 3]
"#;

pub(super) fn file(matrix: &str) -> String {
    format!("{VALID}{matrix}")
}

/// Names of the stages of a file, with the settings of one as JSON.
fn names(text: &str, set: &[&str], only: &[&str]) -> Vec<String> {
    let pipeline =
        load_with(text.as_bytes(), set, (None, only), true).map_err(|found| found.render(false)).expect("valid");
    pipeline.plan.stages().iter().map(|node| node.name.clone()).collect()
}

fn setting(text: &str, set: &[&str], stage: &str, pointer: &str) -> String {
    let pipeline =
        load_with(text.as_bytes(), set, (None, &[]), true).map_err(|found| found.render(false)).expect("valid");
    let node = pipeline.plan.stages().iter().find(|node| node.name == stage).expect("the stage exists");
    node.stage.settings().pointer(pointer).map(ToString::to_string).unwrap_or_default()
}

/// Stages that one of the plan reads.
fn reads(text: &str, stage: &str) -> Vec<String> {
    let pipeline =
        load_with(text.as_bytes(), &[], (None, &[]), true).map_err(|found| found.render(false)).expect("valid");
    let node = pipeline.plan.stages().iter().find(|node| node.name == stage).expect("the stage exists");
    let from = |input: pairloom_stage::StageInput| match input.origin {
        pairloom_stage::InputOrigin::Table { from, .. } | pairloom_stage::InputOrigin::Files { from, .. } => {
            Some(from.to_string())
        }
        pairloom_stage::InputOrigin::Source(_) => None,
    };
    node.stage.inputs().into_iter().filter_map(from).collect()
}

#[test]
fn stages_that_depend_on_an_axis_are_repeated_and_others_exist_once() {
    let all = names(&file(MATRIX), &[], &[]);
    assert_eq!(all.len(), 2 + 3 * 6, "{all:#?}");
    assert_eq!(all.iter().filter(|name| name.starts_with("pairs") || name.starts_with("cnn")).count(), 2);
    assert!(all.contains(&"test@row=1.2,seed=3".to_owned()), "{all:#?}");
    assert_eq!(
        reads(&file(MATRIX), "test@row=1.2,seed=3"),
        ["vectors@row=1.2,seed=3.image_embeddings", "vectors@row=1.2,seed=3.caption_embeddings"]
    );
    assert_eq!(names(&file(MATRIX), &[], &["row=1.2", "seed=1,3"]).len(), 2 + 3 * 2);
}

#[test]
fn values_set_settings_and_replace_other_alternatives() {
    let of = |stage: &str, pointer: &str| setting(&file(MATRIX), &[], stage, pointer);
    assert_eq!(of("fit@row=1.1,seed=2", "/loss"), r#"{"sum":{"margin":0.05}}"#);
    assert_eq!(of("fit@row=1.2,seed=2", "/loss/max/margin"), "0.1");
    assert_eq!(of("fit@row=1.2,seed=2", "/seed"), "2");
    assert_eq!(
        (of("fit@row=1.2,seed=2", "/model/vse/embed_size"), of("fit@row=1.1,seed=2", "/epochs")),
        ("64".into(), "2".into())
    );
    // An axis that reaches into an alternative keeps the other settings of it.
    let margins = "\n[matrix.margin]\nsetting = \"fit.loss.max.margin\"\nvalues = [0.1, 0.2]\n";
    assert_eq!(setting(&file(margins), &[], "fit@margin=0.2", "/loss/max/margin"), "0.2");
}

#[test]
fn assignments_reach_all_instances_or_some() {
    let of = |set: &[&str], stage: &str| setting(&file(MATRIX), set, stage, "/epochs");
    for set in ["stage.fit.train.epochs=9", "stage.*.train.epochs=9"] {
        assert_eq!((of(&[set], "fit@row=1.1,seed=1"), of(&[set], "fit@row=1.2,seed=3")), ("9".into(), "9".into()));
    }
    let one = r#"stage."fit@row=1.2".train.epochs=9"#;
    assert_eq!((of(&[one], "fit@row=1.1,seed=1"), of(&[one], "fit@row=1.2,seed=3")), ("2".into(), "9".into()));
    // The command line is stronger than a row, and says so.
    let warnings = |set: &str| {
        let pipeline = load_with(file(MATRIX).as_bytes(), &[set], (None, &[]), true).expect("valid");
        pipeline.warnings.render(false)
    };
    let replaced = warnings("stage.fit.train.loss=max");
    assert!(replaced.contains("this replaces `fit.loss`, which 2 of the 2 rows of axis `row` set"), "{replaced}");
    let replaced = warnings("stage.fit.train.model.vse.embed_size=32");
    assert!(replaced.contains("`fit.model.vse.embed_size`, which 1 of the 2 rows"), "{replaced}");
    for set in ["stage.fit.train.epochs=9", r#"stage."fit@row=1.1".train.loss=max"#] {
        assert_eq!(warnings(set).trim(), "", "{set}");
    }
    let loss = setting(&file(MATRIX), &["stage.fit.train.loss=max"], "fit@row=1.1,seed=1", "/loss/max/margin");
    assert_eq!(loss, "0.2");
    assert_eq!(names(&file(MATRIX), &["matrix.seed.values=[7]"], &[]).len(), 2 + 3 * 2);
    // An instance is named after its value, so that its setting has no other.
    for (set, column) in [("stage.fit.train.seed=3", 28), (r#"stage."fit@seed=2".train.seed=9"#, 37)] {
        let hint =
            "choose values of the axis with `--only seed=…`, or set others with `--set 'matrix.seed.values=[…]'`";
        let message = "this replaces `fit.seed`, which axis `seed` of the matrix sets";
        assert_eq!(diagnostics_of(&file(MATRIX), &[set]), [format!("1:{column} {message} / {hint}")]);
    }
    let wrong = diagnostics_of(&file(MATRIX), &[r#"stage."fit@row=9".train.epochs=9"#]);
    assert!(wrong.len() == 1 && wrong[0].contains("no instance of a stage matches `fit@row=9`"), "{wrong:#?}");
    let wrong = diagnostics_of(&file(MATRIX), &[r#"stage."fit@row=1.1".trian.epochs=9"#]);
    assert_eq!(wrong, ["1:27 no instance that matches `fit@row=1.1` has the kind `trian` / did you mean `train`?"]);
}

#[test]
fn references_can_name_values_or_all_of_them() {
    let compare = r#"
[stage.compare.test_significance]
rankings = "test@row=1.1.rankings"
against = "test@row=1.2.rankings"

[stage.page.report]
title = "Page"
significance_tests = ["compare@*.significance_tests"]
"#;
    let text = file(&format!("{MATRIX}{compare}"));
    let all = names(&text, &[], &[]);
    assert_eq!(all.iter().filter(|name| name.starts_with("compare")).count(), 3, "{all:#?}");
    assert_eq!(reads(&text, "compare@seed=2"), ["test@row=1.1,seed=2.rankings", "test@row=1.2,seed=2.rankings"]);
    assert_eq!(all.iter().filter(|name| name.starts_with("page")).count(), 1);
    // A text that looks like a reference is none.
    let title = text.replace("\"Page\"", "\"test@*.summary\"");
    assert_eq!(setting(&title, &[], "page", "/title"), "\"test@*.summary\"");
    // With a part of the matrix, a comparison with the rest of it is left out.
    assert_eq!(names(&text, &[], &["row=1.1"]).iter().filter(|name| name.starts_with("compare")).count(), 0);
    assert_eq!(reads(&text, "page").len(), 3);
}

#[test]
fn a_profile_is_stronger_than_rows_and_weaker_than_the_command_line() {
    let profile = "[profile.small]\nset.fit.epochs = 7\nset.fit.loss.sum.margin = 0.3\n";
    let text = file(&format!("{MATRIX}{profile}"));
    let of = |profile: Option<&str>, set: &[&str], pointer: &str| {
        let pipeline = load_with(text.as_bytes(), set, (profile, &[]), true).expect("valid");
        let node = pipeline.plan.stages().iter().find(|node| node.name == "fit@row=1.1,seed=1").expect("the stage");
        node.stage.settings().pointer(pointer).map(ToString::to_string).unwrap_or_default()
    };
    assert_eq!((of(None, &[], "/epochs"), of(None, &[], "/loss/sum/margin")), ("2".into(), "0.05".into()));
    assert_eq!(
        (of(Some("small"), &[], "/epochs"), of(Some("small"), &[], "/loss/sum/margin")),
        ("7".into(), "0.3".into())
    );
    assert_eq!(of(Some("small"), &["stage.fit.train.epochs=9"], "/epochs"), "9");
    // `pairs` is not repeated over the rows.
    let wrong = text.replace("set.fit.epochs = 7", "set.\"pairs@row=1.1\".seed = 7");
    let wrong = load_with(wrong.as_bytes(), &[], (Some("small"), &[]), true).expect_err("no instance").render(false);
    assert!(wrong.contains("no instance of a stage matches `pairs@row=1.1`"), "{wrong}");
    let wrong = load_with(text.as_bytes(), &[], (Some("smal"), &[]), true).expect_err("no such profile").render(false);
    assert!(wrong.contains("the file has no profile `smal`") && wrong.contains("did you mean `small`?"), "{wrong}");
}

#[test]
fn combinations_can_be_left_out() {
    let exclude =
        format!("[matrix]\nexclude = [{{ row = \"1.1\", seed = 3 }}, {{ row = \"1.1\", seed = 2 }}]\n{MATRIX}");
    let all = names(&file(&exclude), &[], &[]);
    let fits: Vec<&String> = all.iter().filter(|name| name.starts_with("fit")).collect();
    assert_eq!(fits, ["fit@row=1.1,seed=1", "fit@row=1.2,seed=1", "fit@row=1.2,seed=2", "fit@row=1.2,seed=3"]);
}

#[test]
fn a_part_without_combinations_is_refused() {
    for only in [["row=1.1", "row=1.2"].as_slice(), &["row=9"], &["row"], &["sead=1"]] {
        let wrong = load_with(file(MATRIX).as_bytes(), &[], (None, only), true).expect_err("nothing is left");
        let wrong = wrong.render(false);
        let expected = match only {
            ["row=9"] => "`--only row=9`: axis `row` has no value `9`",
            ["row"] => "`--only row` names no value, expected `AXIS=VALUE`\n = values of `row`: `1.1`, `1.2`",
            ["sead=1"] => "the matrix of the file has no axis `sead`",
            _ => "`--only` chooses no combination of the matrix",
        };
        assert!(wrong.contains(expected), "{wrong}");
    }
}

#[test]
fn mistakes_of_a_matrix_have_their_place() {
    // The file of the tests has 29 lines.
    for (matrix, expected) in [
        (
            "[matrix.seed]\nsetting = \"fit.sead\"\nvalues = [1]",
            "31:11 `train` has no setting `sead` / did you mean `seed`?",
        ),
        (
            "[matrix.seed]\nsetting = \"fitt.seed\"\nvalues = [1]",
            "31:11 the file has no stage `fitt` / did you mean `fit`?",
        ),
        (
            "[matrix.seed]\nsetting = \"fit.seed\"\nvalues = [1, 1]",
            "32:14 axis `seed` has the value `1` twice / leave out one of the two",
        ),
        ("[matrix.seed]\nsetting = \"fit.seed\"\nvalues = []", "32:10 axis `seed` has no values"),
        (
            "[matrix.rate]\nsetting = \"fit.learning_rate\"\nvalues = [1e-3, nan]",
            "32:17 a value of axis `rate` is the number NaN, expected a text, a finite number or a boolean",
        ),
        (
            "[matrix.rate]\nsetting = \"fit.learning_rate\"\nvalues = [-inf]",
            "32:11 a value of axis `rate` is the number -inf, expected a text, a finite number or a boolean",
        ),
        (
            "[matrix.seed]\nsetting = \"fit.seed\"\nvalue = [1]",
            "32:1 axis `seed` has no `value` / did you mean `values`?",
        ),
        (
            "[[matrix.row]]\nname = \"a\"\nset.fit.epochs = 1\n[[matrix.row]]\nname = \"a\"\nset.fit.epochs = 2",
            "34:8 axis `row` has the value `a` twice / give one of the two another name",
        ),
        (
            "[[matrix.row]]\nname = \"a b\"\nset.fit.epochs = 1",
            "31:8 `name` of a row of axis `row` is the string \"a b\", which cannot be a part of a name / expected at most 64 letters, digits, `.`, `_`, `+` and `-`; rows have a `name` beside their settings",
        ),
        (
            "[[matrix.row]]\nname = \"a\"\nset.epochs = 1",
            "32:5 `set` has `epochs`, which is the integer 1, expected the name of a stage with its settings / write `set.STAGE.epochs = …`",
        ),
        (
            "[[matrix.row]]\nname = \"a\"\nloss = \"max\"",
            "32:1 a row of axis `row` has no `loss` / settings are below `set`: `set.STAGE.loss = …`",
        ),
        (
            "[[matrix.row]]\nname = \"a\"\nset.\"fit@seed=1\".epochs = 1",
            "32:5 the file has no stage `fit@seed=1` / did you mean `fit`?",
        ),
        (
            "[profile]\nsmall = 3",
            "31:9 profile `small` is the integer 3, expected a table / write `[profile.small]`, and below it `set.fit.epochs = 20`",
        ),
        (
            "[matrix]\nseed = [1, 2]",
            "31:8 axis `seed` is an array of values, expected the setting that they are of / write `[matrix.seed]` with `setting` and `values`, or rows `[[matrix.seed]]` with `name` and `set`",
        ),
        (
            "[[matrix.row]]\nname = \"a\"\nset.fit = { epochs = 1, seed = 2 }\n[matrix.epoch]\nsetting = \"fit.epochs\"\nvalues = [2, 3]",
            "35:11 axis `epoch` sets `fit.epochs`, as axis `row` does / set it in one of the two axes",
        ),
        (
            "[[matrix.row]]\nname = \"a\"\nset.fit.loss.max.margin = 0.2\n[[matrix.more]]\nname = \"b\"\nset.fit.loss = \"max\"",
            "35:16 axis `more` sets `fit.loss`, as axis `row` does / set it in one of the two axes",
        ),
        ("[matrix]\nrow = []", "31:1 axis `row` is an empty list / write rows `[[matrix.row]]` with `name` and `set`"),
        (
            "[matrix.Row]\nsetting = \"fit.seed\"\nvalues = [1]",
            "30:9 \"Row\" is not a valid name of an axis / it becomes a column in SQL: a lower-case letter, then lower-case letters, digits and `_`",
        ),
        (
            "[[matrix.row]]\nname = \"a\"\nset.fit.epochs = \"2\"",
            "32:18 `epochs` is the string \"2\", expected an integer / leave out the quotes: `2`",
        ),
    ] {
        let found = diagnostics_of(&file(&format!("\n{matrix}\n").replacen('\n', "", 1)), &[]);
        assert!(found.iter().any(|message| message == expected), "{matrix}\n{found:#?}\n{expected}");
        assert!(found.len() <= 2, "{found:#?}");
    }
}

/// An unknown stage in one row does not hide mistakes of the others.
#[test]
fn an_unknown_stage_and_an_unknown_setting_are_reported_together() {
    let rows = "[[matrix.row]]\nname = \"a\"\nset.fitt.epochs = 1\n[[matrix.row]]\nname = \"b\"\nset.fit.epochz = 1\n";
    assert_eq!(
        diagnostics_of(&file(rows), &[]),
        [
            "32:5 the file has no stage `fitt` / did you mean `fit`?",
            "35:9 `train` has no setting `epochz` / did you mean `epochs`?",
        ]
    );
}

/// Combinations that failed are left out, and what follows from them.
#[test]
fn combinations_are_left_out_from_the_command_line() {
    let page = "[stage.page.report]\ntitle = \"x\"\nsweep.summaries = [\"test@*.summary\"]\n";
    let text = file(&format!("{MATRIX}{page}"));
    let load = |except: &[&str]| load_part(text.as_bytes(), &[], (None, &["seed=1,2"], except), true);
    let pipeline = load(&["row=1.2,seed=2"]).map_err(|found| found.render(false)).expect("valid");
    let names: Vec<&str> = pipeline.plan.stages().iter().map(|node| node.name.as_str()).collect();
    assert!(names.contains(&"fit@row=1.2,seed=1") && !names.contains(&"fit@row=1.2,seed=2"), "{names:#?}");
    assert_eq!(names.len(), 2 + 3 * 3 + 1, "{names:#?}");
    assert!(pipeline.expectations.is_empty());
    assert!(pipeline.skipped.iter().all(|of| of.because == "--only") && !pipeline.skipped.is_empty());
    for (except, expected) in [
        ("row=9", "`--except row=9`: axis `row` has no value `9`"),
        ("row=1.1,sead=2", "`--except row=1.1,sead=2`: the matrix of the file has no axis `sead`"),
        ("row", "`--except row` names no value, expected `AXIS=VALUE`\n = values of `row`: `1.1`, `1.2`"),
    ] {
        let found = load(&[except]).expect_err("wrong").render(false);
        assert!(found.contains(expected), "{found}");
    }
    let found = load(&["seed=1", "seed=2"]).expect_err("nothing is left").render(false);
    assert!(found.contains("`--only` and `--except` choose no combination"), "{found}");
}

/// A mistake of all instances is told once, and a matrix of a million instances is refused before it is made.
#[test]
fn many_instances_have_one_message_and_a_limit() {
    let seeds: Vec<String> = (0..1000).map(|seed| seed.to_string()).collect();
    let many = format!("[matrix.seed]\nsetting = \"fit.seed\"\nvalues = [{}]\n", seeds.join(", "));
    let wrong = file(&many).replace("epochs = 2", "epochs = 2\nebochs = 2");
    assert_eq!(diagnostics_of(&wrong, &[]), ["16:1 `train` has no setting `ebochs` / did you mean `epochs`?"]);
    let wrong = file(&many).replace("\"fit.model\"", "\"fitt.model\"");
    let found = load_with(wrong.as_bytes(), &[], (None, &[]), true).expect_err("no such stage").render(false);
    assert!(found.contains("no stage is called `fitt`") && !found.contains("again"), "{found}");
    let wrong = file(&many).replace("\"fit.model\"", "\"fit.modle\"");
    let found = diagnostics_of(&wrong, &[]);
    assert!(found.len() == 1 && found[0].contains("writes no `modle`") && !found[0].contains('@'), "{found:#?}");
    let million = format!("{many}[matrix.epoch]\nsetting = \"fit.epochs\"\nvalues = [{}]\n", seeds[1..].join(", "));
    let found = diagnostics_of(&file(&million), &[]);
    assert!(found.len() == 1 && found[0].contains("the matrix has 999000 combinations"), "{found:#?}");
}
