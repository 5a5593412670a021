//! Parquet files made by hand, with pages that no writer makes.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

/// Thrift's compact protocol.
#[derive(Debug, Default)]
pub struct ThriftWriter {
    /// Bytes so far.
    pub content: Vec<u8>,
    last: i64,
}

impl ThriftWriter {
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.content.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        self.content.push(number.to_le_bytes()[0]);
    }

    fn field(&mut self, field: i64, kind: u8) {
        self.content.push(u8::try_from(field - self.last).unwrap() << 4 | kind);
        self.last = field;
    }

    fn signed(&mut self, value: i64) {
        self.number(((value << 1) ^ (value >> 63)).cast_unsigned());
    }

    /// Field of an i32 or i64, which are read alike.
    #[must_use]
    pub fn integer(mut self, field: i64, value: i64) -> Self {
        self.field(field, if (1..=6).contains(&field) { 5 } else { 6 });
        self.signed(value);
        self
    }

    /// Field of a type by its code, with the bytes of its value.
    #[must_use]
    pub fn raw(mut self, field: i64, kind: u8, value: &[u8]) -> Self {
        self.field(field, kind);
        self.content.extend_from_slice(value);
        self
    }

    fn long(mut self, field: i64, value: i64) -> Self {
        self.field(field, 6);
        self.signed(value);
        self
    }

    fn text(mut self, field: i64, text: &str) -> Self {
        self.field(field, 8);
        self.number(text.len() as u64);
        self.content.extend_from_slice(text.as_bytes());
        self
    }

    /// Field of a struct.
    #[must_use]
    pub fn nested(mut self, field: i64, inner: Self) -> Self {
        self.field(field, 12);
        self.content.extend(inner.end());
        self
    }

    fn list(mut self, field: i64, kind: u8, items: Vec<Vec<u8>>) -> Self {
        self.field(field, 9);
        self.content.push(0xf0 | kind);
        self.number(items.len() as u64);
        self.content.extend(items.concat());
        self
    }

    /// Ends the struct, and returns its bytes.
    pub fn end(mut self) -> Vec<u8> {
        self.content.push(0);
        self.content
    }
}

/// Page of a forged file.
#[derive(Debug)]
pub struct ForgedPage {
    /// Number of values that the header claims.
    pub values: i64,
    /// Size without compression that the header claims.
    pub claimed: i64,
    /// Encoding by its number in the format; `None` for a dictionary.
    pub encoding: Option<i64>,
    /// Bytes of the page as the file has them.
    pub stored: Vec<u8>,
}

/// Column of a forged file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForgedColumn {
    /// Texts, none missing: `text`.
    Texts,
    /// Lists of f32: `vector`, with repetition and definition levels of one bit.
    Vectors,
    /// Values of this number of bytes, none missing: `text`.
    Fixed(i64),
}

/// File of a row group with one column, whose codec is a number of the format.
pub fn file(column: ForgedColumn, codec: i64, rows: i64, values: i64, pages: &[ForgedPage]) -> Vec<u8> {
    let mut content = Vec::new();
    let mut data_start = None;
    for page in pages {
        let start = content.len();
        let header = ThriftWriter::default()
            .integer(1, if page.encoding.is_some() { 0 } else { 2 })
            .integer(2, page.claimed)
            .integer(3, page.stored.len().try_into().unwrap());
        let inner = ThriftWriter::default().integer(1, page.values);
        let header = match page.encoding {
            Some(encoding) => {
                data_start.get_or_insert(start);
                header.nested(5, inner.integer(2, encoding).integer(3, 3).integer(4, 3))
            }
            None => header.nested(7, inner.integer(2, 0)),
        };
        content.extend(header.end());
        content.extend_from_slice(&page.stored);
    }
    let claimed = pages.iter().map(|page| page.claimed).sum();
    file_of_bytes(column, codec, [rows, values, claimed], &content, data_start.unwrap(), 1)
}

