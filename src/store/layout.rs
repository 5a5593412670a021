//! A store: a folder of artefacts, or a place for them at a URL.

use std::path::Path;

use super::artefact::Artefact;
use super::claimant::Claimant;
use super::key::Key;
use crate::error::Result;
use crate::io::objects::{Location, Objects};

/// Version of the layout: the first folder of every store.
const LAYOUT: &str = "v1";

/// Where runs at a URL say that they use the store.
pub(crate) const HOLDS: &str = "holds";

/// A folder of artefacts, or a place for them at a URL.
#[derive(Debug, Clone)]
pub struct Store {
    objects: Objects,
    claimant: Claimant,
}

impl Store {
    /// The store in a local folder, which is made if it is not there.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn open(folder: &Path) -> Result<Self> {
        Ok(Self::over(Objects::local(&folder.join(LAYOUT))?, Claimant::new(None)))
    }

    /// The store at a place: a folder, which is made if it is not there, or a URL with its settings, which are named as in
    /// the environment (`AWS_REGION`). `locks` is a folder of the user for locks of what is at a URL.
    ///
    /// # Errors
    /// The folder cannot be made; a setting is wrong. No server is asked yet.
    pub fn at(location: &Location, settings: &[(String, String)], locks: Option<&Path>) -> Result<Self> {
        let locks = locks.filter(|_| matches!(location, Location::Url(_)));
        Ok(Self::over(Objects::open(&location.join(LAYOUT), settings)?, Claimant::new(locks)))
    }

    /// The store in `objects`: for tests that put a faulty store in between.
    #[must_use]
    pub fn over(objects: Objects, claimant: Claimant) -> Self {
        Self { objects, claimant }
    }

    /// Identity of this process to others that use the store.
    #[must_use]
    pub fn claimant(&self) -> &Claimant {
        &self.claimant
    }

    /// Its objects.
    #[must_use]
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The place of an artefact, which may be absent, unfinished or complete.
    #[must_use]
    pub fn artefact(&self, kind: &str, key: &Key) -> Artefact {
        Artefact::new(self.objects.clone(), format!("{kind}/{key}"))
    }
}
