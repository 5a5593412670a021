//! Sections of searches on a cluster, through a child process.

use std::ffi::OsString;

use super::siblings::Sibling;
use super::sql_child::ask;
use super::sql_requests::SqlRequest;
use pairloom_base::error::Result;
use pairloom_base::runtime::ClusterUrl;
use pairloom_store::search_tasks::SectionRunner;

/// Runner of sections on a cluster whose executors read the store of the run.
#[derive(Debug)]
pub(super) struct ClusterSections {
    /// URL of the scheduler.
    pub(super) cluster: ClusterUrl,
    /// Store, as for `--store`.
    pub(super) store: OsString,
}

impl SectionRunner for ClusterSections {
    fn run_sections(
        &self,
        folder: &str,
        job: &str,
        sections: &[usize],
        report: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let request = SqlRequest::RunSections {
            cluster: self.cluster.to_string(),
            store: self.store.clone(),
            folder: folder.to_owned(),
            job: job.to_owned(),
            sections: sections.to_vec(),
        };
        ask(Sibling::SqlServer, &request, report)
    }
}
