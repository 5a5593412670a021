//! Tests of large and hostile files. Their checks took minutes or gigabytes before they had limits, so a test that does not end
//! shows that one is missing. Arbitrary files and overrides give diagnostics, never a panic.

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
fn a_file_has_at_most_a_thousand_stages_and_a_hundred_profiles() {
    let stages = |count| repeated(count, |i| format!("[stage.a{i}.extract]\nimages = \"z{i}.images\"\n"));
    let found = diagnostics_of(&stages(1001), &[]);
    assert_eq!(found, ["2001:8 the file has 1001 stages, wanted at most 1000 / split it into several files"]);
    let found = diagnostics_of(&stages(1000), &[]);
    assert!(found.iter().all(|line| !line.contains("wanted at most")), "{}", found[0]);

    let profiles = repeated(101, |i| format!("[profile.p{i}]\n"));
    let found = diagnostics_of(&profiles, &[]);
    assert_eq!(found, ["101:10 the file has 101 profiles, wanted at most 100 / split it into several files"]);
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

#[test]
fn names_have_at_most_five_hundred_bytes() {
    let found = diagnostics_of(&format!("[stage.{}.extract]\nimages = \"x.images\"\n", "a".repeat(501)), &[]);
    assert_eq!(found, ["1:8 a name has 501 bytes, wanted at most 500"]);
    // Long references are compared with no name.
    let found = diagnostics_of(&format!("[stage.a.extract]\nimages = \"{}.images\"\n", "b".repeat(500_000)), &[]);
    assert!(found.iter().all(|line| !line.contains("did you mean")));
}

#[test]
fn instances_have_at_most_64_mib_of_settings() {
    let seeds: Vec<String> = (0..1000).map(|seed| seed.to_string()).collect();
    let long = "1, ".repeat(100_000);
    let text = format!(
        "[matrix.seed]\nsetting = \"fit.seed\"\nvalues = [{}]\n[stage.fit.train]\nepochs = [{long}]\n",
        seeds.join(", ")
    );
    let found = diagnostics_of(&text, &[]);
    let line = found.iter().find(|line| line.contains("MiB of settings"));
    let line = line.unwrap_or_else(|| panic!("{} mistakes, the first {}", found.len(), found[0]));
    assert!(line.starts_with("4:8 the instances up to this stage have more than 64 MiB of settings"), "{line}");
}

/// Mistakes of a file of one stage of data with this matrix, and `more`.
fn matrix_diagnostics(matrix: &str, more: &str) -> Vec<String> {
    diagnostics_of(&format!("[stage.pairs.ingest]\nsynthetic = {{}}\n{matrix}\n{more}"), &[])
}

fn assert_has(found: &[String], wanted: &str) {
    assert!(found.iter().any(|line| line.contains(wanted)), "{wanted}: {:?}", &found[..found.len().min(3)]);
}

#[test]
fn a_matrix_has_at_most_20_axes_and_ten_thousand_values_of_each() {
    let values = |count| repeated(count, |i| format!("{i}, "));
    let axis = |name: &str, values: &str| {
        format!("[matrix.{name}]\nsetting = \"pairs.synthetic.seed\"\nvalues = [{values}]\n")
    };
    let axes = |count| repeated(count, |i| axis(&format!("a{i}"), "1"));
    assert_has(&matrix_diagnostics(&axes(21), ""), "the matrix has 21 axes, wanted at most 20");
    assert_has(&matrix_diagnostics(&axis("a", &values(10_001)), ""), "axis `a` has 10001 values, wanted at most 10000");
    let long = axis("a", "1").replace("seed", &"x.".repeat(10_000));
    assert_has(&matrix_diagnostics(&long, ""), "`setting` has 10002 names after that of the stage, wanted at most 50");
    // One mistake for each setting of an axis, not for each pair of axes.
    let found = matrix_diagnostics(&axes(20), "");
    assert_eq!(found.iter().filter(|line| line.contains("as axis `a0` does")).count(), 19, "{found:?}");
    let excluded = format!("matrix.exclude = [{}]\n", "{ a = 1 }, ".repeat(10_001));
    let found = diagnostics_of(&format!("{excluded}{}", axis("a", "1")), &[]);
    assert_has(&found, "the matrix leaves out 10001 combinations, wanted at most 10000");
}

#[test]
fn axes_with_many_settings_of_many_values_are_refused() {
    let settings = repeated(1000, |i| format!("\"pairs.s{i}\", "));
    let values = repeated(1000, |i| format!("{i}, "));
    let found = matrix_diagnostics(&format!("[matrix.a]\nsettings = [{settings}]\nvalues = [{values}]\n"), "");
    assert_has(&found, "the axes have 1000000 pairs of a setting and a value, wanted at most 100000");
}

#[test]
fn a_reference_to_all_instances_counts_as_all_of_them() {
    let values = repeated(1000, |i| format!("{i}, "));
    let matrix = format!("[matrix.a]\nsetting = \"pairs.synthetic.seed\"\nvalues = [{values}]\n");
    let report = |count: usize| format!("[stage.r.report]\ncorrelations = [{}]\n", "\"pairs@*.c\", ".repeat(count));
    let wanted = "the instances up to this stage have more than 100000 references to tables";
    assert_has(&matrix_diagnostics(&matrix, &report(101)), wanted);
    let found = matrix_diagnostics(&matrix, &report(20));
    assert!(found.iter().all(|line| !line.contains(wanted)), "{found:?}");
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

/// 20 stages of 1,000 instances, and one more.
#[test]
fn a_file_has_at_most_20_000_instances() {
    let values = repeated(1000, |i| format!("{i}, "));
    let matrix = format!("[matrix.a]\nsetting = \"pairs.synthetic.seed\"\nvalues = [{values}]\n");
    let stages = repeated(20, |i| format!("[stage.c{i}.build_concepts]\ncaptions = \"pairs.captions\"\n"));
    assert_has(&matrix_diagnostics(&matrix, &stages), "the instances up to this stage are more than 20000");
}

#[test]
fn profiles_change_at_most_a_thousand_stages() {
    let profile = repeated(1001, |i| format!("set.s{i}.k = 1\n"));
    let found = matrix_diagnostics("", &format!("[profile.p]\n{profile}"));
    assert_has(&found, "the profiles change 1001 stages, wanted at most 1000");
}

#[test]
fn a_file_has_at_most_a_thousand_expectations() {
    let expectations = repeated(1001, |_| "[[expect]]\nsql = \"SELECT 1\"\nat_least = 1\n".to_owned());
    assert_has(&matrix_diagnostics("", &expectations), "the file has 1001 expectations, wanted at most 1000");
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