/// File of row groups with one column, whose pages are these bytes, the same for all. Each claims these rows, values and
/// bytes without compression; the first page of values begins at `data_start`.
pub fn file_of_bytes(
    column: ForgedColumn,
    codec: i64,
    [rows, values, claimed]: [i64; 3],
    pages: &[u8],
    data_start: usize,
    groups: usize,
) -> Vec<u8> {
    let content = [b"PAR1", pages].concat();
    let size = i64::try_from(pages.len()).unwrap();
    let data_start = i64::try_from(4 + data_start).unwrap();
    let (kind, path) = match column {
        ForgedColumn::Texts => (6, vec!["text"]),
        ForgedColumn::Fixed(_) => (7, vec!["text"]),
        ForgedColumn::Vectors => (4, vec!["vector", "list", "item"]),
    };
    let texts = path.iter().map(|name| [&[u8::try_from(name.len()).unwrap()], name.as_bytes()].concat()).collect();
    let mut meta = ThriftWriter::default()
        .integer(1, kind)
        .list(2, 5, vec![vec![0]])
        .list(3, 8, texts)
        .integer(4, codec)
        .long(5, values)
        .long(6, claimed)
        .long(7, size)
        .long(9, data_start);
    if data_start > 4 {
        meta = meta.long(11, 4);
    }
    let chunk = ThriftWriter::default().long(2, 4).nested(3, meta).end();
    let group = ThriftWriter::default().list(1, 12, vec![chunk]).long(2, claimed).long(3, rows).end();
    let root = ThriftWriter::default().text(4, "root").integer(5, 1).end();
    let schema = match column {
        // Converted type 0 is UTF-8 text.
        ForgedColumn::Texts => {
            vec![root, ThriftWriter::default().integer(1, 6).integer(3, 0).text(4, "text").integer(6, 0).end()]
        }
        ForgedColumn::Fixed(width) => {
            let leaf = ThriftWriter::default().integer(1, 7).integer(2, width).integer(3, 0).text(4, "text");
            vec![root, leaf.end()]
        }
        ForgedColumn::Vectors => vec![
            root,
            // Converted type 3 is a list.
            ThriftWriter::default().integer(3, 0).text(4, "vector").integer(5, 1).integer(6, 3).end(),
            ThriftWriter::default().integer(3, 2).text(4, "list").integer(5, 1).end(),
            ThriftWriter::default().integer(1, 4).integer(3, 0).text(4, "item").end(),
        ],
    };
    with_footer(content, schema, rows, vec![group; groups])
}

/// File of `depth` groups within each other, and a text.
pub fn nested(depth: usize) -> Vec<u8> {
    let root = ThriftWriter::default().text(4, "root").integer(5, 1).end();
    let group = ThriftWriter::default().integer(3, 0).text(4, "g").integer(5, 1).end();
    let leaf = ThriftWriter::default().integer(1, 6).integer(3, 0).text(4, "text").integer(6, 0).end();
    let groups = std::iter::repeat_n(group, depth);
    let schema = std::iter::once(root).chain(groups).chain([leaf]).collect();
    with_footer(b"PAR1".to_vec(), schema, 0, vec![])
}

/// File without rows, of `columns` texts in a group whose name has `name` bytes.
pub fn wide(columns: usize, name: usize) -> Vec<u8> {
    let root = ThriftWriter::default().text(4, "root").integer(5, 1).end();
    let count = i64::try_from(columns).unwrap();
    let group = ThriftWriter::default().integer(3, 0).text(4, &"g".repeat(name)).integer(5, count).end();
    let leaf = ThriftWriter::default().integer(1, 6).integer(3, 0).text(4, "text").integer(6, 0).end();
    let schema = [root, group].into_iter().chain(std::iter::repeat_n(leaf, columns)).collect();
    with_footer(b"PAR1".to_vec(), schema, 0, vec![])
}

fn with_footer(content: Vec<u8>, schema: Vec<Vec<u8>>, rows: i64, groups: Vec<Vec<u8>>) -> Vec<u8> {
    let footer = ThriftWriter::default().integer(1, 1).list(2, 12, schema).long(3, rows).list(4, 12, groups);
    with_metadata(content, footer)
}

/// File of a text without rows, whose metadata is changed by `change`.
pub fn without_rows(change: impl FnOnce(ThriftWriter) -> ThriftWriter) -> Vec<u8> {
    let root = ThriftWriter::default().text(4, "root").integer(5, 1).end();
    let leaf = ThriftWriter::default().integer(1, 6).integer(3, 0).text(4, "text").integer(6, 0).end();
    let metadata = ThriftWriter::default().integer(1, 1).list(2, 12, vec![root, leaf]).long(3, 0).list(4, 12, vec![]);
    with_metadata(b"PAR1".to_vec(), change(metadata))
}

fn with_metadata(mut content: Vec<u8>, metadata: ThriftWriter) -> Vec<u8> {
    let footer = metadata.end();
    content.extend_from_slice(&footer);
    content.extend(u32::try_from(footer.len()).unwrap().to_le_bytes());
    content.extend(b"PAR1");
    content
}

/// Packed lengths that start with `first` and then stay: `count` of them in a few bytes.
pub fn constant_lengths(first: i64, count: u64) -> Vec<u8> {
    let mut writer = ThriftWriter::default();
    // Blocks of 2²⁶ values in four parts.
    writer.number(1 << 26);
    writer.number(4);
    writer.number(count);
    writer.signed(first);
    for _ in 0..(count - 1).div_ceil(1 << 26) {
        writer.signed(0);
        writer.content.extend([0; 4]);
    }
    writer.content
}

/// Run of equal levels or indices of one byte.
pub fn run(level: u8, count: u64) -> Vec<u8> {
    let mut writer = ThriftWriter::default();
    writer.number(count << 1);
    writer.content.push(level);
    writer.content
}
