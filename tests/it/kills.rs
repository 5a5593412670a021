//! Runs and trainings that are killed at random times, and resume to the bytes of an undisturbed run.
//!
//! `PAIRLOOM_KILLS=1000 cargo test --test it kills` kills more often, and trainings of one to four ranks too;
//! `PAIRLOOM_KILLS_SEED` chooses other times.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pairloom_kernels::random::Rng;

use crate::support::{assert_same_content, content, number_of, pairloom, pipeline, tiny_pipeline};

/// Kills of the test.
const KILLS: u64 = 10;

/// Kills in a row, after which a run may finish.
const IN_A_ROW: usize = 5;

/// Pipeline that is killed, again and again.
struct KilledPipeline {
    folder: PathBuf,
    file: PathBuf,
    ranks: usize,
    /// Content and duration of an undisturbed run.
    whole: BTreeMap<String, Vec<u8>>,
    length: Duration,
    in_a_row: usize,
    kills: usize,
    finished: usize,
}

#[expect(clippy::disallowed_methods, reason = "runs are killed at random fractions of their duration")]
fn now() -> Instant {
    Instant::now()
}

impl KilledPipeline {
    fn new(folder: PathBuf, ranks: usize) -> Self {
        std::fs::create_dir_all(&folder).unwrap();
        let file = match ranks {
            0 => tiny_pipeline(&folder),
            _ => pipeline(&folder, "training.toml", |tiny| {
                let end = tiny.find("[stage.joint.embed]").expect("the stage after the training");
                tiny[..end].replace("epochs = 2", "epochs = 12")
            }),
        };
        let (whole, length) = (BTreeMap::new(), Duration::ZERO);
        let mut killed = Self { folder, file, ranks, whole, length, in_a_row: 0, kills: 0, finished: 0 };
        let clock = now();
        killed.wait_for_success(killed.start());
        (killed.length, killed.whole) = (clock.elapsed(), content(&killed.store()));
        std::fs::remove_dir_all(killed.store()).unwrap();
        killed
    }

    fn store(&self) -> PathBuf {
        self.folder.join("store")
    }

    /// Starts a run. Its messages go to a file, because ranks whose run was killed may hold a pipe open for a while.
    fn start(&self) -> Child {
        let mut command = pairloom();
        command.args(["run", "--quiet", "--threads", "2", "--store"]).arg(self.store()).arg(&self.file);
        if self.ranks > 0 {
            command.arg("--set").arg(format!("stage.fit.train.ranks={}", self.ranks));
        }
        let messages = File::create(self.folder.join("messages")).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(messages).spawn().unwrap()
    }

    fn messages(&self) -> String {
        std::fs::read_to_string(self.folder.join("messages")).unwrap_or_default()
    }

    fn wait_for_success(&self, mut run: Child) {
        let status = run.wait().unwrap();
        assert!(status.success(), "{status}, {} ranks: {}", self.ranks, self.messages());
    }

    /// Starts a run and kills it, or one of its ranks, at a random time.
    fn kill_once(&mut self, rng: &mut Rng) {
        let mut run = self.start();
        std::thread::sleep(self.length.mul_f64(0.02 + 0.7 * rng.uniform()));
        let others = processes(&self.folder);
        let victims = match rng.uniform_below(3) {
            0 => vec![run.id()],
            1 if !others.is_empty() => vec![others[rng.uniform_below(others.len())]],
            _ => others,
        };
        let is_running = run.try_wait().unwrap().is_none();
        let victims = victims.iter().map(u32::to_string);
        Command::new("kill").arg("-9").args(victims).stderr(Stdio::null()).status().unwrap();
        let status = run.wait().unwrap();
        if status.success() {
            // The machine has become faster, or more was there than expected.
            self.length = self.length.mul_f64(0.8);
            self.compare();
        } else {
            self.length = self.length.mul_f64(1.03);
            // A run whose rank is killed says so.
            let by_rank = status.code() == Some(4) && self.messages().contains("rank");
            assert!(is_running && (status.code().is_none() || by_rank), "{status}: {}", self.messages());
            (self.kills, self.in_a_row) = (self.kills + 1, self.in_a_row + 1);
            if self.in_a_row >= IN_A_ROW {
                self.finish();
            }
        }
    }

    fn finish(&mut self) {
        self.wait_for_success(self.start());
        self.compare();
    }

    fn compare(&mut self) {
        assert_same_content(&content(&self.store()), &self.whole);
        std::fs::remove_dir_all(self.store()).unwrap();
        (self.in_a_row, self.finished) = (0, self.finished + 1);
    }
}

/// Processes whose command line names a file below this folder.
fn processes(folder: &Path) -> Vec<u32> {
    let folder = format!("{}/", folder.display());
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(id) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&command).contains(&folder) {
            found.push(id);
        }
    }
    found
}

#[test]
fn runs_killed_at_random_times_resume_to_the_same_bytes() {
    let asked = number_of("PAIRLOOM_KILLS");
    let kills = usize::try_from(asked.unwrap_or(KILLS)).unwrap();
    let mut rng = Rng::new(number_of("PAIRLOOM_KILLS_SEED").unwrap_or(11), &[]);
    let folder = tempfile::tempdir().unwrap();
    // The whole pipeline, and in a campaign trainings of so many ranks.
    let ranks = if asked.is_some() { 0..=4 } else { 0..=0 };
    let mut pipelines: Vec<_> =
        ranks.map(|ranks| KilledPipeline::new(folder.path().join(ranks.to_string()), ranks)).collect();
    let done = |pipelines: &[KilledPipeline]| pipelines.iter().map(|pipeline| pipeline.kills).sum::<usize>();
    for turn in 0..10 * kills {
        if done(&pipelines) >= kills {
            break;
        }
        let pipeline = turn % pipelines.len();
        pipelines[pipeline].kill_once(&mut rng);
        if turn % 50 == 49 {
            println!("{} kills", done(&pipelines));
        }
    }
    for pipeline in &mut pipelines {
        pipeline.finish();
        let KilledPipeline { ranks, kills, finished, .. } = pipeline;
        println!("{ranks} ranks (0: the whole pipeline): {kills} kills, {finished} results with the same bytes");
    }
    assert!(done(&pipelines) >= kills, "most runs finished before they were killed");
}
