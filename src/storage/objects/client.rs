//! Client of a store at a URL: server, settings, retries and time-outs.
//!
//! A request with a transient failure (no connection, a time-out, a server error, "slow down") is retried after 0.1 s,
//! then after random pauses of up to 10 s, for a minute in total ([`RetryPolicy::Standard`]). Before the server has
//! answered once, and after it has failed for a minute, requests are retried for five seconds only
//! ([`RetryPolicy::Short`]). So a wrong address is reported soon, and a run ends soon when its server is down. The
//! time-out is 5 s for a connection and 30 s for a request; a request of more than 16 MiB may take 10 minutes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use object_store::client::SpawnedReqwestConnector;
use object_store::http::HttpBuilder;
use object_store::path::Path as Name;
use object_store::prefix::PrefixStore;
use object_store::{BackoffConfig, ClientConfigKey, ClientOptions, ObjectStore, ObjectStoreScheme, RetryConfig};
use tokio::runtime::Runtime;
use url::Url;

use pairloom_base::error::{Error, Result};

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};

/// Maximum number of concurrent requests of one call.
pub(super) const CONCURRENT_REQUESTS: usize = 8;
/// Maximum bytes of a request with the standard time-out.
pub(super) const MAX_REQUEST_BYTES: u64 = 16 << 20;

/// Time for which a request is retried with the standard policy.
const RETRY_TIME: Duration = Duration::from_mins(1);

/// Clients of one store, by retry policy.
#[derive(Debug)]
pub(super) struct UrlClient {
    standard: Arc<dyn ObjectStore>,
    short: Arc<dyn ObjectStore>,
    large: Arc<dyn ObjectStore>,
    /// Prefix of all names in the bucket.
    prefix: Name,
    /// Client of the whole bucket, for full names.
    bucket: Arc<dyn ObjectStore>,
    /// True if the server has answered and has not failed for a whole minute since.
    is_reachable: AtomicBool,
}

/// Retry policy of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryPolicy {
    /// Retries for a minute.
    Standard,
    /// Retries for five seconds.
    Short,
    /// As `Standard`, with the time-out for large requests.
    Large,
}

impl UrlClient {
    /// Creates the clients of the store at `url`. Settings have the names of environment variables (`AWS_REGION`).
    pub(super) fn new(url: &Url, settings: &[(String, String)]) -> Result<Self> {
        let (_, prefix) =
            ObjectStoreScheme::parse(url).map_err(|error| Error::usage(format!("cannot open `{url}`: {error}")))?;
        let whole = open(url, settings, RetryPolicy::Standard)?;
        let below = |store| -> Arc<dyn ObjectStore> { Arc::new(PrefixStore::new(store, prefix.clone())) };
        let standard = below(Arc::clone(&whole));
        let short = below(open(url, settings, RetryPolicy::Short)?);
        let large = below(open(url, settings, RetryPolicy::Large)?);
        Ok(Self { standard, short, large, prefix, bucket: whole, is_reachable: AtomicBool::new(false) })
    }

    /// Uses `inner` for every policy, for tests.
    pub(super) fn single(inner: &Arc<dyn ObjectStore>) -> Self {
        let [standard, short, large, whole] = [(); 4].map(|()| Arc::clone(inner));
        Self { standard, short, large, prefix: Name::default(), bucket: whole, is_reachable: AtomicBool::new(true) }
    }

    /// Client of the whole bucket for readers with their own threads. Objects have their [full names](Self::full_name).
    pub(super) fn bucket(&self) -> &Arc<dyn ObjectStore> {
        &self.bucket
    }

    /// Full name of an object in the bucket.
    pub(super) fn full_name(&self, name: &str) -> String {
        self.prefix.parts().chain(Name::from(name).parts()).collect::<Name>().to_string()
    }

    /// Client for a request with this retry policy. While the server does not answer, the policy is always `Short`.
    pub(super) fn client_for(&self, policy: RetryPolicy) -> &Arc<dyn ObjectStore> {
        match policy {
            _ if !self.is_reachable.load(Ordering::Relaxed) => &self.short,
            RetryPolicy::Short => &self.short,
            RetryPolicy::Standard => &self.standard,
            RetryPolicy::Large => &self.large,
        }
    }

    /// Records whether the server answered a request that took `time`. A failure after less than a minute is not
    /// recorded, as it may be transient: a connection that breaks in the middle of a request fails at once.
    pub(super) fn record_result<T>(&self, time: Duration, result: &object_store::Result<T>) {
        let silent = matches!(result, Err(object_store::Error::Generic { .. }));
        if !silent || time >= RETRY_TIME {
            self.is_reachable.store(!silent, Ordering::Relaxed);
        }
    }
}

