//! Benchmark of models over regions: scores of all pairs, and training steps, each beside its published formulation in
//! PyTorch.
//!
//! 36 regions of 2,048 values, joint space of 1,024, captions of Flickr8k, two threads. Scores: 128 images × 512 captions
//! that are already encoded. Training: batches of 128 pairs, MAX, gradient clipping, Adam, in f32 and mixed precision;
//! then batches of 32 and 64 pairs and of 18 regions, for the growth with each. Every model is measured in processes of its
//! own, with the memory of a step. The peer, `benches/regions_peer.py`, forms attended vectors in a loop over captions, as
//! the published code does, and runs if the environment variable `PAIRLOOM_PEER_PYTHON` names an interpreter with torch.
//! The programs run in alternation.
//!
//! Run: `cargo bench --bench regions`, with the captions in `PAIRLOOM_DATA` or `../shared/data`. With `-- --large N` it
//! only scores the first N of 5,000 images with 25,000 captions, as `score_pairs` does, and prints the rate and the peak
//! memory of the process. `-- --model N` measures the N-th model alone, from 0: its steps and scores. `--precision bf16`,
//! `--loss sum`, `--batch N` and `--regions N` change its steps, and leave the scores out; `--alone` leaves the peer out.
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark measures time and prints")]
#![expect(clippy::cast_precision_loss, reason = "printed numbers need not be exact")]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use pairloom_base::runtime::CancelToken;
use pairloom_kernels::epoch::TrainingPair;
use pairloom_kernels::random::Rng;
use pairloom_kernels::text::Tokenizer;
use pairloom_model::collective::CollectiveGroup;
use pairloom_model::family::concept_graph::{Concept, set_concepts};
use pairloom_model::family::encode;
use pairloom_model::family::model::Model;
use pairloom_model::family::registry::{DescribeModel, ModelConfig};
use pairloom_model::pair_scores::{CaptionBlocks, PairScoring};
use pairloom_model::step::{PairBatch, StepOptions};
use pairloom_model::training_state::TrainingState;
use pairloom_spec::family::ModelSettings;
use pairloom_spec::input_spec::InputSpec;
use pairloom_spec::loss::Loss;
use pairloom_spec::precision::MatmulPrecision;
use tch::Device;

#[path = "shared/memory.rs"]
mod memory;
#[path = "shared/processes.rs"]
mod processes;

const THREADS: usize = 2;
const WORDS: usize = 4_000;
const WORD: usize = 300;
const JOINT: usize = 1_024;
const IMAGE: usize = 2_048;
const REGIONS: usize = 36;
const BATCH: usize = 128;
/// Concepts of CVSE.
const CONCEPTS: usize = 300;
/// Captions of the scores.
const CAPTIONS: usize = 512;
/// Rounds of each program. The first is a warm-up.
const ROUNDS: usize = 5;

fn main() {
    processes::run_as_the_program(THREADS);
    tch::set_num_threads(i32::try_from(THREADS).expect("a small number"));
    let folder = std::env::var("PAIRLOOM_DATA").unwrap_or_else(|_| "../shared/data".to_owned());
    let Some(captions) = captions_of_file(&format!("{folder}/flickr8k-1k/Flickr8k.token.txt")) else {
        println!("skipped: no captions of Flickr8k in `{folder}`");
        return;
    };
    if let Some(images) = argument("--large") {
        return score_many(&captions, images.parse().expect("a number of images after `--large`"));
    }
    if let Some(model) = argument("--model") {
        let number = |name, otherwise| argument(name).map_or(otherwise, |value| value.parse().expect("a number"));
        let setup = StepSetup {
            model: model.parse().expect("a number after `--model`"),
            precision: argument("--precision").unwrap_or_else(|| "f32".to_owned()),
            loss: argument("--loss").unwrap_or_else(|| "max".to_owned()),
            batch: number("--batch", BATCH),
            regions: number("--regions", REGIONS),
            with_peer: std::env::args().all(|argument| argument != "--alone"),
        };
        return measure_model(&setup, &captions);
    }
    for changes in [
        &[][..],
        &["--precision", "bf16"],
        &["--loss", "sum"],
        &["--batch", "32", "--alone"],
        &["--batch", "64", "--alone"],
        &["--regions", "18", "--alone"],
    ] {
        for model in 0..models(REGIONS).len() {
            // Each in a process of its own, which has no memory of another.
            let own = std::env::current_exe().expect("a path");
            let status = Command::new(own).args(["--model", &model.to_string()]).args(changes).status();
            assert!(status.expect("the process starts").success());
        }
    }
}

