//! Benchmark of a training step, compared with the same model in PyTorch and with the time of its matrix products.
//!
//! Batch size 128, vocabulary 4,000, word vectors 300, embeddings 1,024, image features 4,096, gradient clipping, Adam,
//! two threads. MAX on captions of 12 words and on those of Flickr8k, and HAL on the former, in f32 and mixed
//! precision. Then HAL with a memory bank of 5,000 pairs, and the time to embed one of 30,000. Pairloom and the peer
//! run a few steps each, in alternation. The peer is `benches/training_peer.py`, and runs if the environment variable
//! `PAIRLOOM_PEER_PYTHON` names an interpreter with torch. It runs with OpenMP's default and passive wait policies, and
//! the faster one counts.
//!
//! Run: `cargo bench --bench training`, with the captions in `PAIRLOOM_DATA` or `../shared/data`.
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark measures time and prints")]
#![expect(clippy::cast_precision_loss, reason = "printed numbers need not be exact")]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Instant;

use pairloom_base::runtime::CancelToken;
use pairloom_kernels::epoch::TrainingPair;
use pairloom_kernels::product::{ElementType, LeftFactor, RightFactor, Tile, add_product, has_avx512};
use pairloom_kernels::random::Rng;
use pairloom_kernels::text::Tokenizer;
use pairloom_model::collective::CollectiveGroup;
use pairloom_model::family::encode;
use pairloom_model::family::encode::EncodedItems;
use pairloom_model::family::registry::DescribeModel;
use pairloom_model::memory_bank::MemoryBank;
use pairloom_model::step::{MemoryBankComparison, PairBatch, StepOptions};
use pairloom_model::training_state::TrainingState;
use pairloom_spec::family::ModelSettings;
use pairloom_spec::input_spec::InputSpec;
use pairloom_spec::loss::{Loss, MemoryBankMask, MemoryBankWeights};
use pairloom_spec::precision::MatmulPrecision;
use pairloom_spec::similarity::EmbeddingSimilarity;
use tch::{Device, Kind, Tensor};

#[path = "shared/processes.rs"]
mod processes;

const THREADS: usize = 2;
const BATCH: usize = 128;
const WORDS: usize = 4_000;
const WORD: usize = 300;
const JOINT: usize = 1_024;
const IMAGE: usize = 4_096;
/// Length of captions of fixed length, with `<start>` and `<end>`.
const LENGTH: usize = 12;
/// Number of different batches.
const BATCHES: usize = 16;
/// Rounds of each program. The first is a warm-up.
const ROUNDS: usize = 9;
/// Steps per round.
const STEPS: usize = 8;

type CaptionBatch = Vec<Vec<i32>>;

fn main() {
    processes::run_as_the_program(THREADS);
    tch::set_num_threads(i32::try_from(THREADS).expect("a small number"));
    let folder = std::env::var("PAIRLOOM_DATA").unwrap_or_else(|_| "../shared/data".to_owned());
    let mut kinds = vec![("captions of 12 words", random_batches())];
    match batches_of_file(&format!("{folder}/flickr8k-1k/Flickr8k.token.txt")) {
        Some(batches) => kinds.push(("captions of Flickr8k", batches)),
        None => println!("skipped: no captions of Flickr8k in `{folder}`"),
    }
    println!("products, {THREADS} threads, GFLOP/s: {}", format_rates());
    for (name, batches) in &kinds {
        measure(name, batches, "max");
    }
    let (name, batches) = &kinds[0];
    measure(name, batches, "hal");
    measure_memory_bank(batches);
}

/// Loss by its name in pipeline files, which the peer uses too.
fn loss(name: &str) -> Loss {
    serde_json::from_value(serde_json::json!({ name: {} })).expect("an objective")
}

