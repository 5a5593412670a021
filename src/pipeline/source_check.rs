//! Check of the paths and URLs of sources in a pipeline file.

use std::path::Path;

use super::diagnostic::Diagnostic;
use super::schema_check::{SchemaChecker, ValueLabel};
use super::sources::{PathPart, is_secret, missing_path_hint, path_parts};
use super::toml_tree::{TomlNode, TomlValue};
use pairloom_stage::{bucket_url, is_url};

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
        let message =
            format!("stage `{}`: {} is a URL, `{scheme}://…`, wanted a path of this machine", self.stage, subject.name);
        self.diagnostics.push(Diagnostic::new(node.span, message).hint(if scheme == "file" {
            "write the path alone, without `file://`"
        } else {
            "copy it to this machine; from URLs come only the `images` of `image_folder`, `karpathy`, `flickr` and \
             `coco`, which can be in a bucket, and the images of `image_urls`"
        }));
    }
}