/// Value of an argument of this program.
fn argument(name: &str) -> Option<String> {
    std::env::args().skip_while(|argument| argument != name).nth(1)
}

/// Training steps that are measured.
struct StepSetup {
    model: usize,
    precision: String,
    loss: String,
    batch: usize,
    regions: usize,
    with_peer: bool,
}

/// Model that is measured, and its name in the peer.
struct MeasuredModel {
    name: &'static str,
    peer: &'static str,
    config: ModelConfig,
}

/// All models over regions, as wide as SCAN.
fn models(regions: usize) -> Vec<MeasuredModel> {
    let size = |more: serde_json::Value| {
        let mut settings = serde_json::json!({ "embed_size": JOINT, "word_dim": WORD });
        if let (Some(all), serde_json::Value::Object(more)) = (settings.as_object_mut(), more) {
            all.extend(more);
        }
        settings
    };
    let plain = || size(serde_json::json!({}));
    let module = |name: &str| size(serde_json::json!({ "module": name }));
    let all = [
        ("SCAN, text to image", "scan_t2i", serde_json::json!({ "scan": plain() })),
        (
            "SCAN, image to text",
            "scan_i2t",
            serde_json::json!({ "scan": size(serde_json::json!({ "cross_attention": "i2t" })) }),
        ),
        ("SGR", "sgr", serde_json::json!({ "sgraf": module("sgr") })),
        ("SAF", "saf", serde_json::json!({ "sgraf": module("saf") })),
        ("VSRN", "vsrn", serde_json::json!({ "vsrn": plain() })),
        ("CVSE", "cvse", serde_json::json!({ "cvse": plain() })),
        ("VSE∞", "vse_infinity", serde_json::json!({ "vse_infinity": plain() })),
    ];
    let measured = |(name, peer, settings)| MeasuredModel { name, peer, config: model_config(settings, regions) };
    all.into_iter().map(measured).collect()
}

/// Creates a model with random parameters. One with concepts has a graph of them, in which each has four neighbours.
fn create(config: &ModelConfig) -> Box<dyn Model> {
    let model = config.create(7, Device::Cpu).expect("a model");
    if let Some(count) = config.input_spec().concepts {
        let word = |id: usize| format!("w{id}");
        let concept = |i: usize| Concept {
            lemma: word(i + 4),
            words: vec![word(i + 4)],
            n_captions: 100,
            co_occurrences: (0..count).map(|j| if i.abs_diff(j) <= 2 { 50.0 } else { 0.0 }).collect(),
        };
        let (concepts, words) = ((0..count).map(concept).collect::<Vec<_>>(), (0..WORDS).map(word).collect::<Vec<_>>());
        set_concepts(model.parameters(), &concepts, &words).expect("concepts");
    }
    model
}

/// Measures training steps of a model, the peak memory of this process, and the scores of encoded pairs.
fn measure_model(setup: &StepSetup, captions: &[Vec<i32>]) {
    let StepSetup { precision, loss, batch, regions, .. } = setup;
    let MeasuredModel { name, peer, config } = models(*regions).swap_remove(setup.model);
    let mut own = Training::start(captions, &config, setup);
    let numbers: usize = own.state.model().parameters().tensors().iter().map(tch::Tensor::numel).sum();
    // Parameters, gradients and two moments.
    let fixed = (4 * 4 * numbers) as f64 / f64::from(1 << 20);
    let mut of_peer = setup.with_peer.then(|| Peer::start(peer, captions, setup)).flatten();
    let (mut times, mut others) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        times.push(own.step());
        others.extend(of_peer.as_mut().map(|peer| peer.measure("step")));
    }
    let (peak, time) = (memory::peak("self") >> 20, median(times.split_off(1)));
    drop(of_peer);
    println!(
        "{name}, {loss}, {precision}: step of {batch} pairs, {regions} regions {:.0} ms{}; the process has {peak} MiB at most, \
         of which parameters, gradients and moments are {fixed:.0}",
        time * 1e3,
        beside_steps(time, others)
    );
    if setup.is_plain() {
        print!("{name}: ");
        compare_scores(setup, peer, &config, captions);
    }
}

