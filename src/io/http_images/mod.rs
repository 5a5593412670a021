//! Images at URLs: requests with retries, a rate, a limit of their size, and without private addresses.

mod public_address;
mod fetcher;
#[cfg(test)]
mod tests;

pub use fetcher::{FetchLimits, ImageFetcher};
