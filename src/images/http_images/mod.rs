//! Images at URLs: requests with retries, a rate, a limit of their size, and without private addresses; and the images of
//! a bucket at the same rate.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use az::SaturatingAs as _;
use futures::future::{Either, select};
use futures::{StreamExt, stream};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{LOCATION, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode};
use tokio::sync::Mutex;
use tokio::time::{Interval, MissedTickBehavior, interval, sleep, timeout};
use url::{Host, Url};

use self::public_address::is_public;
use pairloom_base::error::{Error, Result, TruncatedList, with_causes};
use pairloom_storage::image_names::{shown_name, shown_url};
use pairloom_storage::objects::{ObjectStamp, ObjectStorage, ReadObject, runtime};

mod public_address;
#[cfg(test)]
mod tests;

/// Maximum number of redirects of a request.
const MAX_REDIRECTS: usize = 5;
/// Longest pause that a server can ask for before a retry.
const MAX_PAUSE: Duration = Duration::from_mins(1);

/// Limits of the requests.
#[derive(Debug, Clone)]
pub struct FetchLimits {
    /// Maximum size of an image in bytes.
    pub max_bytes: u64,
    /// Number of requests at a time.
    pub parallel: usize,
    /// Requests a second, retries and redirects too.
    pub per_second: f64,
    /// Time of a request.
    pub timeout: Duration,
    /// Number of retries after a temporary failure.
    pub retries: u32,
    /// Pause before the first retry; each further one is twice as long.
    pub pause: Duration,
    /// Hosts with private addresses that may be asked, each with its port: `127.0.0.1:8080`.
    pub private_hosts: BTreeSet<String>,
}

/// Client that fetches images.
#[derive(Debug)]
pub struct ImageFetcher {
    client: Client,
    limits: FetchLimits,
    pace: RequestPace,
}

/// Failure of a request.
struct FailedFetch {
    message: String,
    /// Pause before a retry that the server asks for, or zero; `None` if a retry is useless.
    retry: Option<Duration>,
}

impl FailedFetch {
    /// The same failure, of a URL to which another one redirects.
    fn after_redirect(self, url: &Url) -> Self {
        Self { message: format!("it redirects to `{}`: {}", shown_url(url.as_str()), self.message), ..self }
    }

    fn final_one(message: impl Into<String>) -> Self {
        Self { message: message.into(), retry: None }
    }

    fn temporary(message: impl Into<String>) -> Self {
        Self { message: message.into(), retry: Some(Duration::ZERO) }
    }
}

impl ImageFetcher {
    /// Creates a client. It asks servers directly, never a proxy, which would resolve names itself.
    ///
    /// # Errors
    /// The client, or threads for it, cannot be created.
    pub fn new(limits: FetchLimits) -> Result<Self> {
        let names = limits.private_hosts.iter().filter_map(|host| host.rsplit_once(':'));
        let resolver = PublicResolver { private: names.map(|(name, _)| name.to_owned()).collect() };
        let client = Client::builder()
            .redirect(Policy::none())
            .no_proxy()
            .dns_resolver(Arc::new(resolver))
            .user_agent(concat!("pairloom/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| Error::stage(format!("cannot create a client of HTTP: {}", with_causes(&error))))?;
        let pace = RequestPace::new(limits.parallel, limits.per_second)?;
        Ok(Self { client, limits, pace })
    }

    /// Fetches images, in the order of their URLs: the bytes of each, or the reason why there are none. Calls `check` some
    /// times a second; its error ends the requests.
    ///
    /// # Errors
    /// An error of `check`; or threads cannot be started.
    pub fn fetch_all(&self, urls: &[&str], check: &dyn Fn() -> Result<()>) -> Result<Vec<Result<Vec<u8>, String>>> {
        self.pace.run(urls.iter().map(|url| self.fetch(url)), check)
    }

    /// Fetches an image, again after temporary failures.
    async fn fetch(&self, url: &str) -> Result<Vec<u8>, String> {
        let mut pause = self.limits.pause;
        let mut failures = 0;
        loop {
            let fetched = timeout(self.limits.timeout, self.fetch_once(url)).await;
            let seconds = self.limits.timeout.as_secs_f64();
            let late = || Err(FailedFetch::temporary(format!("no whole answer after {seconds} s")));
            let failed = match fetched.unwrap_or_else(|_| late()) {
                Ok(bytes) => return Ok(bytes),
                Err(failed) => failed,
            };
            match failed.retry {
                Some(wanted) if failures < self.limits.retries => sleep(wanted.max(pause).min(MAX_PAUSE)).await,
                Some(_) if failures > 0 => return Err(format!("{} ({} tries)", failed.message, failures + 1)),
                _ => return Err(failed.message),
            }
            failures += 1;
            pause *= 2;
        }
    }

    /// Sends a request and follows its redirects.
    async fn fetch_once(&self, url: &str) -> Result<Vec<u8>, FailedFetch> {
        if url.is_empty() {
            return Err(FailedFetch::final_one("there is no URL"));
        }
        let mut url = Url::parse(url).map_err(|error| FailedFetch::final_one(format!("it is no URL: {error}")))?;
        for redirects in 0..=MAX_REDIRECTS {
            let named = |failed: FailedFetch| if redirects == 0 { failed } else { failed.after_redirect(&url) };
            self.check_host(&url).map_err(named)?;
            self.pace.turn().await;
            let sent = self.client.get(url.clone()).send().await;
            let response = sent.map_err(|error| {
                let text = with_causes(&error.without_url());
                // A name that resolves to private addresses stays refused.
                if text.contains(PRIVATE) {
                    named(FailedFetch::final_one(PRIVATE))
                } else {
                    FailedFetch::temporary(text)
                }
            })?;
            let status = response.status();
            if status.is_redirection() {
                let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
                let location =
                    location.ok_or_else(|| FailedFetch::final_one(format!("{status} without a location")))?;
                let next = url.join(location);
                url = next.map_err(|error| FailedFetch::final_one(format!("it redirects to no URL: {error}")))?;
                continue;
            }
            return if status.is_success() { self.read(response).await } else { Err(failed_status(status, &response)) };
        }
        Err(FailedFetch::final_one(format!("more than {MAX_REDIRECTS} redirects")))
    }

    /// Checks that a URL names a server of the public internet, or one that is allowed. Names are checked when they are
    /// resolved, for this connection and not for another one before.
    fn check_host(&self, url: &Url) -> Result<(), FailedFetch> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(FailedFetch::final_one(format!(
                "its scheme is `{}`, expected `http` or `https`",
                url.scheme()
            )));
        }
        let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else {
            return Err(FailedFetch::final_one("it names no host"));
        };
        if self.limits.private_hosts.contains(&format!("{host}:{port}")) {
            return Ok(());
        }
        let is_refused = match host {
            Host::Ipv4(address) => !is_public(IpAddr::V4(address)),
            Host::Ipv6(address) => !is_public(IpAddr::V6(address)),
            // The resolver does not know the port.
            Host::Domain(name) => self
                .limits
                .private_hosts
                .iter()
                .any(|host| host.rsplit_once(':').is_some_and(|(known, _)| known.eq_ignore_ascii_case(name))),
        };
        if is_refused { Err(FailedFetch::final_one(PRIVATE)) } else { Ok(()) }
    }

