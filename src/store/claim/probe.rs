//! Whether a server keeps writers apart.

use crate::error::{Error, Result};
use crate::store::claimant::token;
use crate::store::{HOLDS, Store};

/// Fails if a server does not do what several writers need: refuse to create what is there, and to replace what is no
/// longer what was seen. Without that, two runs could damage each other's results. Asks at a URL only.
///
/// # Errors
/// The server does not do it, or the store cannot be written.
pub fn check_writable(store: &Store) -> Result<()> {
    if store.objects().folder().is_some() {
        return Ok(());
    }
    let name = format!("{HOLDS}/probe-{}", token());
    let ignored = ignored(store, &name);
    // What cannot be removed is only untidy.
    let _ = store.objects().delete(&name);
    let Some(ignored) = ignored? else { return Ok(()) };
    let place = store.objects().place("");
    Err(Error::usage(format!("the server of `{place}` does not keep writers apart: it ignores `{ignored}`"))
        .hint("use a server that honours conditional writes, as Amazon S3, Google Cloud Storage, Azure and MinIO do"))
}

/// The condition that the server ignores, tried out on the object `name`.
fn ignored(store: &Store, name: &str) -> Result<Option<&'static str>> {
    let objects = store.objects();
    let Some(first) = objects.create_version(name, "1".into())? else {
        return Err(Error::internal(format!("`{}` is there already", objects.place(name))));
    };
    if objects.create(name, "2".into())? {
        return Ok(Some("If-None-Match"));
    }
    let second = objects.replace(name, "3".into(), &first)?;
    let again = objects.replace(name, "4".into(), &first)?;
    Ok(if second.is_none() || again.is_some() { Some("If-Match") } else { None })
}