impl StepSetup {
    /// True without changes of the steps.
    fn is_plain(&self) -> bool {
        let shape = (self.batch, self.regions, self.with_peer);
        self.precision == "f32" && self.loss == "max" && shape == (BATCH, REGIONS, true)
    }
}

/// Text about the steps of the peer, beside one that takes `own` seconds. The first is a warm-up.
fn beside_steps(own: f64, mut others: Vec<f64>) -> String {
    if others.is_empty() {
        return String::new();
    }
    let other = median(others.split_off(1));
    format!(", PyTorch {:.0} ms, ratio {:.2}", other * 1e3, own / other)
}

/// Scores the first `count` of 5,000 images with 25,000 captions, in blocks of images.
fn score_many(captions: &[Vec<i32>], count: usize) {
    let MeasuredModel { config, .. } = models(REGIONS).swap_remove(0);
    let model = create(&config);
    let cancel = CancelToken::new();
    let token_ids: Vec<&[i32]> = captions.iter().cycle().take(25_000).map(Vec::as_slice).collect();
    let words: usize = token_ids.iter().map(|caption| caption.len()).sum();
    let clock = Instant::now();
    let blocks = CaptionBlocks::encode(&*model, &token_ids, &cancel).expect("captions");
    println!("25,000 captions of {words} words encoded in {:.0} s", clock.elapsed().as_secs_f64());
    let ids: Vec<i64> = (0..25_000).collect();
    let clock = Instant::now();
    for start in (0..count).step_by(BATCH) {
        let images = random_regions(BATCH.min(count - start), REGIONS);
        let images = encode::images(&*model, &images, REGIONS * IMAGE, &cancel).expect("images");
        let ids = [&ids[..images.len()], &ids];
        let scoring = PairScoring { config: &config, ids, threads: THREADS, cancel: &cancel };
        assert_eq!(scoring.compute(&*model, &images, &blocks).expect("scores").len(), ids[0].len() * 25_000);
    }
    let seconds = clock.elapsed().as_secs_f64();
    println!(
        "{count} images with 25,000 captions in {seconds:.0} s, {:.1} images/s: 5,000 in {:.0} min; peak memory {} MiB",
        count as f64 / seconds,
        5_000.0 * seconds / count as f64 / 60.0,
        memory::peak("self") >> 20
    );
}

/// Token ids of 2,048 captions, with `<start>` and `<end>`.
fn captions_of_file(path: &str) -> Option<Vec<Vec<i32>>> {
    let text = std::fs::read_to_string(path).ok()?;
    let mut known: HashMap<String, i32> = HashMap::new();
    let mut caption = |line: &str| {
        let tokens = Tokenizer::Treebank.tokenize(line.split_once('\t').map_or(line, |(_, text)| text), true);
        let next = |known: &HashMap<String, i32>| i32::try_from(known.len() % (WORDS - 4)).expect("a small number") + 4;
        let mut ids = vec![1];
        for token in tokens {
            let id = next(&known);
            ids.push(*known.entry(token).or_insert(id));
        }
        ids.push(2);
        ids
    };
    let all: Vec<Vec<i32>> = text.lines().take(2_048).map(&mut caption).collect();
    (all.len() == 2_048).then_some(all)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn model_config(settings: serde_json::Value, regions: usize) -> ModelConfig {
    let settings: ModelSettings = serde_json::from_value(settings).expect("settings");
    let concepts = settings.capabilities().concepts.then_some(CONCEPTS);
    settings.config(InputSpec { concepts, ..InputSpec::for_regions(regions, IMAGE, WORDS) })
}

fn random_regions(images: usize, regions: usize) -> Vec<f32> {
    let mut rng = Rng::new(3, &[]);
    #[expect(clippy::cast_possible_truncation, reason = "regions are f32")]
    (0..images * regions * IMAGE).map(|_| rng.uniform() as f32).collect()
}

/// Measures the scores of encoded pairs beside those of the peer `model`.
fn compare_scores(setup: &StepSetup, model: &str, config: &ModelConfig, captions: &[Vec<i32>]) {
    let mut peer = Peer::start(model, &captions[..CAPTIONS], setup);
    let mut others = Vec::new();
    let (own, pairs) = time_scores(config, captions, |round| {
        let of_peer = peer.as_mut().map(|peer| peer.measure("score"));
        others.extend(of_peer.filter(|_| round > 0));
    });
    print!("scores: {pairs:.0} pairs/s");
    if others.is_empty() {
        println!();
    } else {
        let other = median(others);
        println!(", PyTorch {:.0} pairs/s, ratio {:.1}", pairs * own / other, other / own);
    }
}

/// Median time of the scores of encoded pairs, and pairs a second. Runs `between` after each round.
fn time_scores(config: &ModelConfig, captions: &[Vec<i32>], mut between: impl FnMut(usize)) -> (f64, f64) {
    let model = create(config);
    let cancel = CancelToken::new();
    let images = encode::images(&*model, &random_regions(BATCH, REGIONS), REGIONS * IMAGE, &cancel).expect("images");
    let token_ids: Vec<&[i32]> = captions[..CAPTIONS].iter().map(Vec::as_slice).collect();
    let blocks = CaptionBlocks::encode(&*model, &token_ids, &cancel).expect("captions");
    let ids: Vec<i64> = (0..512).collect();
    let scoring = PairScoring { config, ids: [&ids[..BATCH], &ids], threads: THREADS, cancel: &cancel };
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        let clock = Instant::now();
        let scores = scoring.compute(&*model, &images, &blocks).expect("scores");
        assert_eq!(scores.len(), BATCH * CAPTIONS);
        // The first round is a warm-up.
        if round > 0 {
            times.push(clock.elapsed().as_secs_f64());
        }
        between(round);
    }
    let seconds = median(times);
    (seconds, (BATCH * CAPTIONS) as f64 / seconds)
}

