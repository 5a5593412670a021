//! Lineage: the artefacts and sources that an artefact follows from.

use std::collections::{BTreeMap, BTreeSet};

use crate::Store;
use crate::key::{ArtefactIdentity, InputIdentity, Key};
use crate::record::{RunLog, RunRecord, StageRecord};
use pairloom_base::error::Result;

/// Kind and key of an artefact.
pub type ArtefactName = (String, Key);

/// Identities of artefacts, also of artefacts that were removed.
#[derive(Debug, Clone, Default)]
pub struct Lineage {
    identities: BTreeMap<ArtefactName, ArtefactIdentity>,
}

/// Artefact that another one follows from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ancestor {
    /// Kind and key.
    pub name: ArtefactName,
    /// Number of connections on the shortest way.
    pub distance: usize,
}

impl Lineage {
    /// Identities of all artefacts that the runs of a log used or wrote.
    ///
    /// Records of older versions have no identities; then the manifests are read. A stage that no record says to be
    /// complete, such as one of a failed run, counts if its artefact exists.
    pub fn of_runs(log: &RunLog) -> Result<Self> {
        log.read_all()?;
        let mut lineage = Self::default();
        let (complete, others): (Vec<&StageRecord>, Vec<&StageRecord>) =
            log.readable().flat_map(|run| &run.stages).partition(|stage| stage.reused || stage.seconds.is_some());
        for stage in complete {
            let name = (stage.kind.clone(), stage.key.clone());
            if !lineage.identities.contains_key(&name)
                && let Some(identity) = stage.identity(log.store())?
            {
                lineage.identities.insert(name, identity);
            }
        }
        let mut others: Vec<_> = others.iter().map(|stage| (stage.kind.clone(), stage.key.clone())).collect();
        others.retain(|name| !lineage.identities.contains_key(name));
        others.sort_unstable();
        others.dedup();
        let manifests = log.store().manifests_of(others.iter().map(|(kind, key)| (kind.as_str(), key)))?;
        for (name, manifest) in others.into_iter().zip(manifests) {
            if let Some(manifest) = manifest.transpose()? {
                lineage.identities.insert(name, manifest.identity);
            }
        }
        Ok(lineage)
    }

    /// Identities of the artefacts of one run, as far as its record has them.
    #[must_use]
    pub fn of_run(run: &RunRecord) -> Self {
        let identity = |stage: &StageRecord| Some(((stage.kind.clone(), stage.key.clone()), stage.identity.clone()?));
        Self { identities: run.stages.iter().filter_map(identity).collect() }
    }

    /// Identities of an artefact and of everything that it follows from, as far as manifests exist.
    pub fn of_artefact(store: &Store, name: &ArtefactName) -> Result<Self> {
        let mut lineage = Self::default();
        let mut open = vec![name.clone()];
        while let Some(name) = open.pop() {
            if lineage.identities.contains_key(&name) {
                continue;
            }
            let Some(manifest) = store.artefact(&name.0, &name.1).manifest()? else { continue };
            open.extend(artefact_inputs(&manifest.identity).map(|(_, producer)| producer));
            lineage.identities.insert(name, manifest.identity);
        }
        Ok(lineage)
    }

    /// Adds an identity.
    pub fn insert(&mut self, identity: ArtefactIdentity) {
        self.identities.insert((identity.kind.clone(), identity.key()), identity);
    }

    /// All known artefacts, ordered by kind and key.
    pub fn iter(&self) -> impl Iterator<Item = (&ArtefactName, &ArtefactIdentity)> {
        self.identities.iter()
    }

    /// Identity of an artefact; `None` if it is unknown.
    #[must_use]
    pub fn identity(&self, name: &ArtefactName) -> Option<&ArtefactIdentity> {
        self.identities.get(name)
    }

    /// Artefacts that `name` follows from, the nearest first, without `name` itself.
    #[must_use]
    pub fn ancestors(&self, name: &ArtefactName) -> Vec<Ancestor> {
        let mut seen = BTreeSet::from([name.clone()]);
        let mut found: Vec<Ancestor> = vec![];
        let mut level = vec![name.clone()];
        let mut distance = 0;
        while !level.is_empty() {
            distance += 1;
            let mut next = Vec::new();
            for identity in level.iter().filter_map(|name| self.identities.get(name)) {
                for (_, producer) in artefact_inputs(identity) {
                    if seen.insert(producer.clone()) {
                        next.push(producer);
                    }
                }
            }
            found.extend(next.iter().map(|name| Ancestor { name: name.clone(), distance }));
            level = next;
        }
        found
    }
}

/// Inputs of an artefact that come from other artefacts: the setting, and the kind and key of the producer.
pub fn artefact_inputs(identity: &ArtefactIdentity) -> impl Iterator<Item = (&str, ArtefactName)> {
    identity.inputs.iter().filter_map(|(input, identity_of_input)| match identity_of_input {
        InputIdentity::Artefact { kind, key, .. } => Some((input.as_str(), (kind.clone(), key.clone()))),
        InputIdentity::Source(_) => None,
    })
}
