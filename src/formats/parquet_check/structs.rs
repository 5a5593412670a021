//! Structs of Parquet's metadata: the numbers and types of their fields.
//!
//! Format: <https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift>.

use super::thrift::ValueType::{self, Binary, Bool, Byte, Double, Integer, List, Struct};

/// Fields of a struct: numbers and types.
type Fields = &'static [(i64, ValueType)];

/// Struct without fields, or of which the library reads none.
const EMPTY: ValueType = Struct(&[]);
/// List of numbers.
const INTEGERS: ValueType = List(&Integer);
/// List of texts with a key.
const KEY_VALUES: ValueType = List(&Struct(&[(1, Binary), (2, Binary)]));

const STATISTICS: ValueType =
    Struct(&[(1, Binary), (2, Binary), (3, Integer), (4, Integer), (5, Binary), (6, Binary), (7, Bool), (8, Bool)]);

const SIZE_STATISTICS: ValueType = Struct(&[(1, Integer), (2, INTEGERS), (3, INTEGERS)]);

const GEOSPATIAL_STATISTICS: ValueType = Struct(&[
    (
        1,
        Struct(&[
            (1, Double),
            (2, Double),
            (3, Double),
            (4, Double),
            (5, Double),
            (6, Double),
            (7, Double),
            (8, Double),
        ]),
    ),
    (2, INTEGERS),
]);

const TIME: ValueType = Struct(&[(1, Bool), (2, Struct(&[(1, EMPTY), (2, EMPTY), (3, EMPTY)]))]);

const LOGICAL_TYPE: ValueType = Struct(&[
    (1, EMPTY),
    (2, EMPTY),
    (3, EMPTY),
    (4, EMPTY),
    (5, Struct(&[(1, Integer), (2, Integer)])),
    (6, EMPTY),
    (7, TIME),
    (8, TIME),
    (10, Struct(&[(1, Byte), (2, Bool)])),
    (11, EMPTY),
    (12, EMPTY),
    (13, EMPTY),
    (14, EMPTY),
    (15, EMPTY),
    (16, Struct(&[(1, Byte)])),
    (17, Struct(&[(1, Binary)])),
    (18, Struct(&[(1, Binary), (2, Integer)])),
]);

const SCHEMA_ELEMENT: ValueType = Struct(&[
    (1, Integer),
    (2, Integer),
    (3, Integer),
    (4, Binary),
    (5, Integer),
    (6, Integer),
    (7, Integer),
    (8, Integer),
    (9, Integer),
    (10, LOGICAL_TYPE),
]);

const COLUMN_META_DATA: ValueType = Struct(&[
    (1, Integer),
    (2, INTEGERS),
    (3, List(&Binary)),
    (4, Integer),
    (5, Integer),
    (6, Integer),
    (7, Integer),
    (8, KEY_VALUES),
    (9, Integer),
    (10, Integer),
    (11, Integer),
    (12, STATISTICS),
    (13, List(&Struct(&[(1, Integer), (2, Integer), (3, Integer)]))),
    (14, Integer),
    (15, Integer),
    (16, SIZE_STATISTICS),
    (17, GEOSPATIAL_STATISTICS),
]);

/// Keys of the columns of an encrypted file.
const COLUMN_CRYPTO_META_DATA: ValueType = Struct(&[(1, EMPTY), (2, Struct(&[(1, List(&Binary)), (2, Binary)]))]);

const COLUMN_CHUNK: ValueType = Struct(&[
    (1, Binary),
    (2, Integer),
    (3, COLUMN_META_DATA),
    (4, Integer),
    (5, Integer),
    (6, Integer),
    (7, Integer),
    (8, COLUMN_CRYPTO_META_DATA),
    (9, Binary),
]);

const ROW_GROUP: ValueType = Struct(&[
    (1, List(&COLUMN_CHUNK)),
    (2, Integer),
    (3, Integer),
    (4, List(&Struct(&[(1, Integer), (2, Bool), (3, Bool)]))),
    (5, Integer),
    (6, Integer),
    (7, Integer),
]);

/// Names in an encrypted file.
const AES: ValueType = Struct(&[(1, Binary), (2, Binary), (3, Bool)]);

/// `FileMetaData`, the footer of a file.
pub(super) const FILE_META_DATA: Fields = &[
    (1, Integer),
    (2, List(&SCHEMA_ELEMENT)),
    (3, Integer),
    (4, List(&ROW_GROUP)),
    (5, KEY_VALUES),
    (6, Binary),
    (7, List(&Struct(&[(1, EMPTY), (2, EMPTY)]))),
    (8, Struct(&[(1, AES), (2, AES)])),
    (9, Binary),
];

/// `PageHeader`: the header of a page of values (5), of an index (6), of a dictionary (7), or of values of version 2 (8).
pub(super) const PAGE_HEADER: Fields = &[
    (1, Integer),
    (2, Integer),
    (3, Integer),
    (4, Integer),
    (5, Struct(&[(1, Integer), (2, Integer), (3, Integer), (4, Integer), (5, STATISTICS)])),
    (6, EMPTY),
    (7, Struct(&[(1, Integer), (2, Integer), (3, Bool)])),
    (
        8,
        Struct(&[
            (1, Integer),
            (2, Integer),
            (3, Integer),
            (4, Integer),
            (5, Integer),
            (6, Integer),
            (7, Bool),
            (8, STATISTICS),
        ]),
    ),
];
