//! Numbers of variable length, seven bits in a byte, as Thrift and Parquet's encodings have them.

/// Takes an unsigned number from the start of `bytes`; `None` for other bytes.
pub(super) fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.split_off_first()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}
