//! Payload of a checkpoint: numbers in pieces of 32 bits, the form that a table of the cache takes.

/// Writer of a payload.
#[derive(Debug, Default)]
pub struct Writer(pub Vec<i32>);

impl Writer {
    /// An index or a count, which are below 2³².
    pub fn number(&mut self, number: usize) {
        self.0.push(u32::try_from(number).expect("vectors are fewer than 2³²").cast_signed());
    }

    pub fn float(&mut self, value: f32) {
        self.0.push(value.to_bits().cast_signed());
    }

    #[expect(clippy::cast_possible_truncation, reason = "both halves are written")]
    pub fn double(&mut self, value: f64) {
        let bits = value.to_bits().cast_signed();
        self.0.extend([bits as i32, (bits >> 32) as i32]);
    }
}

/// Reader of a payload, in the same order; `None` where there are no more numbers, or another than was to be.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'r>(pub &'r [i32]);

impl Reader<'_> {
    /// A number that is at most `most`.
    pub fn number(&mut self, most: usize) -> Option<usize> {
        usize::try_from(self.piece()?).ok().filter(|&number| number <= most)
    }

    pub fn float(&mut self) -> Option<f32> {
        self.piece().map(f32::from_bits)
    }

    pub fn double(&mut self) -> Option<f64> {
        let [low, high] = [self.piece()?, self.piece()?].map(u64::from);
        Some(f64::from_bits(low | high << 32))
    }

    /// Whether all was read.
    pub fn end(self) -> Option<()> {
        self.0.is_empty().then_some(())
    }

    fn piece(&mut self) -> Option<u32> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first.cast_unsigned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut payload = Writer::default();
        payload.number(usize::try_from(u32::MAX).expect("64 bits"));
        payload.float(-0.1);
        payload.double(f64::MIN_POSITIVE);
        payload.double(-1e300 / 3.0);
        let mut read = Reader(&payload.0);
        assert_eq!(read.clone().number(9), None);
        assert_eq!(read.number(usize::MAX), Some(u32::MAX as usize));
        assert_eq!((read.float(), read.double()), (Some(-0.1), Some(f64::MIN_POSITIVE)));
        assert_eq!(read.end(), None);
        assert_eq!((read.double(), read.double(), read.end()), (Some(-1e300 / 3.0), None, Some(())));
    }
}
