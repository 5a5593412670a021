//! A step of training beside the same model in PyTorch, and the floor that matrix products set.
//!
//! Batch 128, vocabulary 4,000, word vectors 300, joint space 1,024, image features 4,096, clipping, Adam, two threads; MAX on
//! captions of 12 words and on those of Flickr8k, HAL on the former; in f32 and mixed. Then HAL with a memory bank of 5,000
//! samples, and the time to embed one of 30,000. Ours and theirs take turns, a few steps each, in one
//! run. The peer is `benches/training_peer.py`, if the environment variable `PAIRLOOM_PEER_PYTHON` names an interpreter with
//! torch; it runs with OpenMP's threads waiting as they like and as ours do, and the faster of the two counts.
//!
//! Run: `cargo bench --bench training`; the captions are looked for in `PAIRLOOM_DATA` or `../shared/data`.
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark measures time and prints")]
#![expect(clippy::cast_precision_loss, reason = "numbers for people")]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use pairloom::kernels::product::{Lanes, Left, Right, Tile, tile, vectors};
use pairloom::kernels::sample::Sample;
use pairloom::kernels::text::Tokenizer;
use pairloom::model::bank::{Bank, Mask, Member};
use pairloom::model::collective::Group;
use pairloom::model::encoder::Precision;
use pairloom::model::family::data::Data;
use pairloom::model::family::encode;
use pairloom::model::family::encoded::Encoded;
use pairloom::model::family::list::Settings;
use pairloom::model::loss::{BankWeights, Loss};
use pairloom::model::similarity::Similarity;
use pairloom::model::step::{BankUse, Pairs, Recipe};
use pairloom::model::training::Training;
use tch::{Device, Kind, Tensor};

const THREADS: usize = 2;
const BATCH: usize = 128;
const WORDS: usize = 4_000;
const WORD: usize = 300;
const JOINT: usize = 1_024;
const IMAGE: usize = 4_096;
/// Words of a caption of fixed length, `<start>` and `<end>` among them.
const LENGTH: usize = 12;
/// Different batches.
const BATCHES: usize = 16;
/// Turns of each, and steps of a turn. The first turn warms up.
const TURNS: usize = 9;
const STEPS: usize = 8;

type Batch = Vec<Vec<i32>>;

fn main() {
    tch::set_num_threads(i32::try_from(THREADS).expect("a small number"));
    let folder = std::env::var("PAIRLOOM_DATA").unwrap_or_else(|_| "../shared/data".to_owned());
    let mut kinds = vec![("captions of 12 words", fixed())];
    match real(&format!("{folder}/flickr8k-1k/Flickr8k.token.txt")) {
        Some(batches) => kinds.push(("captions of Flickr8k", batches)),
        None => println!("skipped: no captions of Flickr8k in `{folder}`"),
    }
    println!("products, {THREADS} threads, GFLOP/s: {}", rates());
    for (name, batches) in &kinds {
        measure(name, batches, "max");
    }
    let (name, batches) = &kinds[0];
    measure(name, batches, "hal");
    bank(batches);
}

/// The objective that the peer calls so.
fn loss(name: &str) -> Loss {
    serde_json::from_value(serde_json::json!({ name: {} })).expect("an objective")
}

/// What a memory bank adds to a step, and what it takes to embed one.
fn bank(batches: &[Batch]) {
    for precision in [Precision::F32, Precision::Mixed] {
        let mut without = Ours::start(precision, batches, "hal");
        let mut with = Ours::start(precision, batches, "hal");
        with.bank = Some(with.embed(5_000));
        for turn in 0..TURNS {
            without.turn(turn);
            with.turn(turn);
        }
        let [without, time] = [&without, &with].map(|ours| median(&ours.times).expect("there were turns"));
        let clock = Instant::now();
        with.embed(30_000);
        println!(
            "HAL with a bank of 5,000, {precision:?}: {time:.1} ms, of which the bank is {:.0} %; 30,000 samples are embedded in \
             {:.1} s",
            100.0 * (1.0 - without / time),
            clock.elapsed().as_secs_f64()
        );
    }
}

/// Random words.
fn fixed() -> Vec<Batch> {
    let mut sample = Sample::new(1, &[]);
    let mut word = || i32::try_from(sample.below(WORDS)).expect("a small number");
    (0..BATCHES).map(|_| (0..BATCH).map(|_| (0..LENGTH).map(|_| word()).collect()).collect()).collect()
}

