//! Check that an object store honours conditional writes.

use crate::process_identity::random_token;
use crate::{LOCKS_FOLDER, Store};
use pairloom_base::error::{Error, Result};

/// Checks that the server of a store at a URL honours conditional writes: creates an object only if it does not exist,
/// and replaces an object only if its version is the expected one. Without them, two runs could damage each other's
/// results.
///
/// # Errors
/// The server ignores one of the conditions, or the store cannot be written.
pub fn check_conditional_writes(store: &Store) -> Result<()> {
    if store.objects().folder().is_some() {
        return Ok(());
    }
    let name = format!("{LOCKS_FOLDER}/probe-{}", random_token());
    let ignored = ignored_condition(store, &name);
    // It does no harm if the object cannot be removed.
    let _ = store.objects().delete(&name);
    let Some(ignored) = ignored? else { return Ok(()) };
    let location = store.objects().display_path("");
    Err(Error::usage(format!("the server of `{location}` does not honour conditional writes: it ignores `{ignored}`"))
        .hint("use a server that honours conditional writes, such as Amazon S3, Google Cloud Storage, Azure or MinIO"))
}

/// Tests conditional writes with the object `name`, and returns the condition that the server ignores, if any.
fn ignored_condition(store: &Store, name: &str) -> Result<Option<&'static str>> {
    let objects = store.objects();
    let Some(first) = objects.create_version(name, "1".into())? else {
        return Err(Error::internal(format!("`{}` is there already", objects.display_path(name))));
    };
    if objects.create(name, "2".into())? {
        return Ok(Some("If-None-Match"));
    }
    let second = objects.replace(name, "3".into(), &first)?;
    let again = objects.replace(name, "4".into(), &first)?;
    Ok(if second.is_none() || again.is_some() { Some("If-Match") } else { None })
}