/// Tokio runtime of all clients of the process. Its threads wait for requests and do not compute.
///
/// # Errors
/// Threads cannot be started.
pub fn runtime() -> Result<&'static Runtime> {
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

fn retry(policy: RetryPolicy) -> RetryConfig {
    let short = (Duration::from_secs(1), Duration::from_secs(5));
    let (max_backoff, retry_timeout) =
        if policy == RetryPolicy::Short { short } else { (Duration::from_secs(10), RETRY_TIME) };
    let backoff = BackoffConfig { init_backoff: Duration::from_millis(100), max_backoff, base: 3.0 };
    // Retries are limited by time only.
    RetryConfig { backoff, max_retries: usize::MAX, retry_timeout }
}

/// Builds a client of `object_store` with the options that all services share: time-outs, settings, retries, threads.
/// Settings of other services are ignored.
macro_rules! built {
    ($builder:expr, $key:ty, $client:expr, $settings:expr, $policy:expr, $timeout:expr) => {{
        let builder = $builder.with_config($client(ClientConfigKey::Timeout), $timeout);
        let builder =
            $settings.iter().fold(builder, |builder, (name, value)| match name.to_ascii_lowercase().parse::<$key>() {
                Ok(key) => builder.with_config(key, value),
                Err(_) => builder,
            });
        let connector = SpawnedReqwestConnector::new(runtime()?.handle().clone());
        builder.with_retry(retry($policy)).with_http_connector(connector).build()
    }};
}

fn open(url: &Url, settings: &[(String, String)], policy: RetryPolicy) -> Result<Arc<dyn ObjectStore>> {
    let wrong = |error: object_store::Error| {
        let error = super::storage_error::cause(&error);
        Error::usage(format!("cannot open `{url}`: {error}"))
            .hint("its settings come from the environment: `AWS_REGION`, `AZURE_STORAGE_ACCOUNT_NAME` and their like")
    };
    let (scheme, _) =
        ObjectStoreScheme::parse(url).map_err(|error| Error::usage(format!("cannot open `{url}`: {error}")))?;
    let timeout = if policy == RetryPolicy::Large { "600s" } else { "30s" };
    Ok(match scheme {
        ObjectStoreScheme::AmazonS3 => {
            let builder = AmazonS3Builder::new().with_url(url.as_str());
            let key = AmazonS3ConfigKey::Client;
            Arc::new(built!(builder, AmazonS3ConfigKey, key, settings, policy, timeout).map_err(wrong)?)
        }
        ObjectStoreScheme::GoogleCloudStorage => {
            let builder = GoogleCloudStorageBuilder::new().with_url(url.as_str());
            let key = GoogleConfigKey::Client;
            Arc::new(built!(builder, GoogleConfigKey, key, settings, policy, timeout).map_err(wrong)?)
        }
        ObjectStoreScheme::MicrosoftAzure => {
            let builder = MicrosoftAzureBuilder::new().with_url(url.as_str());
            let key = AzureConfigKey::Client;
            Arc::new(built!(builder, AzureConfigKey, key, settings, policy, timeout).map_err(wrong)?)
        }
        _ => {
            let options = ClientOptions::new().with_allow_http(url.scheme() == "http");
            let builder = HttpBuilder::new().with_url(&url[..url::Position::BeforePath]).with_client_options(options);
            let key = std::convert::identity;
            // A web server has no settings of its own.
            let none: &[(String, String)] = &[];
            Arc::new(built!(builder, ClientConfigKey, key, none, policy, timeout).map_err(wrong)?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure() -> object_store::Result<()> {
        Err(object_store::Error::Generic { store: "S3", source: "connection closed".into() })
    }

    #[test]
    fn only_a_failure_of_a_minute_shortens_the_retries() {
        let url = Url::parse("http://127.0.0.1:1/store").unwrap();
        let client = UrlClient::new(&url, &[]).unwrap();
        let is_short = |client: &UrlClient| Arc::ptr_eq(client.client_for(RetryPolicy::Standard), &client.short);
        assert!(is_short(&client), "the server has not answered yet");
        client.record_result(Duration::from_millis(20), &Ok(()));
        assert!(!is_short(&client));
        client.record_result(Duration::from_millis(20), &failure());
        client.record_result(Duration::from_secs(6), &failure());
        assert!(!is_short(&client), "a connection that breaks at once may be transient");
        client.record_result(Duration::from_secs(61), &failure());
        assert!(is_short(&client));
        let absent = object_store::Error::NotFound { path: "a".into(), source: "404".into() };
        client.record_result(Duration::from_millis(20), &Err::<(), _>(absent));
        assert!(!is_short(&client), "an error of the server is an answer");
    }
}
