//! A pass in sections, each of which is kept when it is done.
//!
//! A section is some stripes of rows: a function of the sizes alone. Of each are kept what its rows found, and what all columns
//! have found by its end; both exactly, so that it is all the same who computed them and how, and a search that goes on from
//! there finds what one does that was never ended.

use std::fmt::{self, Debug, Write};
use std::ops::Range;

use super::Watch;
use super::find::Search;
use super::pass::stripes;
use super::threads::in_parts;
use super::vectors::Vectors;
use crate::error::Result;

/// The most sections of a pass, for columns are kept after each.
const MOST: u128 = 64;

/// The sections of a pass.
#[derive(Debug)]
pub(super) struct Sections {
    /// Stripes of each; at least one section.
    pub stripes: Vec<Range<usize>>,
    /// What they are kept as; nothing is kept of a pass in one section.
    name: Option<String>,
}

impl Search<'_> {
    /// Those of a pass that finds what `asked` says, in its `Debug` form.
    pub(super) fn sections(&self, asked: &dyn Debug, watch: Watch<'_>) -> Sections {
        let rows = self.exact.rows.len();
        let count =
            watch.keeper().map_or(1, |keeper| self.work().div_ceil(keeper.worth().max(1).into()).clamp(1, MOST));
        let stripes = stripes(rows);
        let each = stripes.div_ceil(usize::try_from(count).unwrap_or(1)).max(1);
        let sections = (0..stripes.max(1)).step_by(each).map(|first| first..stripes.min(first + each));
        let sections: Vec<Range<usize>> = sections.collect();
        let name = (sections.len() > 1).then(|| self.name(&(asked, each)));
        Sections { stripes: sections, name }
    }

    /// Multiply-adds of a pass.
    pub(super) fn work(&self) -> u128 {
        let sizes = [self.exact.rows.len(), self.exact.columns.len(), self.exact.rows.width()];
        sizes.into_iter().map(|size| size as u128).product()
    }

    /// What follows from the vectors, the scoring and `asked`, and from nothing else, is called this.
    pub(super) fn name(&self, asked: &dyn Debug) -> String {
        let vectors = self
            .digest
            .get_or_init(|| [self.exact.rows, self.exact.columns].map(|vectors| digest(vectors, self.threads)));
        let mut hash = Hash(blake3::Hasher::new());
        for digest in vectors {
            hash.0.update(digest.as_bytes());
        }
        // Numbers have different texts if they are different.
        // Products of something else are rounded in other places, and with them sums.
        let (width, elsewhere) = (self.exact.rows.width(), self.products.is_some());
        write!(hash, "search 1 {width} {:?} {elsewhere} {asked:?}", self.exact.scoring).expect("a hash takes all");
        hash.0.finalize().to_hex()[..32].to_owned()
    }
}

impl Sections {
    /// What was kept as this part of this section.
    pub fn kept(&self, part: &str, section: usize, watch: Watch<'_>) -> Result<Option<Vec<i32>>> {
        self.name.as_ref().map_or(Ok(None), |name| kept(watch, &format!("{name} {part} {section}")))
    }

    /// Keeps `content` as this part of this section.
    pub fn keep(&self, part: &str, section: usize, watch: Watch<'_>, content: impl FnOnce() -> Vec<i32>) -> Result<()> {
        self.name.as_ref().map_or(Ok(()), |name| keep(watch, &format!("{name} {part} {section}"), content()))
    }
}

/// What was kept under a name, if it is what was kept.
pub(super) fn kept(watch: Watch<'_>, name: &str) -> Result<Option<Vec<i32>>> {
    let Some(keeper) = watch.keeper() else { return Ok(None) };
    let sound = |mut words: Vec<i32>| {
        let seal = words.pop()?;
        (seal == sealed(name, &words)).then_some(words)
    };
    Ok(keeper.kept(name)?.and_then(sound))
}

/// Keeps words under a name, sealed with it.
pub(super) fn keep(watch: Watch<'_>, name: &str, mut words: Vec<i32>) -> Result<()> {
    let Some(keeper) = watch.keeper() else { return Ok(()) };
    words.push(sealed(name, &words));
    keeper.keep(name, words)
}

/// A word that these words under this name end with, and others hardly.
fn sealed(name: &str, words: &[i32]) -> i32 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(name.as_bytes());
    for words in words.chunks(1 << 12) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        hasher.update(&bytes);
    }
    let [a, b, c, d, ..] = *hasher.finalize().as_bytes();
    i32::from_le_bytes([a, b, c, d])
}

/// A digest of all values, the same for any number of threads.
fn digest(vectors: &Vectors<'_>, threads: usize) -> blake3::Hash {
    /// Vectors that are digested together.
    const TOGETHER: usize = 1024;
    let group = |group: usize| {
        let mut hasher = blake3::Hasher::new();
        let mut bytes = Vec::new();
        for row in group * TOGETHER..vectors.len().min((group + 1) * TOGETHER) {
            bytes.clear();
            bytes.extend(vectors.row(row).iter().flat_map(|value| value.to_le_bytes()));
            hasher.update(&bytes);
        }
        hasher.finalize()
    };
    let groups = in_parts(threads, vectors.len().div_ceil(TOGETHER), |part| part.map(group).collect::<Vec<_>>());
    let mut hasher = blake3::Hasher::new();
    for group in groups.into_iter().flatten() {
        hasher.update(group.as_bytes());
    }
    hasher.finalize()
}

/// What is written to it is digested.
struct Hash(blake3::Hasher);

impl Write for Hash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}
