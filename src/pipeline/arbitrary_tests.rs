//! Property tests: arbitrary files and overrides give diagnostics, never a panic.

use proptest::prelude::*;

use super::tests::{VALID, load_bytes};

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        if let Err(diagnostics) = load_bytes(&bytes, &[], true) {
            prop_assert!(!diagnostics.render(true).is_empty());
        }
    }

    #[test]
    fn mutated_files_never_panic(at in 0..VALID.len(), cut in 0usize..30, insert in "[\\[\\]{}=\"a-z0-9.\n ö]{0,12}") {
        let mut bytes = VALID.as_bytes().to_vec();
        let end = (at + cut).min(bytes.len());
        bytes.splice(at..end, insert.bytes());
        if let Err(diagnostics) = load_bytes(&bytes, &[], true) {
            prop_assert!(!diagnostics.as_slice().is_empty() && !diagnostics.render(true).is_empty());
        }
    }

    #[test]
    fn arbitrary_overrides_never_panic(text in "(stage|seed|expect)?[.](fit|0)?[.](train)?[.]?[a-z=.\"\\[{0-9ö]{0,12}") {
        if let Err(diagnostics) = load_bytes(VALID.as_bytes(), &[&text], true) {
            prop_assert!(!diagnostics.render(true).is_empty());
        }
    }
}