/// Measures the cost of a memory bank in a step, and of embedding one.
fn measure_memory_bank(batches: &[CaptionBatch]) {
    for precision in [MatmulPrecision::F32, MatmulPrecision::Mixed] {
        let mut without = PairloomTraining::start(precision, batches, "hal");
        let mut with = PairloomTraining::start(precision, batches, "hal");
        with.bank = Some(with.embed(5_000));
        for round in 0..ROUNDS {
            without.run_round(round);
            with.run_round(round);
        }
        let [without, time] = [&without, &with].map(|ours| median(&ours.times).expect("at least one round"));
        let clock = Instant::now();
        with.embed(30_000);
        println!(
            "HAL with a bank of 5,000, {precision:?}: {time:.1} ms, of which the bank is {:.0} %; 30,000 pairs are embedded in \
             {:.1} s",
            100.0 * (1.0 - without / time),
            clock.elapsed().as_secs_f64()
        );
    }
}

/// Batches of random captions of fixed length.
fn random_batches() -> Vec<CaptionBatch> {
    let mut rng = Rng::new(1, &[]);
    let mut word = || i32::try_from(rng.uniform_below(WORDS)).expect("a small number");
    (0..BATCHES).map(|_| (0..BATCH).map(|_| (0..LENGTH).map(|_| word()).collect()).collect()).collect()
}

/// Batches of random captions of a file. All but the most frequent words are unknown.
fn batches_of_file(path: &str) -> Option<Vec<CaptionBatch>> {
    let text = std::fs::read_to_string(path).ok()?;
    let captions: Vec<Vec<String>> = text
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(_, caption)| Tokenizer::Treebank.tokenize(caption, true))
        .collect();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    captions.iter().flatten().for_each(|word| *counts.entry(word).or_default() += 1);
    let mut words: Vec<(&str, usize)> = counts.into_iter().collect();
    words.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let numbers: HashMap<&str, i32> =
        words.iter().take(WORDS - 4).zip(4..).map(|((word, _), number)| (*word, number)).collect();
    let mut rng = Rng::new(2, &[]);
    let mut caption = || {
        let words = captions[rng.uniform_below(captions.len())]
            .iter()
            .map(|word| numbers.get(word.as_str()).copied().unwrap_or(3));
        std::iter::once(1).chain(words).chain([2]).collect()
    };
    Some((0..BATCHES).map(|_| (0..BATCH).map(|_| caption()).collect()).collect())
}

/// Measures steps of all programs, in alternation.
fn measure(name: &str, batches: &[CaptionBatch], loss: &str) {
    let words: usize = batches.iter().flatten().map(Vec::len).sum::<usize>() / batches.len();
    let flops = batches.iter().map(flops).sum::<f64>() / batches.len() as f64;
    println!("\n{}, {name}: {words} words and {:.1} GFLOP per step", loss.to_uppercase(), flops / 1e9);
    let mut ours = [MatmulPrecision::F32, MatmulPrecision::Mixed]
        .map(|precision| PairloomTraining::start(precision, batches, loss));
    let mut peers = TrainingPeer::start(batches, loss);
    for round in 0..ROUNDS {
        for model in &mut ours {
            model.run_round(round);
        }
        for peer in &mut peers {
            peer.run_round(round);
        }
    }
    let peer = |mixed: bool| {
        let times = peers.iter().filter(|peer| peer.mixed == mixed).filter_map(|peer| median(&peer.times));
        times.min_by(f64::total_cmp)
    };
    let theirs = peer(false);
    for (kind, time) in [("PyTorch, f32", theirs), ("PyTorch, bf16 autocast", peer(true))] {
        if let Some(time) = time {
            println!("{kind:<24} {time:>8.1} ms");
        }
    }
    for (model, lanes) in ours.iter().zip([ElementType::F32, ElementType::Bf16]) {
        let time = median(&model.times).expect("at least one round");
        let floor = flops / product_rate(lanes) * 1e3;
        let ratio = theirs.map_or_else(String::new, |theirs| format!(", {:.2} of PyTorch in f32", time / theirs));
        println!(
            "{:<24} {time:>8.1} ms{ratio}, {:.2} of it products ({floor:.1} ms at our rate)",
            format!("Pairloom, {:?}", model.precision),
            floor / time
        );
    }
}

