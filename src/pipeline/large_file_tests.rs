//! Tests of large files and of damaged ones: few messages for many mistakes, and never a panic.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::testing::load_bytes;
use super::tests::{VALID, diagnostics_of};

/// A text for each number, joined.
fn repeated(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).fold(String::new(), |mut text, i| {
        let _ = write!(text, "{}", line(i));
        text
    })
}

#[test]
fn a_file_with_a_hundred_thousand_errors_of_syntax_is_refused() {
    let found = diagnostics_of(&"a\n".repeat(100_000), &[]);
    assert_eq!(found.len(), 201);
    assert!(found[199].starts_with("200:"), "{}", found[199]);
    assert_eq!(found[200], "201:2 not TOML: 99800 more places from here on");
}

#[test]
fn unknown_settings_have_their_places_and_the_first_have_suggestions() {
    let text =
        format!("[stage.a.extract]\nimages = \"pairs.images\"\n{}", repeated(50_000, |i| format!("netwerk{i} = 1\n")));
    let diagnostics = load_bytes(text.as_bytes(), &[], true).expect_err("no setting has these names");
    let found = diagnostics.as_slice();
    let unknown: Vec<_> =
        found.iter().filter(|found| found.problem.message.contains("has no setting `netwerk")).collect();
    assert_eq!(unknown.len(), 50_000);
    assert_eq!(diagnostics.position(unknown[49_999]), (50_002, 1));
    assert_eq!(unknown[0].problem.hint.as_deref(), Some("did you mean `network`?"));
    assert_eq!((&unknown[49_999].note, &unknown[49_999].problem.hint), (&None, &None));
    let text = diagnostics.render(false);
    assert!(text.contains(&format!("and {} more", found.len() - 20)), "{text}");
}

#[test]
fn a_message_about_a_missing_stage_lists_a_hundred_others_at_most() {
    let stages = repeated(150, |i| format!("[stage.a{i}.extract]\nimages = \"z.images\"\nweights = \"random\"\n"));
    let stages = stages.replace("weights", "network = \"squeezenet1_0\"\nweights");
    let found = diagnostics_of(&stages, &[]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("no stage is called `z`; there are `a0`"), "{}", found[0]);
    assert!(found[0].contains(", and 50 more"), "{}", found[0]);
}

/// Mistakes of a file of one stage of data with this matrix, and `more`.
fn matrix_diagnostics(matrix: &str, more: &str) -> Vec<String> {
    diagnostics_of(&format!("[stage.pairs.ingest]\nsynthetic = {{}}\n{matrix}\n{more}"), &[])
}

fn assert_has(found: &[String], wanted: &str) {
    assert!(found.iter().any(|line| line.contains(wanted)), "{wanted}: {:?}", &found[..found.len().min(3)]);
}

#[test]
fn an_axis_reports_a_long_setting_and_each_of_its_overlaps_once() {
    let axis = |name: &str| format!("[matrix.{name}]\nsetting = \"pairs.synthetic.seed\"\nvalues = [1]\n");
    let long = axis("a").replace("seed", &"x.".repeat(10_000));
    assert_has(
        &matrix_diagnostics(&long, ""),
        "`setting` has 10002 names after that of the stage, expected at most 50",
    );
    // One mistake for each setting of an axis, not for each pair of axes.
    let found = matrix_diagnostics(&repeated(20, |i| axis(&format!("a{i}"))), "");
    assert_eq!(found.iter().filter(|line| line.contains("as axis `a0` does")).count(), 19, "{found:?}");
}

#[test]
fn an_axis_is_named_once_in_a_reference() {
    let matrix = "[matrix.a]\nsetting = \"pairs.synthetic.seed\"\nvalues = [1, 2]\n";
    for (selector, what) in [("a=1,a=2", "axis `a`"), ("*,*", "`*`"), ("a=*,a=1", "axis `a`")] {
        let concepts = format!("[stage.c.build_concepts]\ncaptions = \"pairs@{selector}.captions\"\n");
        let found = matrix_diagnostics(matrix, &concepts);
        assert_has(&found, &format!("got `pairs@{selector}.captions`, which has {what} twice"));
    }
}

/// Stages in the reverse order of their references: axes are found along a chain in one pass.
#[test]
fn axes_follow_long_chains_of_references() {
    let chain = repeated(400, |i| format!("[stage.s{i}.build_concepts]\ncaptions = \"s{}.captions\"\n", i + 1));
    let axes = repeated(20, |i| format!("[[matrix.a{i}]]\nname = 1\nset.s400.k{i} = 1\n"));
    let found = diagnostics_of(&format!("{chain}[stage.s400.build_concepts]\ncaptions = \"x.captions\"\n{axes}"), &[]);
    assert_has(&found, "no stage is called `x`");
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        if let Err(diagnostics) = load_bytes(&bytes, &[], true) {
            prop_assert!(!diagnostics.render(true).is_empty());
        }
    }

    #[test]
    fn mutated_files_never_panic(at in 0..VALID.len(), cut in 0usize..30, insert in "[\\[\\]{}=\"a-z0-9.\n ö]{0,12}") {
        let mut bytes = VALID.as_bytes().to_vec();
        let end = (at + cut).min(bytes.len());
        bytes.splice(at..end, insert.bytes());
        if let Err(diagnostics) = load_bytes(&bytes, &[], true) {
            prop_assert!(!diagnostics.as_slice().is_empty() && !diagnostics.render(true).is_empty());
        }
    }

    #[test]
    fn arbitrary_overrides_never_panic(text in "(stage|seed|expect)?[.](fit|0)?[.](train)?[.]?[a-z=.\"\\[{0-9ö]{0,12}") {
        if let Err(diagnostics) = load_bytes(VALID.as_bytes(), &[&text], true) {
            prop_assert!(!diagnostics.render(true).is_empty());
        }
    }
}
