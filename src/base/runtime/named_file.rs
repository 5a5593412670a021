//! Files that queries read by a name.

use std::path::PathBuf;

/// File that a query reads by a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedFile {
    /// Name of the table.
    pub name: String,
    /// Path of the file. Its extension is the format.
    pub path: PathBuf,
}

impl std::str::FromStr for NamedFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, path)) if !path.is_empty() && is_name(name) => {
                Ok(Self { name: name.to_owned(), path: PathBuf::from(path) })
            }
            Some((name, path)) if !path.is_empty() => {
                Err(format!("the name `{name}`, wanted letters, digits and underscores, not a digit first"))
            }
            _ => Err("wanted NAME=FILE, for example `mine=scores.csv`".to_owned()),
        }
    }
}

fn is_name(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && name.chars().next().is_some_and(|first| !first.is_ascii_digit())
}
