//! Vectors of one side as objects of at most 64 MiB.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::scores::VectorMatrix;
use pairloom_base::error::{Error, Result};

/// Largest size of an object.
const MAX_OBJECT_BYTES: usize = 64 << 20;

/// Vectors of one side: the names of objects that hold them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedVectors {
    /// Names of the objects, in the order of the vectors.
    pub objects: Vec<String>,
    pub count: usize,
    pub width: usize,
}

impl PublishedVectors {
    /// Publishes vectors: their values in f32, little-endian, row-major.
    ///
    /// # Errors
    /// The error of `publish`.
    pub fn publish(vectors: &VectorMatrix<'_>, publish: &mut dyn FnMut(Vec<u8>) -> Result<String>) -> Result<Self> {
        let (count, width) = (vectors.len(), vectors.width());
        let each = (MAX_OBJECT_BYTES / (4 * width)).max(1);
        let object = |first: usize| {
            let values = vectors.rows(first..count.min(first + each));
            publish(values.iter().flat_map(|value| value.to_le_bytes()).collect())
        };
        Ok(Self { objects: (0..count).step_by(each).map(object).collect::<Result<_>>()?, count, width })
    }

    /// Reads the vectors; `read` returns the content of an object.
    ///
    /// # Errors
    /// The error of `read`; the objects are not those of the vectors.
    pub fn read(&self, name: &str, read: &mut dyn FnMut(&str) -> Result<Vec<u8>>) -> Result<VectorMatrix<'static>> {
        let wanted = self.count.checked_mul(self.width).filter(|_| self.width > 0);
        let mut values: Vec<f32> = Vec::new();
        for object in &self.objects {
            let content = read(object)?;
            values.extend(content.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)));
        }
        if wanted != Some(values.len()) {
            let message =
                format!("`{name}` has {} values, wanted {} vectors of width {}", values.len(), self.count, self.width);
            return Err(Error::data(message));
        }
        VectorMatrix::from_cow(name, Cow::Owned(values), self.width, 1)
    }
}
