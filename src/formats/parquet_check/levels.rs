//! Numbers of values of the rows of a column, from its repetition levels: level 0 begins a row. Numbers of missing values,
//! from its definition levels: the largest one stands for a value.
//!
//! Format: <https://github.com/apache/parquet-format/blob/master/Encodings.md#RLE>.

use super::thrift::take_varint;

/// Rows of a batch at most, here and in DataFusion.
pub(super) const WINDOW_ROWS: u64 = 8192;

/// Numbers of values of the rows so far.
#[derive(Debug, Default)]
pub(super) struct RowLengths {
    /// Number of rows that have begun.
    pub(super) rows: u64,
    /// Values of the row that is read now.
    row: u64,
    /// Values of the current window of rows.
    window: u64,
    /// Most values of a row, and of a window of rows.
    pub(super) longest_row: u64,
    pub(super) largest_window: u64,
}

impl RowLengths {
    /// Adds values of which each is a row.
    pub(super) fn add_rows(&mut self, count: u64) {
        if count == 0 {
            return;
        }
        let before = self.rows.checked_sub(1).map(|last| last / WINDOW_ROWS);
        // Rows of the last window that have not begun.
        let rest = self.rows.next_multiple_of(WINDOW_ROWS) - self.rows;
        self.rows += count;
        let last_window = (self.rows - 1) / WINDOW_ROWS;
        if before == Some(last_window) {
            self.window += count;
        } else {
            self.window += rest;
            self.note();
            // Windows between hold a value a row.
            self.largest_window = self.largest_window.max((count - rest).min(WINDOW_ROWS));
            self.window = (self.rows - 1) % WINDOW_ROWS + 1;
            self.window = self.window.min(count);
        }
        self.row = 1;
        self.note();
    }

    /// Adds values of the row that is read now.
    fn add_values(&mut self, count: u64) {
        self.row += count;
        self.window += count;
        self.note();
    }

    fn note(&mut self) {
        self.longest_row = self.longest_row.max(self.row);
        self.largest_window = self.largest_window.max(self.window);
    }

    /// Adds `count` repetition levels of up to `max_level`. `None` for other bytes.
    pub(super) fn add_levels(&mut self, levels: &[u8], max_level: i16, count: u64) -> Option<()> {
        read_levels(levels, max_level, count, |level, run| {
            if level == 0 {
                self.add_rows(run);
            } else {
                self.add_values(run);
                // A value that begins lists has an offset for each.
                let lists = u64::try_from(max_level).unwrap_or(0).saturating_sub(u64::from(level));
                self.window = self.window.saturating_add(run.saturating_mul(lists));
                self.note();
            }
        })
    }
}

/// Number of `count` definition levels below the largest one: missing values, and missing or empty lists. `None` for other
/// bytes.
pub(super) fn missing(levels: &[u8], max_level: i16, count: u64) -> Option<u64> {
    let largest = u32::try_from(max_level).ok()?;
    let mut missing = 0;
    read_levels(levels, max_level, count, |level, run| missing += if level == largest { 0 } else { run })?;
    Some(missing)
}

/// Reads `count` levels of up to `max_level`. `visit` gets each level, and how often it follows. `None` for other bytes.
fn read_levels(levels: &[u8], max_level: i16, count: u64, visit: impl FnMut(u32, u64)) -> Option<()> {
    read_runs(levels, level_width(max_level), count, visit)
}

/// Reads `count` numbers of `width` bits, in runs and bit-packed groups. `visit` gets each number, and how often it follows.
/// `None` for other bytes, after the numbers before them.
pub(super) fn read_runs(mut runs: &[u8], width: usize, count: u64, mut visit: impl FnMut(u32, u64)) -> Option<()> {
    let mut left = count;
    while left > 0 {
        let header = take_varint(&mut runs)?;
        let read = if header & 1 == 0 {
            let run = (header >> 1).min(left);
            let number = runs.split_off(..width.div_ceil(8))?;
            visit(number.iter().rev().fold(0, |number, &byte| number << 8 | u32::from(byte)), run);
            run
        } else {
            let groups = usize::try_from(header >> 1).ok()?;
            let packed = runs.split_off(..groups.checked_mul(width)?.min(runs.len()))?;
            // Numbers of no bits take no bytes.
            let held = (packed.len() * 8).checked_div(width).unwrap_or(groups.saturating_mul(8));
            let held = left.min(held as u64);
            for place in 0..usize::try_from(held).ok()? {
                let bits = (place * width..(place + 1) * width).rev();
                visit(bits.fold(0, |number, bit| number << 1 | u32::from(packed[bit / 8] >> (bit % 8) & 1)), 1);
            }
            held
        };
        if read == 0 {
            return None;
        }
        left -= read;
    }
    Some(())
}

/// Number of bits of a level.
pub(super) fn level_width(max_level: i16) -> usize {
    (i16::BITS - max_level.max(0).leading_zeros()) as usize
}
