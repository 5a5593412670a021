//! The client of a store at a URL: which server, with which settings, and how patiently.
//!
//! A request that fails for a reason that may pass (no connection, a time-out, a server error, "slow down") is tried again
//! after 0.1 s, then after random pauses that grow to 10 s at most, for a minute in all ([`Patience::Usual`]). While
//! nothing is known of the server, or after it has failed for a minute, a request is given up after some five seconds
//! ([`Patience::Short`]): a wrong address is told soon, and a run whose server is gone ends soon. A connection must come
//! about in 5 s and a request be answered in 30 s; one that carries more than 16 MiB may take 10 minutes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::client::SpawnedReqwestConnector;
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::path::Path as Name;
use object_store::prefix::PrefixStore;
use object_store::{BackoffConfig, ClientConfigKey, ClientOptions, ObjectStore, ObjectStoreScheme, RetryConfig};
use tokio::runtime::Runtime;
use url::Url;

use crate::error::{Error, Result};

/// Bytes that one request carries within the usual time-out.
pub(super) const REQUEST: u64 = 16 << 20;

/// The clients of one store.
#[derive(Debug)]
pub(super) struct Client {
    usual: Arc<dyn ObjectStore>,
    short: Arc<dyn ObjectStore>,
    large: Arc<dyn ObjectStore>,
    /// What all names begin with, in the bucket.
    prefix: Name,
    /// The bucket, with all names in full.
    whole: Arc<dyn ObjectStore>,
    /// Whether the server answered the last request, or was not waited for long enough to say.
    reached: AtomicBool,
}

/// How long a request is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// For a minute.
    Usual,
    /// For some seconds.
    Short,
    /// As `Usual`, for much data.
    Large,
}

impl Client {
    /// The clients of the store at `url`, with settings as the environment names them (`AWS_REGION`).
    pub(super) fn new(url: &Url, settings: &[(String, String)]) -> Result<Self> {
        let (_, prefix) = ObjectStoreScheme::parse(url)
            .map_err(|error| Error::usage(format!("cannot open the store at `{url}`: {error}")))?;
        let whole = open(url, settings, Patience::Usual)?;
        let below = |store| -> Arc<dyn ObjectStore> { Arc::new(PrefixStore::new(store, prefix.clone())) };
        let usual = below(Arc::clone(&whole));
        let short = below(open(url, settings, Patience::Short)?);
        let large = below(open(url, settings, Patience::Large)?);
        Ok(Self { usual, short, large, prefix, whole, reached: AtomicBool::new(false) })
    }

    /// The one client `inner`, for tests.
    pub(super) fn of(inner: &Arc<dyn ObjectStore>) -> Self {
        let [usual, short, large, whole] = [(); 4].map(|()| Arc::clone(inner));
        Self { usual, short, large, prefix: Name::default(), whole, reached: AtomicBool::new(true) }
    }

    /// The client for readers that bring their own threads; it knows objects by their [`Client::path`].
    pub(super) fn whole(&self) -> &Arc<dyn ObjectStore> {
        &self.whole
    }

    /// The name of an object in the bucket.
    pub(super) fn path(&self, name: &str) -> String {
        self.prefix.parts().chain(Name::from(name).parts()).collect::<Name>().to_string()
    }

    /// Whom to ask now, if `patience` is wished for.
    pub(super) fn ask(&self, patience: Patience) -> &Arc<dyn ObjectStore> {
        match patience {
            _ if !self.reached.load(Ordering::Relaxed) => &self.short,
            Patience::Short => &self.short,
            Patience::Usual => &self.usual,
            Patience::Large => &self.large,
        }
    }

    /// Remembers whether the server answers. That it was silent for some seconds alone says nothing.
    pub(super) fn learn<T>(&self, patience: Patience, result: &object_store::Result<T>) {
        let silent = matches!(result, Err(object_store::Error::Generic { .. }));
        if !silent || patience != Patience::Short {
            self.reached.store(!silent, Ordering::Relaxed);
        }
    }
}

/// The threads that all clients of the process share: requests wait here, nothing computes.
///
/// # Errors
/// Threads cannot be started.
pub(in crate::io) fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("store")
        .enable_all()
        .build()
        .map_err(|error| Error::stage(format!("cannot start threads for the store: {error}")))?;
    Ok(RUNTIME.get_or_init(|| runtime))
}

fn retry(patience: Patience) -> RetryConfig {
    let (most, seconds) = if patience == Patience::Short { (1, 5) } else { (10, 60) };
    let backoff =
        BackoffConfig { init_backoff: Duration::from_millis(100), max_backoff: Duration::from_secs(most), base: 3.0 };
    // Time is what bounds them.
    RetryConfig { backoff, max_retries: usize::MAX, retry_timeout: Duration::from_secs(seconds) }
}

/// A builder of `object_store` with what all of them have: address, time-outs, settings, retries, threads. Settings of
/// other services are passed over.
macro_rules! built {
    ($builder:expr, $key:ty, $client:expr, $settings:expr, $patience:expr, $timeout:expr) => {{
        let builder = $builder.with_config($client(ClientConfigKey::Timeout), $timeout);
        let builder =
            $settings.iter().fold(builder, |builder, (name, value)| match name.to_ascii_lowercase().parse::<$key>() {
                Ok(key) => builder.with_config(key, value),
                Err(_) => builder,
            });
        let connector = SpawnedReqwestConnector::new(runtime()?.handle().clone());
        builder.with_retry(retry($patience)).with_http_connector(connector).build()
    }};
}

fn open(url: &Url, settings: &[(String, String)], patience: Patience) -> Result<Arc<dyn ObjectStore>> {
    let wrong = |error: object_store::Error| {
        let error = super::fault::cause(&error);
        Error::usage(format!("cannot open the store at `{url}`: {error}"))
            .hint("its settings come from the environment: `AWS_REGION`, `AZURE_STORAGE_ACCOUNT_NAME` and their like")
    };
    let (scheme, _) = ObjectStoreScheme::parse(url)
        .map_err(|error| Error::usage(format!("cannot open the store at `{url}`: {error}")))?;
    let timeout = if patience == Patience::Large { "600s" } else { "30s" };
    Ok(match scheme {
        ObjectStoreScheme::AmazonS3 => {
            let builder = AmazonS3Builder::new().with_url(url.as_str());
            let key = AmazonS3ConfigKey::Client;
            Arc::new(built!(builder, AmazonS3ConfigKey, key, settings, patience, timeout).map_err(wrong)?)
        }
        ObjectStoreScheme::GoogleCloudStorage => {
            let builder = GoogleCloudStorageBuilder::new().with_url(url.as_str());
            let key = GoogleConfigKey::Client;
            Arc::new(built!(builder, GoogleConfigKey, key, settings, patience, timeout).map_err(wrong)?)
        }
        ObjectStoreScheme::MicrosoftAzure => {
            let builder = MicrosoftAzureBuilder::new().with_url(url.as_str());
            let key = AzureConfigKey::Client;
            Arc::new(built!(builder, AzureConfigKey, key, settings, patience, timeout).map_err(wrong)?)
        }
        _ => {
            let options = ClientOptions::new().with_allow_http(url.scheme() == "http");
            let builder = HttpBuilder::new().with_url(&url[..url::Position::BeforePath]).with_client_options(options);
            let key = std::convert::identity;
            // A web server has no settings of its own.
            let none: &[(String, String)] = &[];
            Arc::new(built!(builder, ClientConfigKey, key, none, patience, timeout).map_err(wrong)?)
        }
    })
}
