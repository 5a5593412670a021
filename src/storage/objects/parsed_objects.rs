//! Objects that are read and parsed, and read again if they cannot be parsed.

use super::ObjectStorage;
use pairloom_base::error::Result;

impl ObjectStorage {
    /// Reads and parses an object; `None` if it is absent. One that cannot be parsed is read a second time: a disk or a network
    /// may err once.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn get_parsed<T, E>(
        &self,
        name: &str,
        parse: impl Fn(&[u8]) -> std::result::Result<T, E>,
    ) -> Result<Option<std::result::Result<T, E>>> {
        match self.get(name)?.map(|content| parse(&content)) {
            Some(Err(_)) => Ok(self.get(name)?.map(|content| parse(&content))),
            known => Ok(known),
        }
    }

    /// Reads and parses several objects as [`ObjectStorage::get_parsed`], concurrently.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn get_all_parsed<T, E>(
        &self,
        names: &[String],
        parse: impl Fn(&str, &[u8]) -> std::result::Result<T, E>,
    ) -> Result<Vec<Option<std::result::Result<T, E>>>> {
        let contents = self.get_all(names)?;
        let parsed = names.iter().zip(contents).map(|(name, content)| {
            Ok(match content.map(|content| parse(name, &content)) {
                Some(Err(_)) => self.get(name)?.map(|content| parse(name, &content)),
                known => known,
            })
        });
        parsed.collect()
    }
}
