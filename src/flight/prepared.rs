//! Prepared statements of clients.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use tonic::Status;

use crate::binding::ParameterRows;
use crate::status::status_of;
use crate::tickets::QueryId;
use pairloom_base::runtime::random_bytes;

/// Most statements at a time.
const MAX_STATEMENTS: usize = 1_000;
/// Largest total size of the texts of statements and the values that are bound to them.
const MAX_BYTES: usize = 512 << 20;
/// Time after which an unused statement is dropped when another one needs its place.
const IDLE: Duration = Duration::from_mins(10);

/// Statement of a client, with the values that are bound to it.
#[derive(Debug, Clone)]
pub(super) struct PreparedStatement {
    /// Text of the query.
    pub sql: Arc<str>,
    /// A row for each time the query runs.
    pub rows: Arc<ParameterRows>,
    used: Instant,
}

impl PreparedStatement {
    fn bytes(&self) -> usize {
        self.sql.len() + self.rows.bytes
    }
}

/// Statements by their handles, which are random.
#[derive(Debug, Default)]
pub(super) struct PreparedStatements(Mutex<HashMap<QueryId, PreparedStatement>>);

impl PreparedStatements {
    /// Adds a statement. Returns its handle.
    ///
    /// # Errors
    /// There are a thousand statements, or they need more than 512 MiB.
    pub(super) fn add(&self, sql: String) -> Result<Bytes, Status> {
        let handle: QueryId = random_bytes().map_err(status_of)?;
        let rows = Arc::new(ParameterRows::none());
        let statement = PreparedStatement { sql: sql.into(), rows, used: Instant::now() };
        let mut statements = self.without_idle();
        if statements.len() >= MAX_STATEMENTS {
            return Err(Status::resource_exhausted(format!(
                "clients have {MAX_STATEMENTS} prepared statements, which is the most; close some"
            )));
        }
        make_place(&mut statements, statement.bytes())?;
        statements.insert(handle, statement);
        Ok(Bytes::copy_from_slice(&handle))
    }

    /// Statement of a handle.
    ///
    /// # Errors
    /// There is none: it was closed, or dropped after it had not been used.
    pub(super) fn get(&self, handle: &[u8]) -> Result<PreparedStatement, Status> {
        let mut statements = self.lock();
        let statement = id_of(handle).and_then(|id| statements.get_mut(&id)).ok_or_else(unknown)?;
        statement.used = Instant::now();
        Ok(statement.clone())
    }

    /// Binds values to the parameters of a statement. If there is no place for them, other statements with values are
    /// dropped, those that were used longest ago first.
    ///
    /// # Errors
    /// There is no such statement, or the values need more than 512 MiB.
    pub(super) fn bind(&self, handle: &[u8], rows: ParameterRows) -> Result<(), Status> {
        let mut statements = self.without_idle();
        let id = id_of(handle).ok_or_else(unknown)?;
        let mut statement = statements.remove(&id).ok_or_else(unknown)?;
        let before = std::mem::replace(&mut statement.rows, Arc::new(rows));
        statement.used = Instant::now();
        let place = make_place(&mut statements, statement.bytes());
        if place.is_err() {
            statement.rows = before;
        }
        statements.insert(id, statement);
        place
    }

    /// Removes a statement, if it is there.
    pub(super) fn close(&self, handle: &[u8]) {
        if let Some(id) = id_of(handle) {
            self.lock().remove(&id);
        }
    }

    fn without_idle(&self) -> MutexGuard<'_, HashMap<QueryId, PreparedStatement>> {
        let mut statements = self.lock();
        statements.retain(|_, statement| statement.used.elapsed() < IDLE);
        statements
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<QueryId, PreparedStatement>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes statements with values, those that were used longest ago first, until `bytes` more fit.
fn make_place(statements: &mut HashMap<QueryId, PreparedStatement>, bytes: usize) -> Result<(), Status> {
    let mut total: usize = statements.values().map(PreparedStatement::bytes).sum();
    while total + bytes > MAX_BYTES {
        let with_values = statements.iter().filter(|(_, statement)| statement.rows.bytes > 0);
        let Some(oldest) = with_values.min_by_key(|(_, statement)| statement.used).map(|(id, _)| *id) else {
            return Err(Status::resource_exhausted(format!(
                "prepared statements and their values need {} MiB, wanted at most {} MiB",
                (total + bytes) >> 20,
                MAX_BYTES >> 20
            )));
        };
        total -= statements.remove(&oldest).map_or(0, |statement| statement.bytes());
    }
    Ok(())
}

/// Identifier of a handle.
pub(super) fn id_of(handle: &[u8]) -> Option<QueryId> {
    handle.try_into().ok()
}

fn unknown() -> Status {
    Status::not_found("there is no such prepared statement: it was closed, or dropped because it had not been used")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(bytes: usize) -> ParameterRows {
        ParameterRows { bytes, ..ParameterRows::none() }
    }

    #[test]
    fn statements_are_known_until_they_are_closed() {
        let statements = PreparedStatements::default();
        let [one, other] = ["SELECT 1", "SELECT 2"].map(|sql| statements.add(sql.to_owned()).unwrap());
        assert_ne!(one, other);
        statements.bind(&one, values(3)).unwrap();
        assert_eq!([&one, &other].map(|of| statements.get(of).unwrap().rows.bytes), [3, 0]);
        statements.close(&one);
        assert!(statements.get(&one).is_err() && statements.bind(&one, values(0)).is_err());
        assert_eq!(&*statements.get(&other).unwrap().sql, "SELECT 2");
        assert!(statements.get(b"short").is_err());
    }

    #[test]
    fn there_is_a_limit_of_statements_and_of_values() {
        let statements = PreparedStatements::default();
        let handles: Vec<Bytes> = (0..MAX_STATEMENTS).map(|_| statements.add(String::new()).unwrap()).collect();
        assert_eq!(statements.add(String::new()).unwrap_err().code(), tonic::Code::ResourceExhausted);
        statements.close(&handles[0]);
        assert!(statements.add(String::new()).is_ok());
        // The values that were used longest ago make place.
        for handle in &handles[1..4] {
            statements.bind(handle, values(MAX_BYTES / 2 - 1_000)).unwrap();
        }
        assert!(statements.get(&handles[1]).is_err() && statements.get(&handles[3]).is_ok());
        assert!(statements.bind(&handles[5], values(MAX_BYTES + 1)).is_err());
        assert_eq!(statements.get(&handles[5]).unwrap().rows.bytes, 0);
    }
}
