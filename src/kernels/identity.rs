//! Identities: everything that a result follows from, as bytes written field by field.
//!
//! Whoever keeps results under the digest of an identity finds them again for the same question, and never for another one.

/// Writer of an identity.
///
/// A field is a tag, its length where lengths differ, and its bytes. So two lists of fields have the same bytes only where they
/// are the same fields, with the same bits: −0 is not 0, and `[1, 2], [3]` is not `[1], [2, 3]`.
///
/// A type writes its name first, if something else may stand in its place. A variant of an enum writes its name before its
/// fields.
pub struct Fields<'s> {
    sink: &'s mut dyn FnMut(&[u8]),
}

impl<'s> Fields<'s> {
    /// Fields whose bytes go to `sink`, in any number of pieces: a digest.
    pub fn new(sink: &'s mut dyn FnMut(&[u8])) -> Self {
        Self { sink }
    }

    /// Adds a text: the name of a type or of a variant.
    pub fn text(&mut self, text: &str) {
        self.header(b't', text.len());
        (self.sink)(text.as_bytes());
    }

    /// Adds a count, a size or an index.
    pub fn number(&mut self, number: usize) {
        self.header(b'n', number);
    }

    /// Adds a number of f64, bit by bit.
    pub fn float(&mut self, value: f64) {
        (self.sink)(b"f");
        (self.sink)(&value.to_le_bytes());
    }

    /// Adds the beginning of a list of so many elements, which follow.
    pub fn list(&mut self, length: usize) {
        self.header(b'l', length);
    }

    /// Adds numbers of f64, bit by bit.
    pub fn floats(&mut self, values: &[f64]) {
        self.header(b'd', values.len());
        self.all(values, f64::to_le_bytes);
    }

    /// Adds numbers of f32, bit by bit.
    pub fn singles(&mut self, values: &[f32]) {
        self.header(b's', values.len());
        self.all(values, f32::to_le_bytes);
    }

    /// Adds counts, sizes or indices.
    pub fn numbers(&mut self, values: &[usize]) {
        self.header(b'i', values.len());
        self.all(values, |value| (value as u64).to_le_bytes());
    }

    /// Adds bytes: a digest.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.header(b'b', bytes.len());
        (self.sink)(bytes);
    }

    fn header(&mut self, tag: u8, number: usize) {
        (self.sink)(&[tag]);
        (self.sink)(&(number as u64).to_le_bytes());
    }

    /// Many values in a few pieces, for a digest takes long over small ones.
    fn all<T: Copy, const N: usize>(&mut self, values: &[T], bytes: impl Fn(T) -> [u8; N]) {
        const TOGETHER: usize = 1 << 12;
        let mut piece = Vec::with_capacity(values.len().min(TOGETHER) * N);
        for values in values.chunks(TOGETHER) {
            piece.clear();
            piece.extend(values.iter().flat_map(|&value| bytes(value)));
            (self.sink)(&piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::sample::Sample;

    /// A field, with floats as their bits, so that two can be compared.
    #[derive(Debug, Clone, PartialEq)]
    enum Field {
        Text(String),
        Number(usize),
        Float(u64),
        List(usize),
        Floats(Vec<u64>),
        Singles(Vec<u32>),
        Numbers(Vec<usize>),
        Bytes(Vec<u8>),
    }

    fn bytes(all: &[Field]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut sink = |piece: &[u8]| bytes.extend_from_slice(piece);
        let mut fields = Fields::new(&mut sink);
        for field in all {
            match field {
                Field::Text(text) => fields.text(text),
                Field::Number(number) => fields.number(*number),
                Field::Float(bits) => fields.float(f64::from_bits(*bits)),
                Field::List(length) => fields.list(*length),
                Field::Floats(bits) => fields.floats(&bits.iter().copied().map(f64::from_bits).collect::<Vec<_>>()),
                Field::Singles(bits) => fields.singles(&bits.iter().copied().map(f32::from_bits).collect::<Vec<_>>()),
                Field::Numbers(numbers) => fields.numbers(numbers),
                Field::Bytes(bytes) => fields.bytes(bytes),
            }
        }
        bytes
    }

    fn draw(sample: &mut Sample) -> Field {
        let bits = [0, 0.0f64.to_bits(), (-0.0f64).to_bits(), 1.0f64.to_bits(), f64::NAN.to_bits(), 1];
        let small = [0u32, 1, 0x8000_0000];
        let length = sample.below(3);
        match sample.below(8) {
            0 => Field::Text((0..length).map(|_| ['a', 't', '\0'][sample.below(3)]).collect()),
            1 => Field::Number(sample.below(3)),
            2 => Field::Float(bits[sample.below(6)]),
            3 => Field::List(sample.below(3)),
            4 => Field::Floats((0..length).map(|_| bits[sample.below(6)]).collect()),
            5 => Field::Singles((0..length).map(|_| small[sample.below(3)]).collect()),
            6 => Field::Numbers((0..length).map(|_| sample.below(3)).collect()),
            _ => Field::Bytes((0..length).map(|_| [0, b't', b'n'][sample.below(3)]).collect()),
        }
    }

    /// Drawn from few values, so that lists are often nearly the same.
    #[test]
    fn different_fields_have_different_bytes() {
        let mut sample = Sample::new(1, &[]);
        let mut seen: BTreeMap<Vec<u8>, Vec<Field>> = BTreeMap::new();
        for _ in 0..200_000 {
            let fields: Vec<Field> = (0..sample.below(4)).map(|_| draw(&mut sample)).collect();
            if let Some(other) = seen.insert(bytes(&fields), fields.clone()) {
                assert_eq!(other, fields);
            }
        }
        assert!(seen.len() > 10_000, "{}", seen.len());
    }

    #[test]
    fn near_collisions_differ() {
        let [zero, minus] = [0.0f64, -0.0].map(f64::to_bits);
        for [a, b] in [
            [vec![Field::Float(zero)], vec![Field::Float(minus)]],
            [
                vec![Field::Numbers(vec![1, 2]), Field::Numbers(vec![3])],
                vec![Field::Numbers(vec![1]), Field::Numbers(vec![2, 3])],
            ],
            [vec![Field::Text("ab".to_owned())], vec![Field::Text("a".to_owned()), Field::Text("b".to_owned())]],
            [vec![Field::Number(1)], vec![Field::List(1)]],
            [vec![Field::Floats(vec![])], vec![]],
        ] {
            assert_ne!(bytes(&a), bytes(&b), "{a:?} {b:?}");
        }
        let long = |last: usize| bytes(&[Field::Numbers((0..10_000).chain([last]).collect())]);
        assert_eq!(long(1).len(), 1 + 8 + 8 * 10_001);
        assert_ne!(long(1), long(2));
    }
}
