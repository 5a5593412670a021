//! Reader of the images of a bucket.

use super::request_pace::RequestPace;
use pairloom_base::error::{Error, Result, TruncatedList};
use pairloom_storage::image_names::shown_name;
use pairloom_storage::objects::{ObjectStamp, ObjectStorage, ReadObject};

/// Number of changed objects that an error names.
const SHOWN: usize = 5;

/// Reader of objects at a limited rate. Failures that may be temporary are retried by the client of the bucket.
#[derive(Debug)]
pub struct ObjectFetcher {
    objects: ObjectStorage,
    pace: RequestPace,
}

impl ObjectFetcher {
    /// Reader of some objects at a time, and of `per_second` at most.
    ///
    /// # Errors
    /// Threads cannot be started.
    pub fn new(objects: ObjectStorage, parallel: usize, per_second: f64) -> Result<Self> {
        Ok(Self { objects, pace: RequestPace::new(parallel, per_second)? })
    }

    /// Reads objects by name and stamp, in their order. Calls `check` some times a second; its error ends the requests.
    ///
    /// # Errors
    /// An object is gone or has another stamp, or cannot be read; or an error of `check`.
    pub fn fetch_all(&self, wanted: &[(&str, ObjectStamp)], check: &dyn Fn() -> Result<()>) -> Result<Vec<Vec<u8>>> {
        let requests = wanted.iter().map(|(name, stamp)| async {
            self.pace.turn().await;
            self.objects.read_listed(name, *stamp).await
        });
        let mut changed = TruncatedList::new(SHOWN);
        let mut read = Vec::with_capacity(wanted.len());
        for (answer, (name, _)) in self.pace.run(requests, check)?.into_iter().zip(wanted) {
            match answer? {
                ReadObject::Bytes(bytes) => read.push(bytes),
                ReadObject::Changed => changed.extend([format!("`{}`", shown_name(name))]),
            }
        }
        if read.len() == wanted.len() {
            return Ok(read);
        }
        let (place, changed) = (self.objects.display_path(""), changed.join(", "));
        let error = Error::data(format!("objects of `{place}` changed after they were listed: {changed}"));
        Err(error.hint(
            "run the same command again when nothing writes there; an object whose key begins or ends with `/` is not found \
             again: rename or remove it",
        ))
    }
}
