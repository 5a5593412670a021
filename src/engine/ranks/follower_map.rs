//! Parallel map of a follower: maps its share of the blocks, for rank 0 to commit.

use std::ops::Range;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;

use super::shared_parts::{SharedPart, SharedParts};
use crate::ordered_map::{MemoryBudget, ordered_map};
use crate::reader::{BlockReader, TableReader, batch_bytes};
use pairloom_base::error::Result;
use pairloom_base::runtime::Resources;
use pairloom_stage::{MapBlock, MapFn};

/// Map of a follower into one table.
pub(super) struct FollowerMap<'m> {
    pub shared: SharedParts,
    /// Blocks that rank 0 had committed before.
    pub committed: usize,
    /// Rows or indices of a block.
    pub size: usize,
    pub function: &'m MapFn<'m>,
    pub budget: MemoryBudget,
    pub resources: &'m Resources,
}

impl FollowerMap<'_> {
    /// Maps its share of the rows of a table. Returns the number of all rows.
    pub fn map_rows(&self, reader: &mut TableReader) -> Result<u64> {
        reader.rewind();
        reader.skip(self.committed * self.size);
        let mut at = self.committed * self.size;
        let mut blocks = BlockReader::new(reader, self.size);
        self.run(|| {
            let rows = blocks.next(&mut |_| ())?;
            Ok(rows.map(|rows| {
                let range = at..at + rows.num_rows();
                at = range.end;
                MapBlock { range, rows }
            }))
        })?;
        reader.rewind();
        Ok(at as u64)
    }

    /// Maps its share of the indices `0..count`.
    pub fn map_range(&self, count: usize) -> Result<()> {
        let mut at = self.committed * self.size;
        self.run(|| {
            let range: Range<usize> = at..count.min(at + self.size);
            at += self.size;
            let rows = RecordBatch::new_empty(Schema::empty().into());
            Ok((!range.is_empty()).then_some(MapBlock { range, rows }))
        })
    }

    fn run(&self, mut next: impl FnMut() -> Result<Option<MapBlock>> + Send) -> Result<()> {
        let source = || {
            while let Some(block) = next()? {
                let number = block.range.start / self.size;
                if self.shared.is_own(number) && !self.shared.has(number)? {
                    let bytes = batch_bytes(&block.rows).max(1);
                    return Ok(Some((block, bytes)));
                }
            }
            Ok(None)
        };
        let work = |block: MapBlock| {
            let (_, part) = SharedPart::encode((self.function)(&block)?)?;
            let bytes = part.content.len() as u64;
            Ok(((block.range.start / self.size, part), bytes))
        };
        let sink = |(number, part): (usize, SharedPart)| self.shared.write(number, &part);
        ordered_map(&self.budget, &self.resources.cancel.child(), self.resources.threads, source, work, sink)
    }
}
