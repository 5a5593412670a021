//! Labels of runs and results: tags, notes and pins. Garbage collection spares everything that has one.
//!
//! ```text
//! tags/paper           name of a run
//! notes/RUN            text about a run
//! pins/RUN             empty: the results of this run stay
//! pins/train.93ab…     empty: this result stays, and everything that it follows from
//! ```

use std::collections::{BTreeMap, BTreeSet};

use crate::Store;
use crate::key::Key;
use pairloom_base::error::{Error, Result, escape_line};

/// Ways to name a run, for hints.
pub const RUN_FORMS: &str = "name a run by its name or its last four digits (`pairloom runs` lists them), by a tag, by \
    its pipeline (the last finished run), or as `latest`; `~1` after it means the different run before it";

/// Longest tag in bytes.
const MAX_TAG_BYTES: usize = 64;
/// Longest note in bytes.
const MAX_NOTE_BYTES: usize = 4096;

/// All labels of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    /// Run of each tag.
    pub tags: BTreeMap<String, String>,
    /// Note of each run.
    pub notes: BTreeMap<String, String>,
    /// Pinned runs.
    pub pinned_runs: BTreeSet<String>,
    /// Pinned artefacts, as kind and key.
    pub pinned_artefacts: BTreeSet<(String, String)>,
}

/// Run or artefact that a pin keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PinTarget {
    /// All results of a run, by its name.
    Run(String),
    /// An artefact, by kind and key, with everything that it follows from.
    Artefact(String, Key),
}

impl Labels {
    /// Reads all labels of a store.
    pub fn read(store: &Store) -> Result<Self> {
        let mut labels = Self::default();
        for name in store.objects().list("pins")? {
            let Some(target) = name.strip_prefix("pins/") else { continue };
            match target.split_once('.') {
                // Names of runs have a dot as well, in their time; kinds are lower-case words.
                Some((kind, key)) if kind.bytes().all(|b| b.is_ascii_lowercase() || b == b'_') => {
                    labels.pinned_artefacts.insert((kind.to_owned(), key.to_owned()));
                }
                _ => {
                    labels.pinned_runs.insert(target.to_owned());
                }
            }
        }
        labels.tags = read_texts(store, "tags")?;
        labels.notes = read_texts(store, "notes")?;
        Ok(labels)
    }

    /// Tags of a run, in alphabetical order.
    pub fn tags_of<'l>(&'l self, run: &'l str) -> impl Iterator<Item = &'l str> {
        self.tags.iter().filter(move |(_, tagged)| *tagged == run).map(|(tag, _)| tag.as_str())
    }

    /// Reason why garbage collection spares the results of a run; `None` if it does not.
    #[must_use]
    pub fn reason_to_keep(&self, run: &str) -> Option<String> {
        if let Some(tag) = self.tags_of(run).next() {
            return Some(format!("tag `{tag}`"));
        }
        if self.pinned_runs.contains(run) {
            return Some("pinned".to_owned());
        }
        self.notes.contains_key(run).then(|| "has a note".to_owned())
    }
}

/// Names and texts of the objects below `folder`.
fn read_texts(store: &Store, folder: &str) -> Result<BTreeMap<String, String>> {
    let names = store.objects().list(folder)?;
    let contents = store.objects().get_all(&names)?;
    let prefix = format!("{folder}/");
    let texts = names.iter().zip(contents).filter_map(|(name, content)| {
        Some((name.strip_prefix(&prefix)?.to_owned(), String::from_utf8_lossy(&content?).into_owned()))
    });
    Ok(texts.collect())
}

/// Run that a tag names; `None` if there is no such tag.
pub fn tagged_run(store: &Store, tag: &str) -> Result<Option<String>> {
    if check_tag(tag).is_err() {
        return Ok(None);
    }
    let content = store.objects().get(&format!("tags/{tag}"))?;
    Ok(content.map(|content| String::from_utf8_lossy(&content).into_owned()))
}