/// FLOP of the matrix products of a step: once forward, twice backward. The input product of a word is computed once
/// per batch.
fn flops(batch: &CaptionBatch) -> f64 {
    let words: usize = batch.iter().map(Vec::len).sum();
    let mut distinct: Vec<i32> = batch.iter().flatten().copied().collect();
    distinct.sort_unstable();
    distinct.dedup();
    let recurrent = 3 * (words - batch.len()) * 3 * JOINT * JOINT;
    let input = 3 * distinct.len() * 3 * JOINT * WORD;
    let images = 2 * batch.len() * IMAGE * JOINT;
    let scores = 3 * batch.len() * batch.len() * JOINT;
    2.0 * (recurrent + input + images + scores) as f64
}

fn median(times: &[f64]) -> Option<f64> {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied()
}

/// Training by Pairloom.
struct PairloomTraining<'b> {
    precision: MatmulPrecision,
    training: TrainingState,
    recipe: StepOptions,
    members: Vec<TrainingPair>,
    bank: Option<MemoryBank>,
    images: Vec<f32>,
    batches: &'b [CaptionBatch],
    step: usize,
    /// Milliseconds of each step.
    times: Vec<f64>,
}

impl<'b> PairloomTraining<'b> {
    fn start(precision: MatmulPrecision, batches: &'b [CaptionBatch], objective: &str) -> Self {
        let settings = serde_json::json!({ "vse": { "embed_size": JOINT, "word_dim": WORD } });
        let settings: ModelSettings = serde_json::from_value(settings).expect("settings");
        let config = settings.config(InputSpec::for_features(IMAGE, WORDS));
        let mut model = config.create(7, Device::Cpu).expect("a model");
        model.set_precision(precision).expect("a supported precision");
        let mut rng = Rng::new(3, &[]);
        #[expect(clippy::cast_possible_truncation, reason = "features are f32")]
        let images = (0..BATCH * IMAGE).map(|_| rng.uniform() as f32).collect();
        let (training, recipe) = (TrainingState::new(config, model), StepOptions::from(loss(objective)));
        let members = TrainingPair::unrelated(BATCH);
        let times = Vec::new();
        Self { precision, training, recipe, members, bank: None, images, batches, step: 0, times }
    }

    /// Embeds a memory bank of `samples` pairs that are not in a batch.
    fn embed(&self, samples: usize) -> MemoryBank {
        let all: Vec<&[i32]> = self.batches.iter().flatten().map(Vec::as_slice).collect();
        let (model, mut images, mut captions) = (self.training.model(), Vec::new(), Vec::new());
        for start in (0..samples).step_by(BATCH) {
            let count = BATCH.min(samples - start);
            images.push(
                encode::images(model, &self.images[..count * IMAGE], IMAGE, &CancelToken::new()).expect("vectors"),
            );
            let words: Vec<&[i32]> = (start..start + count).map(|row| all[row % all.len()]).collect();
            captions.push(encode::captions(model, &words, &CancelToken::new()).expect("vectors"));
        }
        let members = TrainingPair::unrelated(samples + BATCH).split_off(BATCH);
        let [images, captions] = [images, captions].map(|blocks| EncodedItems::concat(&blocks).expect("vectors"));
        MemoryBank::gather(0, members, &images, &captions, &CollectiveGroup::single()).expect("a bank")
    }

    fn run_round(&mut self, round: usize) {
        for _ in 0..STEPS {
            let clock = Instant::now();
            let captions: Vec<&[i32]> = self.batches[self.step % BATCHES].iter().map(Vec::as_slice).collect();
            let members = &self.members;
            let pairs = PairBatch { images: &self.images, captions: &captions, pairs: members, relevance: None };
            let weights = MemoryBankWeights::default();
            let bank = self.bank.as_ref().map(|bank| MemoryBankComparison {
                memory_bank: bank,
                similarity: EmbeddingSimilarity::Cosine,
                mask: MemoryBankMask::OwnImage,
                weights: &weights,
            });
            let stepped = self.training.step(&pairs, &self.recipe, bank, 2e-4, 0, &CollectiveGroup::single());
            assert!(stepped.expect("a step").loss.is_finite());
            self.step += 1;
            if round > 0 {
                self.times.push(clock.elapsed().as_secs_f64() * 1e3);
            }
        }
    }
}

