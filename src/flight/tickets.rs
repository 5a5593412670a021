//! Tickets: queries that the server has planned and that a client then fetches.

use bytes::Bytes;
use tonic::Status;

use pairloom_base::error::Result;
use pairloom_base::runtime::random_bytes;

/// Bytes of the seal at the start of a ticket.
const SEAL_BYTES: usize = blake3::OUT_LEN;
/// Bytes of the identifier behind the seal.
const ID_BYTES: usize = 16;

/// Identifier of a planned query.
pub(super) type QueryId = [u8; ID_BYTES];

/// Query of a ticket.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    /// Identifier, by which the query can be cancelled.
    pub id: QueryId,
    /// Text of the query.
    pub sql: String,
}

/// Error for a ticket that this server did not give out.
pub(super) fn wrong_ticket() -> Status {
    Status::unauthenticated("the ticket is not of this server, or the server was started again")
}

/// Seals tickets, so that the server runs only queries that it has planned. It keeps nothing about them.
pub(super) struct TicketSeal {
    key: [u8; blake3::KEY_LEN],
}

impl TicketSeal {
    /// Seal with a key of its own.
    ///
    /// # Errors
    /// The operating system has no random numbers.
    pub(super) fn new() -> Result<Self> {
        Ok(Self { key: random_bytes()? })
    }

    /// Bytes of a ticket: the seal, the identifier, and the text of the query.
    pub(super) fn seal(&self, ticket: &Ticket) -> Bytes {
        let content = [ticket.id.as_slice(), ticket.sql.as_bytes()].concat();
        let seal = blake3::keyed_hash(&self.key, &content);
        [seal.as_bytes(), content.as_slice()].concat().into()
    }

    /// Ticket of these bytes.
    ///
    /// # Errors
    /// They were not sealed by this server.
    pub(super) fn open(&self, bytes: &[u8]) -> Result<Ticket, Status> {
        let (seal, content) = bytes.split_at_checked(SEAL_BYTES).ok_or_else(wrong_ticket)?;
        // Hashes are compared in constant time.
        if blake3::Hash::from_slice(seal).ok() != Some(blake3::keyed_hash(&self.key, content)) {
            return Err(wrong_ticket());
        }
        let (id, sql) = content.split_first_chunk().ok_or_else(wrong_ticket)?;
        let sql = String::from_utf8(sql.to_vec()).map_err(|_| wrong_ticket())?;
        Ok(Ticket { id: *id, sql })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_open_only_as_they_were_sealed() {
        let seal = TicketSeal::new().unwrap();
        let ticket = Ticket { id: *b"0123456789abcdef", sql: "SELECT 'ä'".to_owned() };
        let sealed = seal.seal(&ticket);
        assert_eq!(seal.open(&sealed).unwrap(), ticket);
        for at in 0..sealed.len() {
            let mut forged = sealed.to_vec();
            forged[at] ^= 1;
            assert!(seal.open(&forged).is_err(), "byte {at}");
            assert!(seal.open(&sealed[..at]).is_err(), "{at} bytes");
        }
        assert!(TicketSeal::new().unwrap().open(&sealed).is_err());
    }
}
