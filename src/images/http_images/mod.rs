//! Images at URLs: requests with retries, a rate, a limit of their size, and without private addresses; and the images of
//! a bucket at the same rate.

mod public_address;
mod request_pace;
mod fetcher;
mod object_fetcher;
#[cfg(test)]
mod tests;

pub use fetcher::{FetchLimits, ImageFetcher};
pub use object_fetcher::ObjectFetcher;
