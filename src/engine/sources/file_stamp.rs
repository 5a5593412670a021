//! Stamp of a file or folder: as long as it stays the same, the content is assumed to be unchanged.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use serde::{Deserialize, Serialize};

use pairloom_stage::RowKey;

/// Size, times, inode and device of a file or folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileStamp {
    pub bytes: u64,
    /// Seconds and nanoseconds of the last change of the content.
    content: (i64, i64),
    /// Seconds and nanoseconds of the last change of content, name, owner or times.
    status: (i64, i64),
    device: u64,
    inode: u64,
}

/// Longest time between two changes that a file system may give the same time: FAT counts in two seconds.
const TIME_RESOLUTION_SECONDS: i64 = 2;

impl FileStamp {
    /// Stamp of a file or folder with this metadata.
    pub fn of(meta: &Metadata) -> Self {
        Self {
            bytes: meta.len(),
            content: (meta.mtime(), meta.mtime_nsec()),
            status: (meta.ctime(), meta.ctime_nsec()),
            device: meta.dev(),
            inode: meta.ino(),
        }
    }

    /// Key of the stamp.
    pub fn key(&self) -> RowKey {
        let Self { bytes, content, status, device, inode } = self;
        let times = [content.0, content.1, status.0, status.1].map(i64::to_le_bytes);
        RowKey::of(
            [[bytes, device, inode].map(|number| number.to_le_bytes()).as_flattened(), times.as_flattened()]
                .concat()
                .as_slice(),
        )
    }

    /// True if the last change was so long before `now`, in seconds, that a later one has another time.
    pub fn is_settled(&self, now: i64) -> bool {
        self.content.0.max(self.status.0) + TIME_RESOLUTION_SECONDS < now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_differ_in_one_thing_have_different_stamps() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let stamp = FileStamp::of(&file.as_file().metadata().unwrap());
        assert_eq!(stamp, FileStamp::of(&std::fs::metadata(file.path()).unwrap()));
        for other in [
            // As after another file system was mounted in place of the first, with the same content.
            FileStamp { device: stamp.device + 1, ..stamp },
            FileStamp { inode: stamp.inode + 1, ..stamp },
            FileStamp { bytes: stamp.bytes + 1, ..stamp },
            FileStamp { content: (stamp.content.0, stamp.content.1 ^ 1), ..stamp },
            FileStamp { content: (stamp.content.0 - 1, stamp.content.1), ..stamp },
            FileStamp { status: (stamp.status.0, stamp.status.1 ^ 1), ..stamp },
            FileStamp { status: (stamp.status.0 - 1, stamp.status.1), ..stamp },
        ] {
            assert!(other != stamp && other.key() != stamp.key(), "{other:?} {stamp:?}");
        }
    }
}