/// Gives a run a tag. With `replace`, an existing tag moves to this run.
///
/// # Errors
/// The tag is not a name, another run has it, or the store cannot be written.
pub fn set_tag(store: &Store, run: &str, tag: &str, replace: bool) -> Result<()> {
    check_tag(tag)?;
    let object = format!("tags/{tag}");
    let content = bytes::Bytes::from(run.to_owned());
    if replace {
        return store.objects().put(&object, content);
    }
    if store.objects().create(&object, content)? {
        return Ok(());
    }
    match tagged_run(store, tag)? {
        Some(other) if other == run => Ok(()),
        other => Err(Error::usage(format!("the tag `{tag}` names the run `{}`", other.unwrap_or_default()))
            .hint("move it with `--force`, or choose another tag")),
    }
}

/// Removes a tag.
///
/// # Errors
/// There is no such tag, or the store cannot be written.
pub fn remove_tag(store: &Store, tag: &str) -> Result<()> {
    if tagged_run(store, tag)?.is_none() {
        return Err(
            Error::usage(format!("there is no tag `{}`", escape_line(tag))).hint("`pairloom tag` lists the tags")
        );
    }
    store.objects().delete_all(&[format!("tags/{tag}")])
}

/// Sets the note of a run. An empty text removes the note.
///
/// # Errors
/// The text is too long or has control characters other than ends of lines, or the store cannot be written.
pub fn set_note(store: &Store, run: &str, text: &str) -> Result<()> {
    if text.len() > MAX_NOTE_BYTES {
        return Err(Error::usage(format!("the note has {} bytes, expected at most {MAX_NOTE_BYTES}", text.len())));
    }
    if let Some(control) = text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
        let shown = control.escape_debug();
        return Err(Error::usage(format!(
            "the note contains the control character `{shown}`, expected text and lines"
        )));
    }
    let object = format!("notes/{run}");
    if text.is_empty() {
        store.objects().delete_all(&[object])
    } else {
        store.objects().put(&object, text.to_owned().into())
    }
}

/// Pins a run or an artefact.
pub fn pin(store: &Store, target: &PinTarget) -> Result<()> {
    store.objects().put(&pin_object(target), bytes::Bytes::new())
}

/// Removes a pin.
///
/// # Errors
/// There is no such pin, or the store cannot be written.
pub fn unpin(store: &Store, target: &PinTarget) -> Result<()> {
    let object = pin_object(target);
    if store.objects().get(&object)?.is_none() {
        let name = match target {
            PinTarget::Run(run) => format!("the run `{run}`"),
            PinTarget::Artefact(kind, key) => format!("the result `{kind}/{}`", key.short()),
        };
        return Err(Error::usage(format!("{name} is not pinned")).hint("`pairloom pin` lists the pins"));
    }
    store.objects().delete_all(&[object])
}

fn pin_object(target: &PinTarget) -> String {
    match target {
        PinTarget::Run(run) => format!("pins/{run}"),
        PinTarget::Artefact(kind, key) => format!("pins/{kind}.{key}"),
    }
}

/// Checks the form of a tag: letters, digits, `.`, `_` and `-`; not the form of another name of a run.
///
/// # Errors
/// The tag has another form.
pub fn check_tag(tag: &str) -> Result<()> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let well_formed = (1..=MAX_TAG_BYTES).contains(&tag.len())
        && tag.chars().all(fits)
        && tag.starts_with(|c: char| c.is_ascii_alphanumeric());
    if !well_formed {
        return Err(Error::usage(format!(
            "`{}` cannot be a tag: expected 1 to {MAX_TAG_BYTES} letters, digits, `.`, `_` or `-`, a letter or digit first",
            escape_line(tag)
        )));
    }
    // Ends of names of runs have four digits, keys at least six; names of runs begin with the year.
    let hexadecimal = (tag.len() == 4 || tag.len() >= 6) && tag.chars().all(|c| c.is_ascii_hexdigit());
    let is_time = tag.starts_with("20") && tag.len() >= 4 && tag.chars().take(8).all(|c| c.is_ascii_digit());
    if tag.eq_ignore_ascii_case("latest") || hexadecimal || is_time {
        return Err(Error::usage(format!("`{tag}` cannot be a tag: it reads like the name of a run or a key")));
    }
    Ok(())
}
