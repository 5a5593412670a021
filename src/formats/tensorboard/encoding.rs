//! Records of event files, and the protobuf encoding <https://protobuf.dev/programming-guides/encoding/>.

/// File version, in the first event of every file.
const VERSION: &str = "brain.Event:2";

/// Starts an event file.
pub(super) fn new_file(wall_time: f64) -> Vec<u8> {
    let mut file = Vec::new();
    append_event(&mut file, wall_time, 0, &bytes_field(3, VERSION.as_bytes()));
    file
}

/// Appends an event of a step. `values` are encoded by [`summary_value`].
pub(super) fn append_summary(file: &mut Vec<u8>, wall_time: f64, step: i64, values: &[Vec<u8>]) {
    let summary: Vec<u8> = values.iter().flat_map(|value| bytes_field(1, value)).collect();
    append_event(file, wall_time, step, &bytes_field(5, &summary));
}

/// Encodes a `Summary.Value` with a scalar: tag (field 1), simple value (field 2).
pub(super) fn summary_value(tag: &str, value: f64) -> Vec<u8> {
    let mut scalar = bytes_field(1, tag.as_bytes());
    scalar.push(field_tag(2, 5));
    #[expect(clippy::cast_possible_truncation, reason = "TensorBoard shows f32")]
    scalar.extend((value as f32).to_le_bytes());
    scalar
}

/// Encodes a field of a double.
pub(super) fn double_field(number: u8, value: f64) -> Vec<u8> {
    let mut field = vec![field_tag(number, 1)];
    field.extend(value.to_le_bytes());
    field
}

/// Encodes a field of an integer, a boolean or an enum.
pub(super) fn varint_field(number: u8, value: u64) -> Vec<u8> {
    let mut field = vec![field_tag(number, 0)];
    varint(&mut field, value);
    field
}

/// Appends the record of an `Event`: wall time (field 1), step (field 2) and the field `what`. Fields with value 0 are
/// omitted, as in protobuf.
fn append_event(file: &mut Vec<u8>, wall_time: f64, step: i64, what: &[u8]) {
    let mut event = Vec::new();
    if wall_time != 0.0 {
        event.extend(double_field(1, wall_time));
    }
    if step != 0 {
        event.extend(varint_field(2, step.cast_unsigned()));
    }
    event.extend(what);
    append_record(file, &event);
}

/// Appends a `TFRecord` to `file`.
fn append_record(file: &mut Vec<u8>, content: &[u8]) {
    let length = (content.len() as u64).to_le_bytes();
    file.extend(length);
    file.extend(mask_crc(crc32c(&length)).to_le_bytes());
    file.extend(content);
    file.extend(mask_crc(crc32c(content)).to_le_bytes());
}

/// Encodes a length-delimited field: bytes, text or a message.
pub(super) fn bytes_field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut field = vec![field_tag(number, 2)];
    varint(&mut field, content.len() as u64);
    field.extend(content);
    field
}

/// Tag of a field: its number, below 16, and its wire type.
fn field_tag(number: u8, wire_type: u8) -> u8 {
    number << 3 | wire_type
}

/// Appends a varint: groups of seven bits, the lowest first; the eighth bit is set if more follow.
fn varint(to: &mut Vec<u8>, mut value: u64) {
    loop {
        let [low, ..] = value.to_le_bytes();
        value >>= 7;
        if value == 0 {
            to.push(low);
            return;
        }
        to.push(low | 0x80);
    }
}

/// CRC-32C (Castagnoli, RFC 3720 B.4), computed bit by bit, since event files are small.
fn crc32c(bytes: &[u8]) -> u32 {
    let shifted = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), shifted))
}

/// Masks a CRC, as `TFRecord` does. Without the mask, the CRC of data that contains CRCs would be weak.
fn mask_crc(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test vectors of RFC 3720, B.4, and the check value of the catalogue of CRCs.
    #[test]
    fn crc32c_agrees_with_the_rfc() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&(0..32).collect::<Vec<u8>>()), 0x46dd_794e);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }
}
