//! The generated descriptions in `schemas/`: of pipeline files, of tables, of the command line.

use std::fmt::Write as _;

use clap::CommandFactory;
use clap_markdown::MarkdownOptions;

use super::args::Arguments;
use crate::stages::AnyStage;
use crate::tables::{self, Table};

/// Every file of `schemas/`: its name and content.
#[must_use]
pub fn all() -> Vec<(String, String)> {
    let mut files = vec![("pipeline.schema.json".to_owned(), pipeline()), ("cli.md".to_owned(), command_line())];
    files.extend(tables::all().iter().map(|described| (format!("{}.txt", described.name), table(described))));
    files
}

/// The JSON Schema of pipeline files.
pub(super) fn pipeline() -> String {
    format!("{:#}\n", crate::pipeline::schema::<AnyStage>())
}

/// The reference of the command line.
fn command_line() -> String {
    let options = MarkdownOptions::new().title("Command line".to_owned()).show_footer(false);
    // Which shell asks, and how wide its window is, must not matter; nor what the environment sets.
    let command = Arguments::command().term_width(0).mut_args(|argument| argument.hide_env_values(true));
    let text = clap_markdown::help_markdown_command_custom(&command, &options);
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    format!("{}\n", lines.join("\n").trim_end())
}

/// Name, meaning and columns of a table.
fn table(table: &Table) -> String {
    let rows: Vec<[String; 4]> = table
        .columns
        .iter()
        .map(|column| {
            let missing = if column.nullable { "may be missing" } else { "" };
            [column.name.to_string(), type_name(&column.data_type), missing.to_owned(), column.about.to_string()]
        })
        .collect();
    let width = |i: usize| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2)];
    let mut text = format!("{}\n\n{}\n\n", table.name, table.about);
    for [name, data_type, missing, about] in &rows {
        let mut line = format!("{name:0$}  {data_type:1$}  ", widths[0], widths[1]);
        if widths[2] > 0 {
            let _ = write!(line, "{missing:0$}  ", widths[2]);
        }
        let _ = writeln!(text, "{line}{about}");
    }
    text
}

/// The name of a type as the table's readers know it.
fn type_name(data_type: &arrow::datatypes::DataType) -> String {
    use arrow::datatypes::DataType;
    match data_type {
        DataType::FixedSizeList(item, 0) => format!("[{}; any width]", type_name(item.data_type())),
        DataType::FixedSizeList(item, width) => format!("[{}; {width}]", type_name(item.data_type())),
        DataType::List(item) => format!("[{}]", type_name(item.data_type())),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// What is committed is what the code says. `UPDATE_GENERATED=1 cargo test generated` writes it.
    #[test]
    fn generated_files_are_true() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
        let update = std::env::var_os("UPDATE_GENERATED").is_some();
        let mut stale = Vec::new();
        let files = super::all();
        for (name, content) in &files {
            let path = folder.join(name);
            if update {
                std::fs::create_dir_all(&folder).unwrap();
                std::fs::write(&path, content).unwrap();
            } else if std::fs::read_to_string(&path).ok().as_ref() != Some(content) {
                stale.push(name.clone());
            }
        }
        let there = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let there = there.map(|entry| entry.file_name().to_string_lossy().into_owned());
        stale.extend(
            there
                .filter(|name| !files.iter().any(|(known, _)| known == name))
                .map(|name| format!("{name} (no longer made)")),
        );
        assert!(
            stale.is_empty(),
            "schemas/ is not what the code says: {stale:?}; write it with `UPDATE_GENERATED=1 cargo test generated`"
        );
    }
}
