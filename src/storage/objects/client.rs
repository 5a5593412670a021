//! Client of a store at a URL: server, settings, retries, time-outs and limits of answers.
//!
//! A request with a transient failure (no connection, a time-out, a server error, "slow down") is retried after 0.1 s,
//! then after random pauses of up to 10 s, for a minute in total ([`RetryPolicy::Standard`]). Before the server has
//! answered once, and after it has failed for a minute, requests are retried for five seconds only
//! ([`RetryPolicy::Short`]). So a wrong address is reported soon, and a run ends soon when its server is down. The
//! time-out is 5 s for a connection and 30 s for a request; a request of more than 16 MiB may take 10 minutes.
//!
//! Answers are limited, so that a server that never ends an answer cannot fill the memory, and a list cannot keep the
//! parser of XML busy.

use std::error::Error as Source;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use az::SaturatingAs;
use http_body_util::{BodyExt as _, Limited};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
    SpawnedReqwestConnector,
};
use object_store::http::HttpBuilder;
use object_store::path::Path as Name;
use object_store::prefix::PrefixStore;
use object_store::{BackoffConfig, ClientConfigKey, ClientOptions, ObjectStore, ObjectStoreScheme, RetryConfig};
use quick_xml::events::Event;
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
        let connector = LimitedConnector(SpawnedReqwestConnector::new(runtime()?.handle().clone()));
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

/// Largest object that is read whole.
pub(super) const MAX_OBJECT_BYTES: u64 = 4 << 30;
/// Largest answer that is no object: a list of objects, or the text of an error.
const MAX_LIST_BYTES: u64 = 64 << 20;
/// Largest tag of a list; tags of stores have less than 300 bytes. The parser of `object_store` (quick-xml before 0.41,
/// RUSTSEC-2026-0194 and RUSTSEC-2026-0195) takes time that grows with the square of the attributes of a tag, and
/// memory with each of its namespaces.
const MAX_TAG_BYTES: usize = 1024;

/// Connector whose clients limit answers.
#[derive(Debug)]
pub(super) struct LimitedConnector<C>(pub(super) C);

impl<C: HttpConnector> HttpConnector for LimitedConnector<C> {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(LimitedService(self.0.connect(options)?)))
    }
}

#[derive(Debug)]
struct LimitedService(HttpClient);

#[async_trait]
impl HttpService for LimitedService {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let range = request.headers().get("range").and_then(|range| range_bytes(range.to_str().ok()?));
        let asks_for_object = asks_for_object(&request);
        let answer = self.0.execute(request).await?;
        let announced = answer.headers().get("content-length").and_then(|bytes| bytes.to_str().ok()?.parse().ok());
        let is_success = answer.status().is_success();
        if asks_for_object && is_success {
            let limit = answer_limit(range.filter(|_| answer.status() == 206), announced);
            return Ok(answer.map(|body| limited(body, limit)));
        }
        let (head, body) = answer.into_parts();
        let content = limited(body, MAX_LIST_BYTES).bytes().await?;
        if is_success && let Some(bytes) = long_tag(&content) {
            return Err(HttpError::new(HttpErrorKind::Decode, RefusedAnswer::LongTag { bytes }));
        }
        Ok(HttpResponse::from_parts(head, content.into()))
    }
}

/// True for the request of an object or a part of it; false for those of lists and changes.
fn asks_for_object(request: &HttpRequest) -> bool {
    let query = request.uri().query().unwrap_or_default();
    request.method() == "GET" && !query.contains("list-type=") && !query.contains("comp=list")
}

/// Body that ends with an error after this number of bytes.
fn limited(body: HttpResponseBody, limit: u64) -> HttpResponseBody {
    HttpResponseBody::new(Limited::new(body, limit.saturating_as()).map_err(move |error| {
        match error.downcast::<HttpError>() {
            Ok(error) => *error,
            Err(_) => HttpError::new(HttpErrorKind::Decode, RefusedAnswer::Endless { limit }),
        }
    }))
}

/// Size of the first tag that is too long; `None` if there is none before the end or the first mistake in the XML.
fn long_tag(content: &[u8]) -> Option<usize> {
    let mut reader = quick_xml::Reader::from_reader(content);
    loop {
        match reader.read_event() {
            Ok(Event::Start(tag) | Event::Empty(tag)) if tag.len() > MAX_TAG_BYTES => return Some(tag.len()),
            Ok(Event::Eof) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}

/// Bytes that an object, or a range of it, may have.
fn answer_limit(range: Option<u64>, announced: Option<u64>) -> u64 {
    range.or(announced.map(|bytes| bytes.min(MAX_OBJECT_BYTES))).unwrap_or(MAX_LIST_BYTES)
}

/// Number of bytes of a range `bytes=7-9`; `None` for other forms.
fn range_bytes(range: &str) -> Option<u64> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    last.parse::<u64>().ok()?.checked_sub(first.parse().ok()?)?.checked_add(1)
}

/// Error of an answer that is not read to its end.
#[derive(Debug)]
pub(super) enum RefusedAnswer {
    /// The answer has more bytes than it may have.
    Endless { limit: u64 },
    /// A tag of a list is too long.
    LongTag { bytes: usize },
}

impl fmt::Display for RefusedAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Endless { limit } => write!(f, "the answer of the server has more than {limit} bytes"),
            Self::LongTag { bytes } => {
                write!(f, "the list of the server has a tag of {bytes} bytes, wanted at most {MAX_TAG_BYTES}")
            }
        }
    }
}

