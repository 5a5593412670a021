//! Prepared statements of clients.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use tonic::Status;

use crate::flight::status::status;
use crate::runtime::random_bytes;
use crate::sql::ParameterValue;

/// Most statements at a time.
const MAX_STATEMENTS: usize = 1_000;
/// Largest total size of the values that are bound to statements.
const MAX_BOUND_BYTES: usize = 512 << 20;
/// Time after which an unused statement can be dropped to make place.
const IDLE: Duration = Duration::from_mins(10);

/// Rows of values for the parameters of a statement.
pub(super) type ParameterRows = Arc<Vec<Vec<ParameterValue>>>;

/// Statement of a client, with the values that are bound to it.
#[derive(Debug, Clone)]
pub(super) struct PreparedStatement {
    /// Text of the query.
    pub sql: Arc<str>,
    /// A row for each time the query runs. Without parameters it is one row of no values.
    pub rows: ParameterRows,
    /// Size of the rows in bytes.
    bytes: usize,
    used: Instant,
}

/// Statements by their handles, which are random.
#[derive(Debug, Default)]
pub(super) struct PreparedStatements(Mutex<HashMap<Bytes, PreparedStatement>>);

impl PreparedStatements {
    /// Adds a statement. Returns its handle.
    ///
    /// # Errors
    /// There are a thousand statements, none of them idle.
    pub(super) fn add(&self, sql: String) -> Result<Bytes, Status> {
        let handle: [u8; 16] = random_bytes().map_err(|error| status(&error))?;
        let handle = Bytes::copy_from_slice(&handle);
        let mut statements = self.lock();
        if statements.len() >= MAX_STATEMENTS {
            statements.retain(|_, statement| statement.used.elapsed() < IDLE);
        }
        if statements.len() >= MAX_STATEMENTS {
            return Err(Status::resource_exhausted(format!(
                "clients have {MAX_STATEMENTS} prepared statements, which is the most; close some"
            )));
        }
        let rows = Arc::new(vec![vec![]]);
        let statement = PreparedStatement { sql: sql.into(), rows, bytes: 0, used: Instant::now() };
        statements.insert(handle.clone(), statement);
        Ok(handle)
    }

    /// Statement of a handle.
    ///
    /// # Errors
    /// There is none: it was closed, or it was dropped after ten minutes without use.
    pub(super) fn get(&self, handle: &Bytes) -> Result<PreparedStatement, Status> {
        let mut statements = self.lock();
        let statement = statements.get_mut(handle).ok_or_else(unknown)?;
        statement.used = Instant::now();
        Ok(statement.clone())
    }

    /// Binds values to the parameters of a statement.
    ///
    /// # Errors
    /// There is no such statement, or bound values would need more than 512 MiB.
    pub(super) fn bind(&self, handle: &Bytes, rows: Vec<Vec<ParameterValue>>) -> Result<(), Status> {
        let bytes = rows.iter().flatten().map(ParameterValue::size).sum();
        let mut statements = self.lock();
        let others: usize = statements.iter().filter(|(of, _)| *of != handle).map(|(_, of)| of.bytes).sum();
        if others + bytes > MAX_BOUND_BYTES {
            return Err(Status::resource_exhausted(format!(
                "the values of prepared statements need {} MiB, wanted at most {} MiB",
                (others + bytes) >> 20,
                MAX_BOUND_BYTES >> 20
            )));
        }
        let statement = statements.get_mut(handle).ok_or_else(unknown)?;
        (statement.rows, statement.bytes, statement.used) = (Arc::new(rows), bytes, Instant::now());
        Ok(())
    }

    /// Removes a statement, if it is there.
    pub(super) fn close(&self, handle: &Bytes) {
        self.lock().remove(handle);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Bytes, PreparedStatement>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unknown() -> Status {
    Status::not_found("there is no such prepared statement: it was closed, or not used for ten minutes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_known_until_they_are_closed() {
        let statements = PreparedStatements::default();
        let (one, other) =
            (statements.add("SELECT 1".to_owned()).unwrap(), statements.add("SELECT 2".to_owned()).unwrap());
        assert_ne!(one, other);
        statements.bind(&one, vec![vec![ParameterValue::from(3)], vec![ParameterValue::from(4)]]).unwrap();
        assert_eq!((statements.get(&one).unwrap().rows.len(), statements.get(&other).unwrap().rows.len()), (2, 1));
        statements.close(&one);
        assert!(statements.get(&one).is_err() && statements.bind(&one, vec![]).is_err());
        assert_eq!(&*statements.get(&other).unwrap().sql, "SELECT 2");
    }

    #[test]
    fn there_is_a_limit_of_statements() {
        let statements = PreparedStatements::default();
        let handles: Vec<Bytes> = (0..MAX_STATEMENTS).map(|_| statements.add(String::new()).unwrap()).collect();
        assert_eq!(statements.add(String::new()).unwrap_err().code(), tonic::Code::ResourceExhausted);
        statements.close(&handles[0]);
        assert!(statements.add(String::new()).is_ok());
    }
}
