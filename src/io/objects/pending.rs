//! A read that goes on while its reader does something else.

use bytes::Bytes;
use tokio::task::JoinHandle;

use crate::error::{Error, Result};
use crate::io::objects::Objects;

/// The content of an object, on its way. Dropped, it is called off.
#[derive(Debug)]
pub struct Pending {
    objects: Objects,
    name: String,
    /// The request, if the objects are at a URL; those of a folder are read when they are waited for.
    request: Option<JoinHandle<Result<Option<Bytes>>>>,
}

impl Pending {
    /// Starts to read the object `name`.
    pub(super) fn new(objects: Objects, name: &str) -> Result<Self> {
        let request = if objects.folder().is_none() {
            let (objects, name) = (objects.clone(), name.to_owned());
            let read = async move { objects.read(&name).await };
            Some(super::client::runtime()?.spawn(read))
        } else {
            None
        };
        Ok(Self { objects, name: name.to_owned(), request })
    }

    /// Whether [`Pending::wait`] would give the content at once.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.request.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// The content; `None` if there is no such object.
    ///
    /// # Errors
    /// As [`Objects::get`].
    pub fn wait(mut self) -> Result<Option<Bytes>> {
        match self.request.take() {
            Some(request) => super::client::runtime()?
                .block_on(request)
                .unwrap_or_else(|_| Err(Error::internal(format!("reading `{}` ended early", self.name)))),
            None => self.objects.get(&self.name),
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(request) = &self.request {
            request.abort();
        }
    }
}
