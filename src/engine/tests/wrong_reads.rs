//! Tests of a store whose first read of each object has a flipped bit, as a disk or a network may err once.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use object_store::local::LocalFileSystem;
use object_store::path::Path as ObjectPath;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result as StoreResult,
};

use super::*;
use crate::io::objects::ObjectStorage;
use crate::store::ProcessIdentity;
use crate::store::run_log::RunLog;

/// A local object store whose first read of each object of results and of runs is wrong.
#[derive(Debug)]
struct WrongOnceStore {
    inner: LocalFileSystem,
    read: Mutex<BTreeSet<ObjectPath>>,
}

fn wrong_once_store(folder: &Path) -> Store {
    let folder = folder.join("v1");
    let inner = LocalFileSystem::new_with_prefix(&folder).unwrap();
    let wrong = WrongOnceStore { inner, read: Mutex::default() };
    Store::with_objects(ObjectStorage::with_inner(Arc::new(wrong), &folder), ProcessIdentity::new(None))
}

impl fmt::Display for WrongOnceStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a store that errs once")
    }
}

#[async_trait::async_trait]
impl ObjectStore for WrongOnceStore {
    async fn put_opts(
        &self,
        location: &ObjectPath,
        payload: PutPayload,
        options: PutOptions,
    ) -> StoreResult<PutResult> {
        self.inner.put_opts(location, payload, options).await
    }
    async fn put_multipart_opts(
        &self,
        location: &ObjectPath,
        options: PutMultipartOptions,
    ) -> StoreResult<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }
    async fn get_opts(&self, location: &ObjectPath, options: GetOptions) -> StoreResult<GetResult> {
        let is_head = options.head;
        let result = self.inner.get_opts(location, options).await?;
        let name = location.as_ref();
        let is_content = ["journal/", "part-", "manifest.json", "runs/"].iter().any(|part| name.contains(part));
        if is_head || !is_content || !self.read.lock().unwrap().insert(location.clone()) {
            return Ok(result);
        }
        let (meta, range, attributes) = (result.meta.clone(), result.range.clone(), result.attributes.clone());
        let mut content = result.bytes().await?.to_vec();
        let middle = content.len() / 2;
        content[middle] ^= 1;
        let payload = GetResultPayload::Stream(stream::once(async move { Ok(Bytes::from(content)) }).boxed());
        Ok(GetResult { payload, meta, range, attributes })
    }
    async fn get_ranges(&self, location: &ObjectPath, ranges: &[Range<u64>]) -> StoreResult<Vec<Bytes>> {
        self.inner.get_ranges(location, ranges).await
    }
    fn delete_stream(
        &self,
        locations: BoxStream<'static, StoreResult<ObjectPath>>,
    ) -> BoxStream<'static, StoreResult<ObjectPath>> {
        self.inner.delete_stream(locations)
    }
    fn list(&self, prefix: Option<&ObjectPath>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        self.inner.list(prefix)
    }
    async fn list_with_delimiter(&self, prefix: Option<&ObjectPath>) -> StoreResult<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }
    async fn copy_opts(&self, from: &ObjectPath, to: &ObjectPath, options: CopyOptions) -> StoreResult<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

#[test]
fn finished_results_and_records_are_known_though_each_first_read_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    run(&pipeline(), &Store::open(folder.path()).unwrap());
    let (before, names) = (content(folder.path()), |store: &Store| to_run(&pipeline(), store));
    assert!(names(&wrong_once_store(folder.path())).is_empty());
    let store = wrong_once_store(folder.path());
    let (summary, events) = run(&pipeline(), &store);
    assert!(summary.error.is_none(), "{:?}", summary.error);
    assert!(!events.iter().any(|event| matches!(event, Event::StageStarted { .. })));
    assert_eq!(content(folder.path()), before);

    let log = RunLog::open(&wrong_once_store(folder.path())).unwrap();
    assert_eq!(log.names().len(), 2);
    assert!((0..2).all(|i| log.record(i).unwrap().is_ok()));
    let log = RunLog::open(&wrong_once_store(folder.path())).unwrap();
    log.read_all().unwrap();
    assert!(log.iter().all(|record| record.is_ok()));
}

#[test]
fn a_stopped_run_goes_on_after_all_its_commits_though_each_first_read_is_wrong() {
    let plan = plan(vec![node("squares", ToyStage::Squares { n: 20 })]);
    let mut resumed = BTreeSet::new();
    for writes in 0.. {
        // What a run resumes after is the same for a disk that does not err.
        let rows_resumed = [false, true].map(|is_wrong| {
            let folder = tempfile::tempdir().unwrap();
            let (store, left) = faulty::store(folder.path(), writes);
            let summary = execute(&plan, &store, &options(), &CancelToken::new(), &|_| {});
            let is_finished = summary.is_ok_and(|summary| summary.error.is_none());
            left.store(isize::MAX, Ordering::SeqCst);
            let store = if is_wrong { wrong_once_store(folder.path()) } else { store };
            let (summary, events) = run(&plan, &store);
            assert!(summary.error.is_none(), "after {writes} writes: {:?}", summary.error);
            let squares: Vec<i64> = (0..20).map(|x| x * x).collect();
            assert_eq!(rows(&store, &statuses(&plan, &store)[0], "rows").unwrap(), squares, "after {writes} writes");
            let started = events.iter().find_map(|event| match event {
                Event::StageStarted { resumed_rows, .. } => Some(*resumed_rows),
                _ => None,
            });
            (is_finished, started)
        });
        assert_eq!(rows_resumed[0], rows_resumed[1], "after {writes} writes");
        resumed.extend(rows_resumed[1].1);
        if rows_resumed[0].0 {
            break;
        }
    }
    assert!(resumed.len() >= 4, "{resumed:?}");
}
