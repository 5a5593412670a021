//! Names of instances in diagnostics.

use std::collections::{BTreeSet, HashMap};

use super::connect::ParsedStage;
use super::diagnostic::Diagnostic;
use pairloom_stage::{INSTANCE_SIGN, is_instance_character};

/// Diagnostics that name stages without coordinates, since a mistake in the file is one of all instances. Equal ones are
/// left out.
pub(super) fn without_coordinates<S>(diagnostics: Vec<Diagnostic>, stages: &[ParsedStage<S>]) -> Vec<Diagnostic> {
    let instances = stages.iter().filter(|parsed| parsed.name != parsed.base);
    let instances: HashMap<&str, &str> = instances.map(|parsed| (parsed.name.as_str(), parsed.base.as_str())).collect();
    // A name may be followed by that of a table: `fit@seed=1.model`.
    let stage_of = |word: &str| {
        let own = instances.get(word).map(|stage| (*stage).to_owned());
        own.or_else(|| {
            let (name, table) = word.rsplit_once('.')?;
            Some(format!("{}.{table}", instances.get(name)?))
        })
    };
    let plain = |text: String| -> String {
        if !text.contains(INSTANCE_SIGN) {
            return text;
        }
        let words = text.split_inclusive(|c| !is_instance_character(c)).flat_map(|part| {
            match part.char_indices().next_back() {
                Some((at, last)) if !is_instance_character(last) => [&part[..at], &part[at..]],
                _ => [part, ""],
            }
        });
        words.map(|word| stage_of(word).unwrap_or_else(|| word.to_owned())).collect()
    };
    let mut seen = BTreeSet::new();
    let diagnostics = diagnostics.into_iter().map(|of| Diagnostic {
        message: plain(of.message),
        note: of.note.map(plain),
        hint: of.hint.map(plain),
        ..of
    });
    diagnostics.filter(|of| seen.insert((of.span, of.message.clone()))).collect()
}