/// Training by Pairloom.
struct Training<'c> {
    state: TrainingState,
    options: StepOptions,
    images: Vec<f32>,
    captions: &'c [Vec<i32>],
    batch: usize,
    next: usize,
}

impl<'c> Training<'c> {
    fn start(captions: &'c [Vec<i32>], config: &ModelConfig, setup: &StepSetup) -> Self {
        let (config, batch) = (config.clone(), setup.batch);
        let mut model = create(&config);
        let precision = if setup.precision == "bf16" { MatmulPrecision::Mixed } else { MatmulPrecision::F32 };
        model.set_precision(precision).expect("a supported precision");
        let mut settings = serde_json::Map::new();
        settings.insert(setup.loss.clone(), serde_json::json!({}));
        let loss: Loss = serde_json::from_value(settings.into()).expect("a loss");
        let state = TrainingState::new(config, model);
        Self { state, options: loss.into(), images: random_regions(batch, setup.regions), captions, batch, next: 0 }
    }

    /// Makes a step and returns its time in seconds.
    fn step(&mut self) -> f64 {
        let start = self.next * self.batch % (self.captions.len() - self.batch);
        let captions: Vec<&[i32]> = self.captions[start..start + self.batch].iter().map(Vec::as_slice).collect();
        let pairs = TrainingPair::unrelated(self.batch);
        let batch = PairBatch { images: &self.images, captions: &captions, pairs: &pairs, relevance: None };
        let clock = Instant::now();
        let done = self.state.step(&batch, &self.options, None, 2e-4, 0, &CollectiveGroup::single());
        assert!(done.expect("a step").loss.is_finite());
        self.next += 1;
        clock.elapsed().as_secs_f64()
    }
}

/// Process of the peer.
struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    fn start(model: &str, captions: &[Vec<i32>], setup: &StepSetup) -> Option<Self> {
        let Ok(python) = std::env::var("PAIRLOOM_PEER_PYTHON") else {
            println!("peer skipped: `PAIRLOOM_PEER_PYTHON` names no interpreter");
            return None;
        };
        let script = test_data::root().join("benches/regions_peer.py");
        let mut command = processes::peer(&python);
        command.arg(script).args([model, &setup.precision, &setup.loss]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let sizes = [THREADS, WORDS, WORD, JOINT, IMAGE, setup.regions, setup.batch];
        command.args(sizes.map(|number| number.to_string()));
        let mut child = command.spawn().expect("the peer starts");
        let mut input = child.stdin.take().expect("it is piped");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        writeln!(input, "{}", serde_json::json!(captions)).expect("the peer reads");
        Some(Self { child, input, output })
    }

    /// Returns the seconds of one `score` or `step`.
    fn measure(&mut self, what: &str) -> f64 {
        writeln!(self.input, "{what}").expect("the peer reads");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the peer writes");
        line.trim().parse().expect("seconds")
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
