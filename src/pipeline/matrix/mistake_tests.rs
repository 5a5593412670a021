//! Tests of files with several mistakes in rows and profiles: none hides another.

use super::tests::{MATRIX, file};
use crate::tests::{diagnostics_of, load_with};

/// Every diagnostic of a file with a profile as `line:column message / hint`.
fn with_profile(text: &str, profile: Option<&str>) -> Vec<String> {
    let diagnostics = load_with(text.as_bytes(), &[], (profile, &[]), true).expect_err("the file is wrong");
    let line = |diagnostic: &crate::Diagnostic| {
        let (line, column) = diagnostics.position(diagnostic);
        let hint = diagnostic.problem.hint.as_ref().map(|hint| format!(" / {hint}")).unwrap_or_default();
        format!("{line}:{column} {}{hint}", diagnostic.problem.message)
    };
    diagnostics.as_slice().iter().map(line).collect()
}

/// A profile with a mistake of each kind. It begins in line 44 of the file.
const PROFILES: &str = r#"
[profile.small.set]
fit.epohcs = 1
fit.batch_size = "x"
fitt.epochs = 1
vectors.model = "fit.modl"
"fit@row=9".epochs = 1
"fit@row=1.1".loss = { sum = { margni = 0.3 } }
"pairs@row=1.1".seed = 7
"fit@row=1.2,seed=3".epochs = true
"#;

const MISTAKES: [&str; 8] = [
    "45:5 `train` has no setting `epohcs` / did you mean `epochs`?",
    "46:18 `batch_size` is the string \"x\", expected an integer",
    "47:1 the file has no stage `fitt` / did you mean `fit`?",
    "48:17 `model` is `fit.modl`, but stage `fit` writes no `modl`; it writes ",
    "49:1 got `fit@row=9`, but axis `row` has no value `9`",
    "50:32 `sum` has no setting `margni` / did you mean `margin`?",
    "51:1 no instance of a stage matches `pairs@row=1.1` / `pairloom plan -v` lists the instances of `pairs`",
    "52:31 `epochs` is true, expected an integer",
];

#[test]
fn all_mistakes_of_a_profile_are_found_if_it_is_chosen_or_not() {
    let text = file(&format!("{MATRIX}{PROFILES}"));
    for profile in [None, Some("small")] {
        let found = with_profile(&text, profile);
        assert_eq!(found.len(), MISTAKES.len(), "{profile:?}: {found:#?}");
        for (found, expected) in found.iter().zip(MISTAKES) {
            assert!(found.starts_with(expected), "{profile:?}: {found}, expected {expected}");
        }
    }
    // Beside an unknown name.
    let found = with_profile(&text, Some("large"));
    assert_eq!(found.len(), MISTAKES.len() + 1, "{found:#?}");
}

/// A setting that another profile needs is no mistake of this one.
#[test]
fn a_profile_that_is_not_chosen_needs_no_sources_and_no_other_profile() {
    let profiles =
        "[profile.one]\nset.fit.word_vectors.file = \"${NOWHERE}/a.txt\"\n[profile.two]\nset.fit.epochs = 3\n";
    let loaded = load_with(file(&format!("{MATRIX}{profiles}")).as_bytes(), &[], (Some("two"), &["row=1.1"]), true);
    assert!(loaded.is_ok(), "{}", loaded.expect_err("wrong").render(false));
    let found = with_profile(&file(profiles), Some("one"));
    assert!(found.len() == 1 && found[0].contains("NOWHERE"), "{found:#?}");
}

#[test]
fn a_repeated_name_and_an_empty_axis_hide_no_other_mistake() {
    let rows = r#"
[matrix]
other = []
exclude = [{ other = 1, row = "a" }]

[[matrix.row]]
name = "a"
set.fit.epohcs = 1

[[matrix.row]]
name = "a"
set.fitt.epochs = 1
set.fit.batch_size = "x"

[[matrix.row]]
name = "b c"
set.vectors.model = "fit.modl"

[[matrix.row]]
loss = "max"
set.fit.loss = "mx"

[stage.page.report]
title = "Page"
significance_tests = ["compare@*.significance_tests"]
[stage.compare.test_significance]
rankings = "test@other=3.rankings"
against = "test@row=x.rankings"
"#;
    let found = diagnostics_of(&file(rows), &[]);
    let expected = [
        "32:1 axis `other` is an empty list",
        "37:9 `train` has no setting `epohcs` / did you mean `epochs`?",
        "40:8 axis `row` has the value `a` twice / give one of the two another name",
        "41:5 the file has no stage `fitt` / did you mean `fit`?",
        "42:22 `batch_size` is the string \"x\", expected an integer",
        "45:8 `name` of a row of axis `row` is the string \"b c\", which cannot be a part of a name",
        "46:21 `model` is `fit.modl`, but stage `fit` writes no `modl`; it writes ",
        "48:1 a row of axis `row` lacks a `name`",
        "49:1 a row of axis `row` has no `loss`",
        "50:16 `loss` is the string \"mx\"",
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found}, expected {expected}");
    }
}

/// A matrix of too many combinations, and one that is no table.
#[test]
fn a_matrix_that_cannot_be_expanded_hides_no_other_mistake() {
    let seeds: Vec<String> = (0..1001).map(|seed| seed.to_string()).collect();
    let many = format!(
        "[matrix.seed]\nsetting = \"fit.seed\"\nvalues = [{}]\n[[matrix.row]]\nname = \"a\"\nset.fit.epohcs = 1\n",
        seeds.join(", ")
    );
    let found = diagnostics_of(&file(&many), &[]);
    assert!(found.len() == 2 && found[0].contains("the matrix has 1001 combinations"), "{found:#?}");
    assert_eq!(found[1], "35:9 `train` has no setting `epohcs` / did you mean `epochs`?");
    let number = format!("matrix = 3\n{}", file("").replace("\"fit.model\"", "\"fit@row=1.modl\""));
    let found = diagnostics_of(&number, &[]);
    assert!(found.len() == 2 && found[1].contains("writes no `modl`"), "{found:#?}");
}
