//! Record of a CSV or TSV file, with the lines that it takes.

/// Record, with its text in the file.
#[derive(Debug, Default)]
pub(super) struct DelimitedRecord {
    /// Text in the file, with line breaks.
    pub(super) raw: Vec<u8>,
    /// Start of each of its lines in `raw`.
    pub(super) line_starts: Vec<usize>,
    /// Number of its first line, from 1.
    pub(super) first_line: u64,
    /// Text of the fields, without quotes, one after the other. Only the text up to the last end is valid.
    pub(super) text: Vec<u8>,
    /// End of each field in `text`. Only the first `count` are valid.
    pub(super) ends: Vec<usize>,
    /// Number of fields.
    pub(super) count: usize,
    /// Field that is open at the end of the last line, from 0, and the line in which it starts.
    pub(super) open: Option<(usize, u64)>,
    /// False if a quote is open at the end of the file, or where the record became too long.
    pub(super) is_complete: bool,
    /// True if a quote is open where the record became longer than the longest record.
    pub(super) is_too_long: bool,
}

impl DelimitedRecord {
    /// Fields, without quotes.
    pub(super) fn fields(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).take(self.count).map(|(start, &end)| &self.text[start..end])
    }

    /// Number of the last line.
    pub(super) fn last_line(&self) -> u64 {
        self.first_line + (self.line_starts.len() as u64).saturating_sub(1)
    }

    /// Number of the line of a byte of `raw`.
    pub(super) fn line_of(&self, at: usize) -> u64 {
        self.first_line + (self.line_starts.partition_point(|&start| start <= at) as u64).saturating_sub(1)
    }

    /// Lines after the first, as in the file.
    pub(super) fn later_lines(&self) -> impl Iterator<Item = &[u8]> {
        let ends = self.line_starts.iter().skip(2).copied().chain([self.raw.len()]);
        self.line_starts.iter().skip(1).zip(ends).map(|(&start, end)| &self.raw[start..end])
    }

    pub(super) fn clear(&mut self) {
        self.raw.clear();
        self.line_starts.clear();
        self.count = 0;
        self.open = None;
        self.is_complete = true;
        self.is_too_long = false;
    }
}