    /// Reads an answer up to the limit.
    async fn read(&self, mut response: Response) -> Result<Vec<u8>, FailedFetch> {
        let limit = self.limits.max_bytes;
        let too_large = || FailedFetch::final_one(format!("it has more than {limit} bytes"));
        if response.content_length().is_some_and(|length| length > limit) {
            return Err(too_large());
        }
        let mut bytes = Vec::with_capacity(response.content_length().unwrap_or_default().saturating_as::<usize>());
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) if bytes.len() as u64 + chunk.len() as u64 > limit => return Err(too_large()),
                Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
                Ok(None) => {
                    // A vector that grew has room for twice as much, and several answers are kept together.
                    bytes.shrink_to_fit();
                    return Ok(bytes);
                }
                Err(error) => return Err(FailedFetch::temporary(with_causes(&error.without_url()))),
            }
        }
    }
}

/// Reason why an address is not asked.
const PRIVATE: &str = "its host is a private address";

/// Failure that a status means.
fn failed_status(status: StatusCode, response: &Response) -> FailedFetch {
    let message = format!("the server answers {status}");
    if status != StatusCode::TOO_MANY_REQUESTS && status != StatusCode::REQUEST_TIMEOUT && !status.is_server_error() {
        return FailedFetch::final_one(message);
    }
    let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    FailedFetch { message, retry: Some(Duration::from_secs(seconds.unwrap_or_default())) }
}

/// Resolver that returns public addresses only, except for some names.
struct PublicResolver {
    private: BTreeSet<String>,
}

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let is_allowed = self.private.contains(name.as_str());
        let name = name.as_str().to_owned();
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let public: Vec<SocketAddr> =
                found.into_iter().filter(|address| is_allowed || is_public(address.ip())).collect();
            if public.is_empty() {
                return Err(PRIVATE.into());
            }
            Ok(Box::new(public.into_iter()) as Addrs)
        })
    }
}

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

/// Time between two looks whether the run was cancelled.
const CANCEL_CHECK: Duration = Duration::from_millis(100);

/// Pace of requests.
#[derive(Debug)]
struct RequestPace {
    parallel: usize,
    ticks: Mutex<Interval>,
}

impl RequestPace {
    /// Pace of at most `parallel` requests at a time and `per_second` a second.
    ///
    /// # Errors
    /// Threads cannot be started.
    pub fn new(parallel: usize, per_second: f64) -> Result<Self> {
        let _entered = runtime()?.enter();
        let mut ticks = interval(Duration::from_secs_f64(1.0 / per_second.max(1e-3)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self { parallel: parallel.max(1), ticks: Mutex::new(ticks) })
    }

    /// Waits until a request may be sent.
    pub async fn turn(&self) {
        self.ticks.lock().await.tick().await;
    }

    /// Sends requests and returns the answers in their order. Calls `check` some times a second.
    ///
    /// # Errors
    /// An error of `check`, which ends the requests; or threads cannot be started.
    pub fn run<T>(
        &self,
        requests: impl Iterator<Item = impl Future<Output = T>>,
        check: &dyn Fn() -> Result<()>,
    ) -> Result<Vec<T>> {
        let answers = stream::iter(requests).buffered(self.parallel).collect();
        let stopped = async {
            loop {
                match check() {
                    Ok(()) => sleep(CANCEL_CHECK).await,
                    Err(error) => return error,
                }
            }
        };
        match runtime()?.block_on(select(Box::pin(answers), Box::pin(stopped))) {
            Either::Left((answers, _)) => Ok(answers),
            Either::Right((error, _)) => Err(error),
        }
    }
}
