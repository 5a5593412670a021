//! Lineage of an artefact as an indented text: its inputs, their inputs, and so on down to the sources.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use super::console::one_line;
use pairloom_store::key::InputIdentity;
use pairloom_store::lineage::{ArtefactName, Lineage};
use pairloom_store::record::StageRecord;

/// Latest stage that uses an artefact, by kind and key, as [`RunLog::latest_uses`](pairloom_store::run_log::RunLog) gives.
type LatestUses<'r> = HashMap<(&'r str, &'r str), &'r StageRecord>;

/// Inputs of an artefact, one a line. The inputs of a producer are written where it appears first.
pub(super) fn lineage_tree(lineage: &Lineage, uses: &LatestUses<'_>, name: &ArtefactName) -> String {
    let mut tree = LineageTree { lineage, uses, shown: BTreeSet::new(), text: String::new() };
    tree.add_inputs(name, 1);
    tree.text
}

struct LineageTree<'l> {
    lineage: &'l Lineage,
    uses: &'l LatestUses<'l>,
    /// Producers that have been written.
    shown: BTreeSet<ArtefactName>,
    text: String,
}

impl LineageTree<'_> {
    fn add_inputs(&mut self, name: &ArtefactName, depth: usize) {
        let Some(identity) = self.lineage.identity(name) else { return };
        let indent = "  ".repeat(depth);
        let stage_of = |(kind, key): &ArtefactName| self.uses.get(&(kind.as_str(), key.as_str())).copied();
        for (input, of) in &identity.inputs {
            match of {
                InputIdentity::Source(digest) => {
                    let path = stage_of(name).and_then(|stage| stage.sources.get(input)).map_or("", String::as_str);
                    let digest = digest.get(..8).unwrap_or(digest);
                    let _ = writeln!(self.text, "{indent}{input}: {} (digest {digest})", one_line(path));
                }
                InputIdentity::Artefact { kind, key, output } => {
                    let producer = (kind.clone(), key.clone());
                    let stage = stage_of(&producer).map_or("", |stage| &stage.name);
                    let is_new = self.shown.insert(producer.clone());
                    let has_inputs = self.lineage.identity(&producer).is_some_and(|of| !of.inputs.is_empty());
                    let above = if !is_new && has_inputs { ", as above" } else { "" };
                    let _ = writeln!(
                        self.text,
                        "{indent}{input}: {}.{output} ({kind} {}{above})",
                        one_line(stage),
                        key.short()
                    );
                    if is_new {
                        self.add_inputs(&producer, depth + 1);
                    }
                }
            }
        }
    }
}