/// Captions drawn at random; all but the most frequent words are one.
fn real(path: &str) -> Option<Vec<Batch>> {
    let text = std::fs::read_to_string(path).ok()?;
    let captions: Vec<Vec<String>> = text
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(_, caption)| Tokenizer::Treebank.words(caption, true))
        .collect();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    captions.iter().flatten().for_each(|word| *counts.entry(word).or_default() += 1);
    let mut words: Vec<(&str, usize)> = counts.into_iter().collect();
    words.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let numbers: HashMap<&str, i32> =
        words.iter().take(WORDS - 4).zip(4..).map(|((word, _), number)| (*word, number)).collect();
    let mut sample = Sample::new(2, &[]);
    let mut caption = || {
        let words =
            captions[sample.below(captions.len())].iter().map(|word| numbers.get(word.as_str()).copied().unwrap_or(3));
        std::iter::once(1).chain(words).chain([2]).collect()
    };
    Some((0..BATCHES).map(|_| (0..BATCH).map(|_| caption()).collect()).collect())
}

/// Steps of all in turn.
fn measure(name: &str, batches: &[Batch], loss: &str) {
    let words: usize = batches.iter().flatten().map(Vec::len).sum::<usize>() / batches.len();
    let flops = batches.iter().map(flops).sum::<f64>() / batches.len() as f64;
    println!("\n{}, {name}: {words} words and {:.1} GFLOP a step", loss.to_uppercase(), flops / 1e9);
    let mut ours = [Precision::F32, Precision::Mixed].map(|precision| Ours::start(precision, batches, loss));
    let mut peers = Peer::start(batches, loss);
    for turn in 0..TURNS {
        for model in &mut ours {
            model.turn(turn);
        }
        for peer in &mut peers {
            peer.turn(turn);
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
    for (model, lanes) in ours.iter().zip([Lanes::F32, Lanes::Bf16]) {
        let time = median(&model.times).expect("there were turns");
        let floor = flops / product_rate(lanes) * 1e3;
        let ratio = theirs.map_or_else(String::new, |theirs| format!(", {:.2} of PyTorch in f32", time / theirs));
        println!(
            "{:<24} {time:>8.1} ms{ratio}, {:.2} of it products ({floor:.1} ms at our rate)",
            format!("Pairloom, {:?}", model.precision),
            floor / time
        );
    }
}

/// Operations of the products of a step: forwards once, backwards twice, the input product of a word once a batch.
fn flops(batch: &Batch) -> f64 {
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

/// Our training.
struct Ours<'b> {
    precision: Precision,
    training: Training,
    recipe: Recipe,
    members: Vec<Member>,
    bank: Option<Bank>,
    images: Vec<f32>,
    batches: &'b [Batch],
    step: usize,
    /// Milliseconds of each step.
    times: Vec<f64>,
}

impl<'b> Ours<'b> {
    fn start(precision: Precision, batches: &'b [Batch], objective: &str) -> Self {
        let settings = serde_json::json!({ "vse": { "embedding": JOINT, "word": WORD } });
        let settings: Settings = serde_json::from_value(settings).expect("settings");
        let config = settings.config(Data::features(IMAGE, WORDS));
        let mut model = config.create(7, Device::Cpu).expect("a model");
        model.set_precision(precision).expect("both");
        let mut sample = Sample::new(3, &[]);
        #[expect(clippy::cast_possible_truncation, reason = "features are f32")]
        let images = (0..BATCH * IMAGE).map(|_| sample.unit() as f32).collect();
        let (training, recipe) = (Training::start(config, model), Recipe::from(loss(objective)));
        let members = Member::strangers(BATCH);
        let times = Vec::new();
        Self { precision, training, recipe, members, bank: None, images, batches, step: 0, times }
    }

    /// A bank of that many samples that are none of a batch.
    fn embed(&self, samples: usize) -> Bank {
        let all: Vec<&[i32]> = self.batches.iter().flatten().map(Vec::as_slice).collect();
        let (model, mut images, mut captions) = (self.training.model(), Vec::new(), Vec::new());
        for start in (0..samples).step_by(BATCH) {
            let count = BATCH.min(samples - start);
            images.push(encode::images(model, &self.images[..count * IMAGE]).expect("vectors"));
            let words: Vec<&[i32]> = (start..start + count).map(|row| all[row % all.len()]).collect();
            captions.push(encode::captions(model, &words).expect("vectors"));
        }
        let members = Member::strangers(samples + BATCH).split_off(BATCH);
        let [images, captions] = [images, captions].map(|blocks| Encoded::join(&blocks).expect("vectors"));
        Bank::gather(0, members, &images, &captions, &Group::alone()).expect("a bank")
    }

    fn turn(&mut self, turn: usize) {
        for _ in 0..STEPS {
            let clock = Instant::now();
            let captions: Vec<&[i32]> = self.batches[self.step % BATCHES].iter().map(Vec::as_slice).collect();
            let members = &self.members;
            let pairs = Pairs { images: &self.images, captions: &captions, members, relevance: None };
            let weights = BankWeights::default();
            let bank = self.bank.as_ref().map(|bank| BankUse {
                bank,
                similarity: Similarity::Cosine,
                mask: Mask::OwnImage,
                weights: &weights,
            });
            let stepped = self.training.step(&pairs, &self.recipe, bank, 2e-4, 0, &Group::alone());
            assert!(stepped.expect("a step").loss.is_finite());
            self.step += 1;
            if turn > 0 {
                self.times.push(clock.elapsed().as_secs_f64() * 1e3);
            }
        }
    }
}

/// The peer's process.
struct Peer {
    mixed: bool,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    times: Vec<f64>,
}

impl Peer {
    /// In f32 and with autocast, with either way of waiting.
    fn start(batches: &[Batch], loss: &str) -> Vec<Self> {
        let Ok(python) = std::env::var("PAIRLOOM_PEER_PYTHON") else {
            println!("peer skipped: `PAIRLOOM_PEER_PYTHON` names no interpreter");
            return Vec::new();
        };
        let batches = serde_json::json!(batches).to_string();
        let start = |(mixed, passive): (bool, bool)| {
            let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/training_peer.py");
            let mut command = Command::new(&python);
            command
                .arg(script)
                .args([if mixed { "bf16" } else { "f32" }, loss])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped());
            command.args([THREADS, WORDS, WORD, JOINT, IMAGE].map(|number| number.to_string()));
            if passive {
                command.env("OMP_WAIT_POLICY", "PASSIVE")
            } else {
                command.env_remove("OMP_WAIT_POLICY")
            };
            let mut child = command.spawn().expect("the peer starts");
            let mut input = child.stdin.take().expect("it is piped");
            let output = BufReader::new(child.stdout.take().expect("it is piped"));
            writeln!(input, "{batches}").expect("the peer reads");
            Self { mixed, child, input, output, times: Vec::new() }
        };
        [(false, false), (false, true), (true, false), (true, true)].map(start).into()
    }

    fn turn(&mut self, turn: usize) {
        writeln!(self.input, "{STEPS}").expect("the peer reads");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the peer writes");
        let times: Vec<f64> = serde_json::from_str(&line).expect("milliseconds of steps");
        if turn > 0 {
            self.times.extend(times);
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What products run at: ours and the library's.
fn rates() -> String {
    let library = |kind: Kind| {
        let [a, b] = [(); 2].map(|()| Tensor::rand([2048, 2048], (Kind::Float, Device::Cpu)).to_kind(kind));
        2.0 * 2048f64.powi(3) / fastest(|| drop(a.mm(&b.tr()))) / 1e9
    };
    format!(
        "f32 {:.0} (libtorch {:.0}), bf16 {:.0} (libtorch {:.0})",
        product_rate(Lanes::F32) / 1e9,
        library(Kind::Float),
        product_rate(Lanes::Bf16) / 1e9,
        library(Kind::BFloat16),
    )
}

/// Operations a second of our own products with all threads, packed already.
fn product_rate(lanes: Lanes) -> f64 {
    assert!(vectors(lanes) || THREADS > 0);
    let (rows, depth, columns) = (128, 1024, 3072);
    let values = vec![0.5; depth];
    let left = Left::from_rows(lanes, rows, depth, |_| &values);
    let right = Right::from_columns(lanes, depth, columns, |_| &values);
    let work = || {
        for (_, right) in right.panels() {
            for (rows, left) in left.panels() {
                let mut product = Tile::ZERO;
                tile(lanes, rows, left, right, &mut product);
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

/// Seconds of the fastest of some runs.
fn fastest(work: impl Fn()) -> f64 {
    let times = (0..12).map(|_| {
        let clock = Instant::now();
        work();
        clock.elapsed().as_secs_f64()
    });
    times.fold(f64::INFINITY, f64::min)
}
