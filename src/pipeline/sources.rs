//! Paths and URLs of sources in a pipeline file: their check, environment variables, and hints for missing files.

use std::collections::BTreeMap;
use std::path::Path;

use super::diagnostic::{Diagnostic, SourceSpan};
use super::schema_check::{SchemaChecker, ValueLabel};
use super::toml_tree::{TomlNode, TomlValue};
use pairloom_base::suggest::{closest_name, quoted_list};
use pairloom_stage::{bucket_url, is_url};

/// Maximum number of names of a folder that are compared with a missing name.
const COMPARED_NAMES: usize = 10_000;

/// Part of a path as written in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PathPart<'t> {
    Text(&'t str),
    /// Environment variable `${NAME}`.
    Variable(&'t str),
}

/// Splits a path at its environment variables; `None` if a variable has no name or no closing brace.
fn path_parts(text: &str) -> Option<Vec<PathPart<'_>>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (name, after) = after.split_once('}').filter(|(name, _)| !name.is_empty())?;
        parts.extend([PathPart::Text(before), PathPart::Variable(name)]);
        rest = after;
    }
    parts.push(PathPart::Text(rest));
    parts.retain(|part| *part != PathPart::Text(""));
    Some(parts)
}

/// Environment variables of the sources of a file, in the order of their first use.
#[derive(Debug, Default)]
pub(super) struct SourceVariables(Vec<SourceVariable>);

#[derive(Debug)]
struct SourceVariable {
    name: String,
    span: SourceSpan,
    is_folder: bool,
    /// Value; `None` if the variable is not set.
    value: Option<String>,
}

impl SourceVariables {
    /// Records a use of a variable.
    pub(super) fn add(&mut self, name: &str, span: SourceSpan, is_folder: bool, value: Option<String>) {
        match self.0.iter_mut().find(|known| known.name == name) {
            Some(known) => known.is_folder |= is_folder,
            None => self.0.push(SourceVariable { name: name.to_owned(), span, is_folder, value }),
        }
    }

    /// Values of the variables that are set.
    pub(super) fn values(&self) -> BTreeMap<String, String> {
        self.0.iter().filter_map(|variable| Some((variable.name.clone(), variable.value.clone()?))).collect()
    }

    /// Diagnostic for the variables that are not set, with the command that sets all variables of `file`.
    pub(super) fn unset_diagnostic(&mut self, file: &str) -> Option<Diagnostic> {
        self.0.sort_by_key(|variable| variable.span);
        let unset: Vec<_> = self.0.iter().filter(|variable| variable.value.is_none()).collect();
        let first = unset.first()?;
        let names = quoted_list(unset.iter().map(|variable| variable.name.as_str()));
        let message = match unset.len() {
            1 => format!("the environment variable {names} is not set or empty"),
            _ => format!("the environment variables {names} are not set or empty"),
        };
        let assignments: String = self
            .0
            .iter()
            .map(|variable| format!("{}={} ", variable.name, if variable.is_folder { "DIR" } else { "FILE" }))
            .collect();
        let hint = format!("`{assignments}pairloom run {file}`, or give the paths with `--set`");
        let diagnostic = Diagnostic::new(first.span, message).hint(hint);
        let all = quoted_list(self.0.iter().map(|variable| variable.name.as_str()));
        Some(if unset.len() < self.0.len() { diagnostic.note(format!("the file uses {all}")) } else { diagnostic })
    }
}

/// Hint for a missing file: the part of the path that exists, and a similar name there. `start` tells where relative
/// paths start.
fn missing_path_hint(path: &Path, start: &str) -> String {
    let Some(existing) = path.ancestors().skip(1).find(|folder| folder.is_dir()) else { return start.to_owned() };
    let missing = path.strip_prefix(existing).ok().and_then(|rest| rest.components().next());
    let Some(missing) = missing.map(|part| part.as_os_str().to_string_lossy().into_owned()) else {
        return start.to_owned();
    };
    if existing.join(&missing).is_symlink() {
        return format!("`{missing}` in `{}` is a link whose target does not exist; {start}", existing.display());
    }
    let entries = std::fs::read_dir(existing).into_iter().flatten().take(COMPARED_NAMES);
    let mut names: Vec<String> =
        entries.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned())).collect();
    names.sort_unstable();
    let meant = closest_name(&missing, names.iter().map(String::as_str));
    let meant = meant.map(|name| format!(", did you mean `{name}`?")).unwrap_or_default();
    format!("the folder `{}` has no `{missing}`{meant}; {start}", existing.display())
}

/// True for a variable whose value is a secret, by its name.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    name.ends_with("_KEY")
        || ["SECRET", "TOKEN", "PASSWORD", "PASSWD", "CREDENTIAL"].iter().any(|part| name.contains(part))
}

