//! Flight SQL server over a store: queries of clients such as ADBC and JDBC.
//!
//! ```text
//!  client ──► authentication ──► service ──► sessions ──► sql::Session
//!                                   │  │
//!                  prepared statements  running queries
//! ```

mod authentication;
mod binding;
mod columns;
mod connections;
mod metadata;
mod options;
mod prepared;
mod protocol;
mod queries;
mod server;
mod service;
mod sessions;
mod sql_info;
mod status;
mod tickets;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod protocol_tests;

pub use authentication::AccessToken;
pub use options::{FlightOptions, TlsIdentity};
pub use server::FlightServer;
pub use sessions::{RunChooser, Sessions};
