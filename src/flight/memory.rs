//! Memory of the process of the server: beyond its limit, the query that began last ends.

use std::time::Duration;

use tokio::time::sleep;
use tonic::Status;

use crate::queries::RunningQueries;

/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(100);
/// Time in which a query that was ended gives its memory back, before another one is ended.
const RELEASE_TIME: Duration = Duration::from_secs(1);

/// Ends the query that began last, again and again, while the process uses more than `limit` bytes.
#[expect(clippy::infinite_loop, reason = "it ends with the runtime that it runs on")]
pub(super) async fn end_queries_beyond(limit: u64, queries: RunningQueries) {
    loop {
        sleep(PAUSE).await;
        let Some(used) = used_bytes().filter(|&used| used > limit) else { continue };
        let message = format!(
            "the server uses {used} bytes of memory, its limit is {limit}, and this query began last: run it when others have \
             ended, or ask for fewer rows"
        );
        if queries.end_last(&Status::resource_exhausted(message)) {
            sleep(RELEASE_TIME).await;
        }
    }
}

/// Bytes of this process that are in memory and of no file; `None` if the system does not say.
fn used_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;
    use crate::testing::{Served, refusal};

    #[test]
    fn a_query_beyond_the_memory_of_the_server_ends() {
        let used = used_bytes().unwrap();
        let block = vec![1_u8; 64 << 20];
        assert!(used_bytes().unwrap() >= used + block.len() as u64 / 2, "{used}");
        let served = Served::with_memory(1);
        let (code, text) = refusal(served.rows(&mut served.client(), "SELECT value FROM range(0, 9000000000)"));
        assert!(
            code == Code::ResourceExhausted && text.contains("its limit is 1, and this query began last"),
            "{text}"
        );
    }
}