impl Source for RefusedAnswer {}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use object_store::client::HttpRequestBody;

    use super::*;
    use crate::objects::{Location, ObjectStorage};

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

    /// Store of a server that answers each request by `answer`.
    fn store_of_server(answer: impl Fn(&mut TcpStream) + Send + 'static) -> ObjectStorage {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serve = move || {
            for connection in listener.incoming() {
                let mut connection = connection.unwrap();
                let _ = connection.read(&mut [0; 4096]);
                answer(&mut connection);
            }
        };
        std::thread::Builder::new().name("test server".to_owned()).spawn(serve).unwrap();
        let location = Location::parse(format!("http://{address}/store").as_str().into()).unwrap();
        ObjectStorage::open(&location, &[]).unwrap()
    }

    /// Store of a server that answers each request with this head and then bytes without end.
    fn store_without_end(head: &'static str) -> ObjectStorage {
        store_of_server(move |connection| {
            let _ = connection.write_all(format!("HTTP/1.1 {head}\r\n\r\n").as_bytes());
            let piece = [&b"100000\r\n"[..], &vec![b'x'; 1 << 20], b"\r\n"].concat();
            while connection.write_all(&piece).is_ok() {}
        })
    }

    /// Store of a server that answers each request with this list.
    fn store_of_list(list: String) -> ObjectStorage {
        store_of_server(move |connection| {
            let head = format!("HTTP/1.1 207 Multi-Status\r\ncontent-length: {}\r\n\r\n", list.len());
            let _ = connection.write_all(&[head.as_bytes(), list.as_bytes()].concat());
        })
    }

    fn message<T: fmt::Debug>(result: Result<T, Error>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn an_answer_without_end_is_refused() {
        let chunked = store_without_end("207 Multi-Status\r\ntransfer-encoding: chunked");
        let list = message(chunked.list(""));
        assert!(list.contains("the answer of the server has more than 67108864 bytes"), "{list}");
        // Both headers: the length is claimed, and the pieces go on.
        let announced = store_without_end(
            "200 OK\r\ncontent-length: 7\r\nlast-modified: Thu, 01 Jan 2026 00:00:00 GMT\r\ntransfer-encoding: chunked",
        );
        let object = message(announced.get("runs/a.json"));
        assert!(object.contains("cannot read"), "{object}");
        let huge = store_without_end(
            "200 OK\r\ncontent-length: 99999999999999\r\nlast-modified: Thu, 01 Jan 2026 00:00:00 GMT",
        );
        let object = message(huge.get("runs/a.json"));
        assert!(object.contains("has 99999999999999 bytes, wanted at most 4294967296"), "{object}");
    }

    #[test]
    fn a_list_with_a_tag_of_many_attributes_is_refused() {
        let list = |attributes: &str| {
            format!(
                "<?xml version='1.0'?><D:multistatus xmlns:D='DAV:'{attributes}><D:response><D:href>/store/a</D:href>\
                 <D:propstat><D:prop><D:resourcetype/><D:getlastmodified>Thu, 01 Jan 2026 00:00:00 GMT</D:getlastmodified>\
                 <D:getcontentlength>7</D:getcontentlength></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat>\
                 </D:response></D:multistatus>"
            )
        };
        assert_eq!(store_of_list(list(" xmlns:b='urn:b'")).list("").unwrap(), ["a"]);
        // `>` in quotes does not end a tag. The parser of the list takes minutes for a million attributes.
        let attributes = (0..1_000_000).fold(String::new(), |text, i| text + &format!(" a{i}='>'"));
        let got = message(store_of_list(list(&attributes)).list(""));
        assert!(got.contains("the list of the server has a tag of 11888918 bytes, wanted at most 1024"), "{got}");
    }

    #[test]
    fn requests_of_objects_are_known() {
        let asks = |method: &str, uri: &str| {
            let mut request = HttpRequest::new(HttpRequestBody::empty());
            *request.method_mut() = method.parse().unwrap();
            *request.uri_mut() = uri.parse().unwrap();
            asks_for_object(&request)
        };
        assert!(asks("GET", "http://a/b/runs/1.json"));
        for (method, uri) in [
            ("GET", "http://a/b?list-type=2&prefix=runs"),
            ("GET", "http://a/b?restype=container&comp=list"),
            ("PROPFIND", "http://a/b"),
            ("PUT", "http://a/b/runs/1.json"),
        ] {
            assert!(!asks(method, uri), "{method} {uri}");
        }
    }

    #[test]
    fn the_limit_is_the_range_or_the_announced_length() {
        assert_eq!((range_bytes("bytes=7-9"), range_bytes("bytes=7-"), range_bytes("bytes=-5")), (Some(3), None, None));
        assert_eq!(answer_limit(Some(3), Some(9)), 3);
        assert_eq!(answer_limit(None, Some(9)), 9);
        assert_eq!(answer_limit(None, Some(u64::MAX)), MAX_OBJECT_BYTES);
        assert_eq!(answer_limit(None, None), MAX_LIST_BYTES);
    }
}
