//! Settings of `image_urls`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::image_folder::ImageSplit;
use super::super::on_missing::{OnMissing, default_max_skipped, is_default_max_skipped, max_skipped_problem};
use super::super::separator::separator_problem;
use pairloom_stage::{Problem, SourceRef, StageInput};

/// Table of URLs of images with their captions. The images are fetched once and become part of the store: the result is
/// that of the first run, even if the servers have other images later.
///
/// Hosts with private addresses are not asked, whether a row or a redirect names them. An interrupted run goes on after the
/// last 1,024 images.
///
/// `file_name` of an image is its URL as it stands in the table, so that the two can be joined. Reports, and messages
/// of this stage, `extract` and trainings, show its scheme, host and path alone, since a query may be a signature.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImageUrls {
    /// Table with one caption, or a list of captions, in a row: CSV or TSV with column names in the first line, JSON Lines
    /// (each of these also `.gz`), Parquet or Arrow.
    pub table: SourceRef,
    /// Names of the columns of the table.
    #[serde(default)]
    pub columns: ImageUrlColumns,
    /// Separator of the columns of a CSV file; by default a comma.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub separator: Option<char>,
    /// Split of the images: a name for all, `{ column = "split" }` for a column of the table, or
    /// `{ fractions = { val = 0.1, test = 0.1 } }` for a random split by the URL.
    pub split: ImageSplit,
    /// Treatment of images that cannot be fetched, or are no JPEG or PNG.
    #[serde(default)]
    pub on_missing: OnMissing,
    /// Largest share of the images that `on_missing = "skip"` may leave out. Of old lists, half and more is gone.
    #[serde(default = "default_max_skipped", skip_serializing_if = "is_default_max_skipped")]
    pub max_skipped: f64,
    /// Maximum size of an image in bytes, at most 16 MiB. A run has up to 160 times as much in memory.
    #[serde(default = "default_max_bytes")]
    pub max_bytes: u64,
    /// Number of requests at a time. Not part of the key, as the following settings.
    #[serde(default = "default_parallel")]
    pub parallel: usize,
    /// Number of requests a second.
    #[serde(default = "default_per_second")]
    pub per_second: f64,
    /// Seconds after which a request has failed.
    #[serde(default = "default_timeout")]
    pub timeout: f64,
    /// Number of retries after a failure that may be temporary: no connection, a time-out, a server error, "too many
    /// requests".
    #[serde(default = "default_retries")]
    pub retries: u32,
    /// Hosts with private addresses that may be asked, each with its port: `"10.0.0.7:80"`.
    #[serde(default)]
    pub private_hosts: Vec<String>,
}

/// Names of the columns of a table of URLs.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ImageUrlColumns {
    /// Column of the URL.
    pub url: String,
    /// Column of the caption, or of a list of captions.
    pub caption: String,
}

impl Default for ImageUrlColumns {
    fn default() -> Self {
        Self { url: "url".to_owned(), caption: "caption".to_owned() }
    }
}

/// Largest value of `max_bytes`.
const MAX_BYTES: u64 = 16 << 20;

fn default_max_bytes() -> u64 {
    MAX_BYTES
}

fn default_parallel() -> usize {
    16
}

fn default_per_second() -> f64 {
    50.0
}

fn default_timeout() -> f64 {
    30.0
}

fn default_retries() -> u32 {
    3
}

impl ImageUrls {
    /// Settings that are part of the key.
    pub(in super::super) fn settings(&self) -> serde_json::Value {
        let mut settings = serde_json::json!(self);
        if let Some(settings) = settings.as_object_mut() {
            for name in ["parallel", "per_second", "timeout", "retries", "private_hosts"] {
                settings.remove(name);
            }
        }
        settings
    }

    pub(in super::super) fn inputs(&self) -> Vec<StageInput> {
        vec![StageInput::source("image_urls.table", &self.table)]
    }

    pub(in super::super) fn check(&self) -> Vec<Problem> {
        let mut problems = self.split.problems("image_urls");
        problems.extend(separator_problem("image_urls", self.separator));
        problems.extend(max_skipped_problem("image_urls", self.on_missing, self.max_skipped));
        let mut refuse =
            |name: &str, message: String| problems.push(Problem::new(format!("image_urls.{name}"), message));
        if !(1..=MAX_BYTES).contains(&self.max_bytes) {
            refuse("max_bytes", format!("got {}, wanted 1 to {MAX_BYTES}", self.max_bytes));
        }
        if !(1..=256).contains(&self.parallel) {
            refuse("parallel", format!("got {}, wanted 1 to 256", self.parallel));
        }
        if !(0.01..=10_000.0).contains(&self.per_second) {
            refuse("per_second", format!("got {}, wanted 0.01 to 10000", self.per_second));
        }
        if !(0.1..=600.0).contains(&self.timeout) {
            refuse("timeout", format!("got {} seconds, wanted 0.1 to 600", self.timeout));
        }
        if self.retries > 20 {
            refuse("retries", format!("got {}, wanted at most 20", self.retries));
        }
        for host in &self.private_hosts {
            if host.rsplit_once(':').is_none_or(|(name, port)| name.is_empty() || port.parse::<u16>().is_err()) {
                refuse("private_hosts", format!("got `{host}`, wanted a host and its port, such as `10.0.0.7:80`"));
            }
        }
        problems
    }
}