impl SchemaChecker<'_> {
    /// Replaces `${NAME}`, makes the path relative to the current folder, and checks that it exists. A URL is for settings
    /// that read buckets.
    pub(super) fn resolve_source(&mut self, node: &mut TomlNode, reads_buckets: bool, subject: &ValueLabel) {
        let TomlValue::Text(text) = &node.value else { return };
        let Some(parts) = path_parts(text) else {
            self.report_mismatch(node, subject, "`${NAME}` with a name and a closing brace");
            return;
        };
        let begins_with_variable = matches!(parts.first(), Some(PathPart::Variable(_)));
        let mut path = String::new();
        let mut is_complete = true;
        for (i, part) in parts.iter().enumerate() {
            match part {
                PathPart::Text(text) => path.push_str(text),
                PathPart::Variable(name) if is_secret(name) => {
                    let message = format!(
                        "stage `{}`: {} has `${{{name}}}`, which looks like a secret; messages and records show paths",
                        self.stage, subject.name
                    );
                    self.diagnostics.push(Diagnostic::new(node.span, message).hint("use a variable of another name"));
                    return;
                }
                PathPart::Variable(name) => {
                    let value = (self.environment)(name).filter(|value| !value.is_empty());
                    let is_folder = match parts.get(i + 1) {
                        Some(PathPart::Text(rest)) => rest.starts_with('/'),
                        Some(PathPart::Variable(_)) => false,
                        None => subject.is_folder,
                    };
                    self.variables.add(name, node.span, is_folder, value.clone());
                    is_complete &= value.is_some();
                    path.push_str(&value.unwrap_or_else(|| format!("${{{name}}}")));
                }
            }
        }
        if self.sources_needed && !is_complete {
            // All variables that are not set are reported together.
            return;
        }
        if is_url(&path) {
            match bucket_url(&path).map_err(|error| (error.to_string(), error.hint_text().map(str::to_owned))) {
                _ if !reads_buckets => self.report_url(node, &path, subject),
                Ok(url) => node.value = TomlValue::Text(url),
                Err((message, hint)) => {
                    let message = format!("stage `{}`: {}: {message}", self.stage, subject.name);
                    let diagnostic = Diagnostic::new(node.span, message);
                    self.diagnostics.push(match hint {
                        Some(hint) => diagnostic.hint(hint),
                        None => diagnostic,
                    });
                }
            }
            return;
        }
        if !node.span.is_argument() && !begins_with_variable {
            match self.folder.join(&path).into_os_string().into_string() {
                Ok(joined) => path = joined,
                Err(_) => {
                    self.report_mismatch(node, subject, "a path in Unicode, including the folder of the pipeline file");
                }
            }
        }
        if self.sources_needed && !Path::new(&path).exists() {
            let resolved = std::path::absolute(&path).unwrap_or_else(|_| Path::new(&path).to_owned());
            let message =
                format!("stage `{}`: {} is `{}`, which does not exist", self.stage, subject.name, resolved.display());
            let start = if path.contains('~') {
                "`~` is not replaced: write `${HOME}`, or the whole path"
            } else if node.span.is_argument() || begins_with_variable {
                "relative paths of `--set` and of environment variables start at the current folder"
            } else {
                "relative paths start at the folder of the pipeline file"
            };
            let hint = missing_path_hint(&resolved, start);
            self.diagnostics.push(Diagnostic::new(node.span, message).hint(hint));
        }
        node.value = TomlValue::Text(path);
    }

    /// Reports a URL in place of a path. The message shows its beginning only, since it may have a password in it.
    fn report_url(&mut self, node: &TomlNode, url: &str, subject: &ValueLabel) {
        let scheme = url.split("://").next().unwrap_or_default();
        let message = format!(
            "stage `{}`: {} is a URL, `{scheme}://…`, expected a path of this machine",
            self.stage, subject.name
        );
        self.diagnostics.push(Diagnostic::new(node.span, message).hint(if scheme == "file" {
            "write the path alone, without `file://`"
        } else {
            "copy it to this machine; from URLs come only the `images` of `image_folder`, `karpathy`, `flickr` and \
             `coco`, which can be in a bucket, and the images of `image_urls`"
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_split_at_variables() {
        use PathPart::{Text, Variable};
        assert_eq!(path_parts("a/b"), Some(vec![Text("a/b")]));
        assert_eq!(path_parts("${A}/b${C}"), Some(vec![Variable("A"), Text("/b"), Variable("C")]));
        assert_eq!((path_parts("${A"), path_parts("${}")), (None, None));
    }

    #[test]
    fn secrets_are_known_by_their_names() {
        assert!(["AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "db_password"].iter().all(|name| is_secret(name)));
        assert!(!["FLICKR30K", "DATA", "KEYS", "HOME"].iter().any(|name| is_secret(name)));
    }

    #[test]
    fn the_command_names_every_variable_once() {
        let mut variables = SourceVariables::default();
        variables.add("B", SourceSpan::in_file(9..10), false, None);
        variables.add("A", SourceSpan::in_file(1..2), false, Some("/a".to_owned()));
        variables.add("A", SourceSpan::in_file(20..21), true, Some("/a".to_owned()));
        let diagnostic = variables.unset_diagnostic("p.toml").unwrap();
        assert_eq!(diagnostic.problem.message, "the environment variable `B` is not set or empty");
        assert_eq!(diagnostic.note.unwrap(), "the file uses `A`, `B`");
        assert_eq!(
            diagnostic.problem.hint.unwrap(),
            "`A=DIR B=FILE pairloom run p.toml`, or give the paths with `--set`"
        );
        assert_eq!(SourceVariables::default().unset_diagnostic("p.toml"), None);
    }

    #[test]
    fn the_hint_names_the_folder_that_exists() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("captions.csv"), "").unwrap();
        let hint = |path: &str| missing_path_hint(&folder.path().join(path), "paths start here");
        let shown = folder.path().display();
        assert_eq!(
            hint("caption.csv"),
            format!("the folder `{shown}` has no `caption.csv`, did you mean `captions.csv`?; paths start here")
        );
        assert_eq!(hint("x/y/z"), format!("the folder `{shown}` has no `x`; paths start here"));
    }
}
