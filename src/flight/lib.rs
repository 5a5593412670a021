//! Flight SQL server over a store: queries of clients such as ADBC and JDBC.
//!
//! ```text
//!  client ──► authentication ──► service ──► sessions ──► sql::Session
//!                                   │  │
//!                  prepared statements  running queries
//! ```

mod authentication;
mod memory;
mod metadata;
mod prepared;
mod protocol;
mod queries;
mod server;
mod service;
mod sessions;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod protocol_tests;

pub use authentication::AccessToken;
pub use server::{FlightOptions, FlightServer, TlsIdentity};
pub use sessions::{RunChooser, Sessions};
