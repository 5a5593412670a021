//! Payload of a checkpoint: numbers as a list of `i32`, which a table of the cache can store.

/// Writer of a payload.
#[derive(Debug, Default)]
pub struct PayloadWriter(pub Vec<i32>);

impl PayloadWriter {
    /// Writes an index or a count, both below 2³².
    pub fn write_index(&mut self, number: usize) {
        self.0.push(u32::try_from(number).expect("vectors are fewer than 2³²").cast_signed());
    }

    pub fn write_f32(&mut self, value: f32) {
        self.0.push(value.to_bits().cast_signed());
    }

    #[expect(clippy::cast_possible_truncation, reason = "both halves are written")]
    pub fn write_f64(&mut self, value: f64) {
        let bits = value.to_bits().cast_signed();
        self.0.extend([bits as i32, (bits >> 32) as i32]);
    }
}

/// Reader of a payload, in the order of writing. Its methods return `None` at the end of the payload, or if a number is
/// out of range.
#[derive(Debug, Clone, Copy)]
pub struct PayloadReader<'r>(pub &'r [i32]);

impl PayloadReader<'_> {
    /// Reads an index or a count of at most `most`.
    pub fn read_index(&mut self, most: usize) -> Option<usize> {
        usize::try_from(self.next_u32()?).ok().filter(|&number| number <= most)
    }

    pub fn read_f32(&mut self) -> Option<f32> {
        self.next_u32().map(f32::from_bits)
    }

    pub fn read_f64(&mut self) -> Option<f64> {
        let [low, high] = [self.next_u32()?, self.next_u32()?].map(u64::from);
        Some(f64::from_bits(low | high << 32))
    }

    /// Returns `Some` if the whole payload was read.
    pub fn finish(self) -> Option<()> {
        self.0.is_empty().then_some(())
    }

    fn next_u32(&mut self) -> Option<u32> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first.cast_unsigned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reader_returns_what_writer_wrote() {
        let mut payload = PayloadWriter::default();
        payload.write_index(usize::try_from(u32::MAX).expect("64 bits"));
        payload.write_f32(-0.1);
        payload.write_f64(f64::MIN_POSITIVE);
        payload.write_f64(-1e300 / 3.0);
        let mut read = PayloadReader(&payload.0);
        assert_eq!(read.clone().read_index(9), None);
        assert_eq!(read.read_index(usize::MAX), Some(u32::MAX as usize));
        assert_eq!((read.read_f32(), read.read_f64()), (Some(-0.1), Some(f64::MIN_POSITIVE)));
        assert_eq!(read.finish(), None);
        assert_eq!((read.read_f64(), read.read_f64(), read.finish()), (Some(-1e300 / 3.0), None, Some(())));
    }
}
