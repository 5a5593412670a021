//! Tests of queries and expectations that would end the process, or be run in part.

use std::fs::{self, File};

use crate::cli::{SYNTHETIC, assert_code, command, folder, program, run, stderr, stdout};

#[test]
fn a_query_on_stdin_that_is_too_long_is_refused_and_no_part_of_it_runs() {
    let folder = folder(SYNTHETIC);
    assert_code(&run(folder.path(), &["run", "p.toml"]), 0);
    let answer = |bytes: usize| {
        // Cut anywhere in the comment, it is the same statement.
        let statement = "SELECT 41 + 1 AS n; -- ";
        let query = folder.path().join("query.sql");
        fs::write(&query, format!("{statement}{}", "x".repeat(bytes - statement.len()))).expect("a file");
        let mut sql = command(&program(), folder.path(), &["sql", "--format", "csv"]);
        sql.stdin(File::open(&query).expect("a file")).output().expect("the program starts")
    };
    let longest = answer(1 << 20);
    assert_code(&longest, 0);
    assert_eq!(stdout(&longest), "n\n42\n");
    let longer = answer((1 << 20) + 1);
    assert_code(&longer, 2);
    assert_eq!(stdout(&longer), "");
    let message = stderr(&longer);
    assert!(message.starts_with("error: the query has more than 1048576 bytes\n\nhint: "), "{message}");
}

#[test]
fn an_expectation_of_ten_thousand_operators_is_a_mistake_of_the_file() {
    let sum = format!("1{}", "+1".repeat(10_000));
    let folder = folder(&format!("{SYNTHETIC}\n[[expect]]\nsql = \"SELECT {sum}\"\nequals = 10001\n"));
    let output = run(folder.path(), &["check", "p.toml"]);
    // A process that a signal ends, as when the stack is used up, has no exit code.
    assert_code(&output, 2);
    let message = stderr(&output);
    assert!(message.starts_with("error: SQL: 10000 operators within each other, expected at most 1000\n"), "{message}");
    assert!(message.contains(" --> p.toml:5:7\n") && message.ends_with("error: 1 mistake in `p.toml`\n"), "{message}");
}

/// The texts of a batch of the result come to 3 GB. Arrow has 32 bits for their places, and panics.
#[test]
fn a_batch_of_more_than_two_gib_of_text_is_an_error() {
    let folder = folder(SYNTHETIC);
    assert_code(&run(folder.path(), &["run", "p.toml"]), 0);
    let query = "SELECT t FROM (SELECT repeat('x', 1000000) AS t) CROSS JOIN range(0, 3000)";
    let output = run(folder.path(), &["sql", query, "--format", "csv"]);
    // Arrow panics. An uncaught panic has exit code 101.
    assert_code(&output, 4);
    assert_eq!(stdout(&output), "");
    let message = stderr(&output);
    assert!(message.contains("error: SQL: a step of the query has more than 2 GiB of texts or lists"), "{message}");
}
