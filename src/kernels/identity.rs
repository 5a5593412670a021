//! Identity of a result: everything that determines it, as bytes written field by field.
//!
//! A result that is stored under the digest of its identity is found again for the same inputs and settings, and never
//! for others.

/// Writer of an identity.
///
/// A field is a tag, a length if its length can vary, and its bytes. So two sequences of fields have the same bytes
/// only if they are the same fields with the same bits: −0 differs from 0, and `[1, 2], [3]` from `[1], [2, 3]`.
///
/// A type writes its name first, if another type can take its place. A variant of an enum writes its name before its
/// fields.
pub struct IdentityWriter<'s> {
    sink: &'s mut dyn FnMut(&[u8]),
}

impl<'s> IdentityWriter<'s> {
    /// Writes to `sink`, for example a hasher, in any number of pieces.
    pub fn new(sink: &'s mut dyn FnMut(&[u8])) -> Self {
        Self { sink }
    }

    /// Writes a text, for example the name of a type or variant.
    pub fn write_text(&mut self, text: &str) {
        self.write_header(b't', text.len());
        (self.sink)(text.as_bytes());
    }

    /// Writes a count, a size or an index.
    pub fn write_usize(&mut self, number: usize) {
        self.write_header(b'n', number);
    }

    /// Writes the bits of an f64.
    pub fn write_f64(&mut self, value: f64) {
        (self.sink)(b"f");
        (self.sink)(&value.to_le_bytes());
    }

    /// Writes the length of a list, whose elements the caller writes next.
    pub fn write_list_length(&mut self, length: usize) {
        self.write_header(b'l', length);
    }

    /// Writes the bits of a list of f64.
    pub fn write_f64s(&mut self, values: &[f64]) {
        self.write_header(b'd', values.len());
        self.write_values(values, f64::to_le_bytes);
    }

    /// Writes the bits of a list of f32.
    pub fn write_f32s(&mut self, values: &[f32]) {
        self.write_header(b's', values.len());
        self.write_values(values, f32::to_le_bytes);
    }

    /// Writes a list of counts, sizes or indices.
    pub fn write_usizes(&mut self, values: &[usize]) {
        self.write_header(b'i', values.len());
        self.write_values(values, |value| (value as u64).to_le_bytes());
    }

    /// Writes bytes, for example a digest.
    pub fn write_bytes(&mut self, bytes: &[u8]) {
        self.write_header(b'b', bytes.len());
        (self.sink)(bytes);
    }

    fn write_header(&mut self, tag: u8, number: usize) {
        (self.sink)(&[tag]);
        (self.sink)(&(number as u64).to_le_bytes());
    }

    /// Writes many values in few pieces: a hasher is slow on small ones.
    fn write_values<T: Copy, const N: usize>(&mut self, values: &[T], bytes: impl Fn(T) -> [u8; N]) {
        const VALUES_PER_PIECE: usize = 1 << 12;
        let mut piece = Vec::with_capacity(values.len().min(VALUES_PER_PIECE) * N);
        for values in values.chunks(VALUES_PER_PIECE) {
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
    use crate::random::Rng;

    /// A field; floats as their bits, so that fields can be compared.
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
        let mut fields = IdentityWriter::new(&mut sink);
        for field in all {
            match field {
                Field::Text(text) => fields.write_text(text),
                Field::Number(number) => fields.write_usize(*number),
                Field::Float(bits) => fields.write_f64(f64::from_bits(*bits)),
                Field::List(length) => fields.write_list_length(*length),
                Field::Floats(bits) => fields.write_f64s(&bits.iter().copied().map(f64::from_bits).collect::<Vec<_>>()),
                Field::Singles(bits) => {
                    fields.write_f32s(&bits.iter().copied().map(f32::from_bits).collect::<Vec<_>>());
                }
                Field::Numbers(numbers) => fields.write_usizes(numbers),
                Field::Bytes(bytes) => fields.write_bytes(bytes),
            }
        }
        bytes
    }

    fn draw(rng: &mut Rng) -> Field {
        let bits = [0, 0.0f64.to_bits(), (-0.0f64).to_bits(), 1.0f64.to_bits(), f64::NAN.to_bits(), 1];
        let small = [0u32, 1, 0x8000_0000];
        let length = rng.uniform_below(3);
        match rng.uniform_below(8) {
            0 => Field::Text((0..length).map(|_| ['a', 't', '\0'][rng.uniform_below(3)]).collect()),
            1 => Field::Number(rng.uniform_below(3)),
            2 => Field::Float(bits[rng.uniform_below(6)]),
            3 => Field::List(rng.uniform_below(3)),
            4 => Field::Floats((0..length).map(|_| bits[rng.uniform_below(6)]).collect()),
            5 => Field::Singles((0..length).map(|_| small[rng.uniform_below(3)]).collect()),
            6 => Field::Numbers((0..length).map(|_| rng.uniform_below(3)).collect()),
            _ => Field::Bytes((0..length).map(|_| [0, b't', b'n'][rng.uniform_below(3)]).collect()),
        }
    }

    /// Draws from few values, so that many lists are nearly equal.
    #[test]
    fn different_fields_have_different_bytes() {
        let mut rng = Rng::new(1, &[]);
        let mut seen: BTreeMap<Vec<u8>, Vec<Field>> = BTreeMap::new();
        for _ in 0..200_000 {
            let fields: Vec<Field> = (0..rng.uniform_below(4)).map(|_| draw(&mut rng)).collect();
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
