//! Identifiers of the captions of a `*_precomp` folder.

use std::collections::HashMap;

use az::SaturatingAs;

use super::super::Precomp;
use super::files::SplitFiles;
use pairloom_base::error::{Error, Result, ValidationErrors};
use pairloom_formats::id_list::IdList;
use pairloom_stage::StageContext;

/// Identifiers of captions: listed for the split `test`, if the settings name a list; otherwise numbers.
#[derive(Debug, Default)]
pub(super) struct CaptionIds {
    test: Option<Vec<i64>>,
    /// Number of the first caption of the folder.
    first: i64,
}

impl CaptionIds {
    /// Reads the list of `settings`, if there is one.
    ///
    /// # Errors
    /// The list has not one identifier for each caption of the split `test`, or one of them twice.
    pub fn read(settings: &Precomp, all: &[SplitFiles], cx: &StageContext<'_>) -> Result<Self> {
        if settings.test_caption_ids.is_none() {
            return Ok(Self::default());
        }
        let path = cx.source("precomp.test_caption_ids")?;
        let test = all.iter().find(|files| files.split == "test");
        let test = test.ok_or_else(|| Error::data("`test_caption_ids` is set, but there is no split `test`"))?;
        let list = IdList::read(&path)?;
        if list.ids.len() != test.captions {
            let (file, captions) = (path.display(), test.caps.path().display());
            return Err(Error::data(format!(
                "`{file}` has {} identifiers, wanted {}, one for each line of `{captions}`",
                list.ids.len(),
                test.captions
            ))
            .hint("the files `testall_*` of COCO, all 5,000 test images, are read with `test = \"testall\"`"));
        }
        let mut mistakes = ValidationErrors::in_file(&path);
        let mut seen = HashMap::with_capacity(list.ids.len());
        for (index, id) in list.ids.iter().enumerate() {
            if let Some(first) = seen.insert(id, index) {
                mistakes.add(list.place(index), format_args!("{id} is also that of {}", list.place(first)));
            }
        }
        mistakes.into_result()?;
        let largest = list.ids.iter().copied().max().unwrap_or(-1).max(-1);
        // The captions of the other splits have the numbers above.
        let captions = all.iter().fold(0usize, |total, files| total.saturating_add(files.captions));
        if i64::try_from(captions).ok().and_then(|captions| largest.checked_add(captions)).is_none() {
            let file = path.display();
            return Err(Error::data(format!(
                "`{file}` has the identifier {largest}, and above it are no {captions} numbers for other captions"
            )));
        }
        Ok(Self { test: Some(list.ids), first: largest + 1 })
    }

    /// Identifier of caption `line` of a split, from 0; the splits before it have `before` captions.
    ///
    /// # Errors
    /// The identifier is too large.
    pub fn id(&self, split: &str, line: usize, before: usize) -> Result<i64> {
        if let Some(ids) = self.test.as_ref().filter(|_| split == "test") {
            return ids.get(line).copied().ok_or_else(|| Error::internal("a caption without identifier"));
        }
        let number = before.saturating_add(line).saturating_as::<i64>();
        self.first.checked_add(number).ok_or_else(|| Error::data(format!("{number} is too large for an id")))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::testing::{captions, folder, ingest, npy, refused};

    /// One training image and two test images, of five captions each; identifiers of the test captions in `ids`.
    fn set(ids: &[u8]) -> tempfile::TempDir {
        let lines = |count: usize| "a caption\n".repeat(count).into_bytes();
        folder(&[
            ("train_ims.npy", &npy(&[vec![1.0, 2.0]])),
            ("train_caps.txt", &lines(5)),
            ("test_ims.npy", &npy(&[vec![1.0, 2.0], vec![3.0, 4.0]])),
            ("test_caps.txt", &lines(10)),
            ("ids", ids),
        ])
    }

    fn settings() -> serde_json::Value {
        json!({"precomp": {"folder": "", "test_caption_ids": "ids"}})
    }

    #[test]
    fn listed_identifiers_are_those_of_the_test_captions() {
        let host = ingest(set(b"7\n5\n6\n-1\n0\n1\n2\n3\n4\n8\n").path(), settings()).unwrap();
        let rows = captions(&host);
        let of_split = |split: &str| rows.iter().filter(|row| row.2 == split).map(|row| row.0).collect::<Vec<_>>();
        assert_eq!(of_split("test"), [7, 5, 6, -1, 0, 1, 2, 3, 4, 8]);
        assert_eq!(of_split("train"), [9, 10, 11, 12, 13], "the numbers above the listed ones");
        assert_eq!(rows.iter().map(|row| row.1).collect::<Vec<_>>(), [[0; 5], [1; 5], [2; 5]].concat());
    }

    #[test]
    fn wrong_lists_are_refused() {
        let message = refused(ingest(set(b"7\n5\n6\n1\n0\n1\n2\n3\n7\n8\n").path(), settings()));
        for part in ["line 6: 1 is also that of line 4", "line 9: 7 is also that of line 1"] {
            assert!(message.contains(part), "{message}");
        }
        let message = refused(ingest(set(b"9223372036854775807\n5\n6\n1\n0\n2\n3\n4\n7\n8\n").path(), settings()));
        let wanted = "has the identifier 9223372036854775807, and above it are no 15 numbers for other captions";
        assert!(message.contains(wanted), "{message}");
        let message = refused(ingest(set(b"7\n5\n").path(), settings()));
        assert!(message.contains("has 2 identifiers, wanted 10, one for each line of"), "{message}");
        let without_test = folder(&[
            ("train_ims.npy", &npy(&[vec![1.0, 2.0]])),
            ("train_caps.txt", b"a\na\na\na\na\n"),
            ("ids", b"1\n"),
        ]);
        let message = refused(ingest(without_test.path(), settings()));
        assert!(message.starts_with("`test_caption_ids` is set, but there is no split `test`"), "{message}");
    }
}