/// Process of the peer.
struct TrainingPeer {
    mixed: bool,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    times: Vec<f64>,
}

impl TrainingPeer {
    /// Starts the peer in f32 and with autocast, each with both wait policies.
    fn start(batches: &[CaptionBatch], loss: &str) -> Vec<Self> {
        let Ok(python) = std::env::var("PAIRLOOM_PEER_PYTHON") else {
            println!("peer skipped: `PAIRLOOM_PEER_PYTHON` names no interpreter");
            return Vec::new();
        };
        let batches = serde_json::json!(batches).to_string();
        let start = |(mixed, passive): (bool, bool)| {
            let script = test_data::root().join("benches/training_peer.py");
            let mut command = processes::peer(&python);
            command
                .arg(script)
                .args([if mixed { "bf16" } else { "f32" }, loss])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped());
            command.args([THREADS, WORDS, WORD, JOINT, IMAGE].map(|number| number.to_string()));
            if passive {
                command.env("OMP_WAIT_POLICY", "PASSIVE");
            }
            let mut child = command.spawn().expect("the peer starts");
            let mut input = child.stdin.take().expect("it is piped");
            let output = BufReader::new(child.stdout.take().expect("it is piped"));
            writeln!(input, "{batches}").expect("the peer reads");
            Self { mixed, child, input, output, times: Vec::new() }
        };
        [(false, false), (false, true), (true, false), (true, true)].map(start).into()
    }

    fn run_round(&mut self, round: usize) {
        writeln!(self.input, "{STEPS}").expect("the peer reads");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the peer writes");
        let times: Vec<f64> = serde_json::from_str(&line).expect("milliseconds of steps");
        if round > 0 {
            self.times.extend(times);
        }
    }
}

impl Drop for TrainingPeer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Formats the rates of matrix products by Pairloom and libtorch.
fn format_rates() -> String {
    let library = |kind: Kind| {
        let [a, b] = [(); 2].map(|()| Tensor::rand([2048, 2048], (Kind::Float, Device::Cpu)).to_kind(kind));
        2.0 * 2048f64.powi(3) / fastest(|| drop(a.mm(&b.tr()))) / 1e9
    };
    format!(
        "f32 {:.0} (libtorch {:.0}), bf16 {:.0} (libtorch {:.0})",
        product_rate(ElementType::F32) / 1e9,
        library(Kind::Float),
        product_rate(ElementType::Bf16) / 1e9,
        library(Kind::BFloat16),
    )
}

/// FLOP per second of our matrix product with all threads, without packing.
fn product_rate(lanes: ElementType) -> f64 {
    assert!(has_avx512(lanes) || THREADS > 0);
    let (rows, depth, columns) = (128, 1024, 3072);
    let values = vec![0.5; depth];
    let left = LeftFactor::from_rows(lanes, rows, depth, |_| &values);
    let right = RightFactor::from_columns(lanes, depth, columns, |_| &values);
    let work = || {
        for (_, right) in right.panels() {
            for (rows, left) in left.panels() {
                let mut product = Tile::ZERO;
                add_product(lanes, rows, left, right, &mut product);
                std::hint::black_box(product);
            }
        }
    };
    let seconds = fastest(|| {
        std::thread::scope(|scope| {
            for _ in 1..THREADS {
                scope.spawn(|| (0..4).for_each(|_| work()));
            }
            (0..4).for_each(|_| work());
        });
    });
    4.0 * 2.0 * (THREADS * rows * depth * columns) as f64 / seconds
}

/// Minimum time of several runs, in seconds.
fn fastest(work: impl Fn()) -> f64 {
    let times = (0..12).map(|_| {
        let clock = Instant::now();
        work();
        clock.elapsed().as_secs_f64()
    });
    times.fold(f64::INFINITY, f64::min)
}
