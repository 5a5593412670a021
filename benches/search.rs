//! Benchmark of exact search at the size of COCO-5K, compared with FAISS, PyTorch and the argsort of published code.
//!
//! 5,000 images and 25,000 captions of width 1,024, two threads: ranks of all matches and the ten best items in both
//! directions. Then the cost of hubness reduction methods, without the score matrix in memory, with the peak memory of
//! the process. Pairloom and its peers run in alternation. The peers are in `benches/search_peer.py`, and run if the
//! environment variable `PAIRLOOM_PEER_PYTHON` names an interpreter with numpy, torch and faiss.
//!
//! The vectors are random: an image has a uniform direction, and its five captions that direction plus noise, such that
//! R@1 of image to text is about 50 %.
//!
//! Run: `cargo bench --bench search`. `-- --large` searches 200,000 queries and 200,000 items of width 256 instead, for
//! one or two minutes; `-- --large 50000` sets another number. `-- --only Sinkhorn` runs only methods with that name,
//! once.
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark measures time and prints")]
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "printed numbers need not be exact"
)]

use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Instant;

use pairloom_kernels::measure::recall::BestMatchRank;
use pairloom_kernels::order_similarity::OrderPenalty;
use pairloom_kernels::product::{ElementType, LeftFactor, RightFactor, Tile, add_product, has_avx512};
use pairloom_kernels::random::Rng;
use pairloom_retrieval::{Collection, Evaluation, EvaluationDetail, Matches, Method, VectorSource, evaluate};
use pairloom_search::{CpuSearchFactory, Positives, ScoreFunction, Search, SearchRequest, SearchResults, VectorMatrix};

#[path = "shared/memory.rs"]
mod memory;
#[path = "shared/processes.rs"]
mod processes;

const THREADS: usize = 2;
const IMAGES: usize = 5_000;
const CAPTIONS: usize = 25_000;
const WIDTH: usize = 1_024;
/// Items retrieved per query.
const TOP: usize = 10;
/// Rounds of each program. The first is a warm-up.
const ROUNDS: usize = 6;
/// Standard deviation of a caption's noise, relative to that of its image.
const NOISE: f64 = 11.0;

fn main() {
    processes::run_as_the_program(THREADS);
    println!(
        "products, {THREADS} threads, GFLOP/s: f32 {:.0}, bf16 {:.0}",
        product_rate(ElementType::F32),
        product_rate(ElementType::Bf16)
    );
    if let Some(count) = argument("--large") {
        return large(count.parse().unwrap_or(200_000));
    }
    let (images, captions) = draw_vectors(IMAGES, CAPTIONS, WIDTH);
    if argument("--only").is_none() {
        compare_with_peers(&images, &captions);
    }
    methods(&BenchEmbeddings::new(&images, &captions));
    order(&images, &captions);
}

/// Value of a command line argument; empty if none follows.
fn argument(name: &str) -> Option<String> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.next().map(|_| arguments.next().unwrap_or_default())
}

/// Images and captions of a search, and their matches.
struct BenchVectors<'v> {
    images: VectorMatrix<'v>,
    captions: VectorMatrix<'v>,
    captions_of: Vec<Range<usize>>,
    image_of: Vec<Range<usize>>,
}

impl<'v> BenchVectors<'v> {
    fn new(images: &'v [f32], captions: &'v [f32], width: usize) -> Self {
        let (n, m) = (images.len() / width, captions.len() / width);
        let each = m / n;
        Self {
            images: VectorMatrix::new("images", images, width).expect("valid vectors"),
            captions: VectorMatrix::new("captions", captions, width).expect("valid vectors"),
            captions_of: (0..n).map(|i| i * each..(i + 1) * each).collect(),
            image_of: (0..m).map(|j| j / each..j / each + 1).collect(),
        }
    }

    fn search(&self) -> Search<'_> {
        Search::from_vectors(&self.images, &self.captions, ScoreFunction::Product, THREADS)
            .expect("vectors of equal width")
    }

    /// Finds the `k` best items and the ranks of matches in both directions.
    fn find(&self, search: &Search<'_>, k: usize) -> [SearchResults; 2] {
        let images = SearchRequest { k, positives: Positives::Ranges(&self.captions_of), ..SearchRequest::default() };
        let captions = SearchRequest { k, positives: Positives::Ranges(&self.image_of), ..SearchRequest::default() };
        search.find(&images, &captions, &mut |_, _| Ok(())).expect("a valid search")
    }
}

/// Measures Pairloom and its peers in alternation: ranks and lists.
fn compare_with_peers(images: &[f32], captions: &[f32]) {
    let folder = std::env::temp_dir().join(format!("pairloom-search-{}", std::process::id()));
    let mut peer = SearchPeer::start(&folder, images, captions);
    let work = ["product", "topk", "faiss", "argsort"];
    let mut theirs = work.map(|_| Vec::new());
    let (mut ours, mut found) = (Vec::new(), None);
    for round in 0..ROUNDS {
        let (clock, before) = (Instant::now(), cpu_seconds());
        let sides = BenchVectors::new(images, captions, WIDTH);
        let answers = sides.find(&sides.search(), TOP);
        ours.push([clock.elapsed().as_secs_f64(), (cpu_seconds() - before) / THREADS as f64]);
        found = Some(answers);
        for (name, times) in work.iter().zip(&mut theirs) {
            // Argsort is slow, and its time hardly varies.
            if let Some(peer) = peer.as_mut().filter(|_| *name != "argsort" || round < 3) {
                times.push(peer.run(name));
            }
        }
    }
    let found = found.expect("at least one round");
    let own = medians(&ours);
    println!(
        "\n{IMAGES} images, {CAPTIONS} captions, {WIDTH} wide; ranks and the {TOP} best in both directions, {THREADS} threads"
    );
    println!("wall time, CPU time over {THREADS}");
    let [clock, busy] = own;
    println!("{:<40} {clock:>7.3} s {busy:>7.3} s   {}", "Pairloom, exact, without the score matrix", recalls(&found));
    let what = [
        "matrix product only, torch f32",
        "torch product and topk, both directions",
        "FAISS IndexFlatIP, both directions",
        "argsort of every query, as published",
    ];
    for (what, times) in what.iter().zip(&theirs).filter(|(_, times)| !times.is_empty()) {
        let [clock, busy] = medians(times);
        let [of_clock, of_busy] = [own[0] / clock, own[1] / busy];
        println!("{what:<40} {clock:>7.3} s {busy:>7.3} s   Pairloom takes {of_clock:.2}, {of_busy:.2} of it");
    }
    if peer.is_some() {
        let BenchVectors { images, captions, .. } = &BenchVectors::new(images, captions, WIDTH);
        println!("i2t: {}", agreement(&found[0], images, captions, &folder.join("i2t")));
        println!("t2i: {}", agreement(&found[1], captions, images, &folder.join("t2i")));
    }
    drop(std::fs::remove_dir_all(folder));
}

/// Counts the lists that equal those of FAISS, which sums in f32, so that very close scores may be swapped. For the
/// other lists, counts those of either program that are correct by products in f64.
fn agreement(answer: &SearchResults, queries: &VectorMatrix<'_>, items: &VectorMatrix<'_>, theirs: &Path) -> String {
    let bytes = std::fs::read(theirs).expect("the peer wrote its lists");
    let ids: Vec<usize> = bytes.as_chunks::<8>().0.iter().map(|id| i64::from_le_bytes(*id) as usize).collect();
    let product = |query: usize, item: usize| -> f64 {
        queries.row(query).iter().zip(items.row(item)).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
    };
    let (mut differ, mut ours_right, mut theirs_right) = (0, 0, 0);
    for ((query, best), theirs) in answer.top.iter().enumerate().zip(ids.chunks_exact(TOP)) {
        let ours: Vec<usize> = best.iter().map(|best| best.item).collect();
        if ours != theirs {
            let mut all = [ours.as_slice(), theirs].concat();
            all.sort_by(|&a, &b| product(query, b).total_cmp(&product(query, a)).then(a.cmp(&b)));
            all.dedup();
            differ += 1;
            ours_right += usize::from(all[..TOP] == ours);
            theirs_right += usize::from(all[..TOP] == *theirs);
        }
    }
    format!(
        "{} of {} lists are those of FAISS; of the other {differ}, by products in f64, ours are right in {ours_right}, theirs in {theirs_right}",
        answer.top.len() - differ,
        answer.top.len()
    )
}

fn recalls(found: &[SearchResults; 2]) -> String {
    let recall = |ranks: &[Option<BestMatchRank>], k: usize| {
        let hits = ranks.iter().flatten().filter(|rank| rank.rank < k).count();
        100.0 * hits as f64 / ranks.len() as f64
    };
    let both = found.each_ref().map(|answer| [1, 5, 10].map(|k| format!("{:.1}", recall(&answer.ranks, k))).join(" "));
    format!("R@1, 5, 10: {}", both.join(", "))
}

/// Collection with its captions grouped by image.
struct BenchEmbeddings<'v> {
    images: &'v [f32],
    captions: &'v [f32],
    ids: Vec<i64>,
    first_caption: Vec<usize>,
}

impl<'v> BenchEmbeddings<'v> {
    fn new(images: &'v [f32], captions: &'v [f32]) -> Self {
        let first_caption = (0..=IMAGES).map(|image| image * CAPTIONS / IMAGES).collect();
        Self { images, captions, ids: (0..).take(CAPTIONS).collect(), first_caption }
    }

    /// Measures a method, with its settings as in a pipeline file.
    fn measure(&self, name: &str, settings: &str, order: Option<OrderPenalty>) {
        let method: Method = serde_json::from_str(settings).expect("settings of a method");
        let factory = CpuSearchFactory { order, threads: THREADS };
        let Self { images, captions, ids, first_caption } = self;
        let scores = VectorSource { images, captions, width: WIDTH, bank: None, factory: &factory };
        let matches = Matches::Grouped(first_caption);
        let collection = Collection { image_ids: &ids[..IMAGES], caption_ids: ids, matches, scores: &scores };
        let (methods, detail) = ([method], EvaluationDetail::Recalls { lists: TOP });
        let evaluation = Evaluation { methods: &methods, detail, ..Evaluation::of(collection) };
        measure(name, || {
            let summary = evaluate(&evaluation, &mut ()).expect("a valid search").summary.remove(0);
            let both = [summary.i2t.recalls, summary.t2i.recalls]
                .map(|recalls| recalls.iter().map(|recall| format!("{recall:.1}")).collect::<Vec<_>>().join(" "));
            format!("R@1, 5, 10: {}", both.join(", "))
        });
    }
}

/// Measures methods: ranks and the best items in both directions.
fn methods(embeddings: &BenchEmbeddings<'_>) {
    println!(
        "\nmethods, ranks and the {TOP} best in both directions: wall time, CPU time over {THREADS}, peak memory of the process"
    );
    for (name, settings) in [
        ("nearest neighbour", r#"{"nns": {}}"#),
        ("inverted softmax, β = 30", r#"{"inverted_softmax": {"beta": 30}}"#),
        ("CSLS, k = 10", r#"{"csls": {"k": 10}}"#),
        ("Sinkhorn, 10 iterations", r#"{"sinkhorn": {"tau": 0.01, "iterations": 10}}"#),
        (
            "IS + relaxed greedy matching, λ = 3",
            r#"{"relaxed_greedy": {"lambda": 3, "over": {"inverted_softmax": {"beta": 30}}}}"#,
        ),
        ("CSLS + relaxed greedy matching, λ = 3", r#"{"relaxed_greedy": {"lambda": 3, "over": {"csls": {"k": 10}}}}"#),
    ] {
        embeddings.measure(name, settings, None);
    }
}

/// Measures nearest neighbours by order similarity, and with equal scores.
fn order(images: &[f32], captions: &[f32]) {
    let [images, captions] = [images, captions].map(|values| values.iter().map(|x| x.abs()).collect::<Vec<_>>());
    let name = "order similarity of the absolute values";
    BenchEmbeddings::new(&images, &captions).measure(name, r#"{"nns": {}}"#, Some(OrderPenalty::Norm));
    // All vectors are equal, so approximate scores never decide a comparison.
    let all = |count: usize| images[..WIDTH].repeat(count);
    let (images, captions) = (all(IMAGES), all(CAPTIONS));
    BenchEmbeddings::new(&images, &captions).measure("all vectors equal", r#"{"nns": {}}"#, None);
}

fn measure(name: &str, work: impl Fn() -> String) {
    let only = argument("--only");
    if only.as_ref().is_some_and(|part| !name.contains(part)) {
        return;
    }
    let (mut times, mut busy) = (Vec::new(), Vec::new());
    let mut found = String::new();
    // Resets the peak memory that Linux reports.
    drop(std::fs::write("/proc/self/clear_refs", "5"));
    for _ in 0..if only.is_some() { 1 } else { 3 } {
        let (clock, before) = (Instant::now(), cpu_seconds());
        found = work();
        times.push(clock.elapsed().as_secs_f64());
        busy.push((cpu_seconds() - before) / THREADS as f64);
    }
    println!(
        "{name:<44} {:>7.3} s {:>7.3} s {:>5} MiB   {found}",
        median(&times),
        median(&busy),
        memory::peak("self") >> 20
    );
}

/// Measures the ten best items of `count` queries among `count` items of width 256.
fn large(count: usize) {
    const NUMBERS: usize = 256;
    let (items, queries) = draw_vectors(count, count, NUMBERS);
    drop(std::fs::write("/proc/self/clear_refs", "5"));
    let (clock, before) = (Instant::now(), cpu_seconds());
    let sides = BenchVectors::new(&queries, &items, NUMBERS);
    let search = sides.search();
    let mut printed = 0;
    let ask = SearchRequest { k: TOP, ..SearchRequest::default() };
    let found = search.find(&ask, &SearchRequest::default(), &mut |done, all| {
        if done * 10 / all > printed {
            printed = done * 10 / all;
            println!("{} % after {:.0} s", printed * 10, clock.elapsed().as_secs_f64());
        }
        Ok(())
    });
    let (seconds, busy) = (clock.elapsed().as_secs_f64(), (cpu_seconds() - before) / THREADS as f64);
    let [found, _] = found.expect("a valid search");
    let hits = found.top.iter().enumerate().filter(|(query, best)| best.iter().any(|best| best.item == *query)).count();
    let lanes = if has_avx512(ElementType::Bf16) { ElementType::Bf16 } else { ElementType::F32 };
    let share = 2.0 * (count * count * NUMBERS) as f64 / seconds / 1e9 / product_rate(lanes);
    println!(
        "{count} queries, {count} items, {NUMBERS} numbers: the {TOP} best in {seconds:.1} s (CPU time over {THREADS}: {busy:.1} s), {:.0} % of the rate of {lanes:?} \
         products; peak memory {} MiB; {:.1} % have the matching item among them",
        100.0 * share,
        memory::peak("self") >> 20,
        100.0 * hits as f64 / count as f64,
    );
}

/// CPU time of this process in seconds, in steps of 0.01, on Linux. Unlike wall time, it does not depend on other
/// programs.
fn cpu_seconds() -> f64 {
    let status = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = status.rsplit(") ").next().unwrap_or_default();
    fields.split(' ').skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn medians(times: &[[f64; 2]]) -> [f64; 2] {
    [0, 1].map(|which| median(&times.iter().map(|both| both[which]).collect::<Vec<_>>()))
}

fn median(times: &[f64]) -> f64 {
    let mut times = times[usize::from(times.len() > 1)..].to_vec();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Draws unit vectors of images, and of an equal number of captions for each.
fn draw_vectors(images: usize, captions: usize, width: usize) -> (Vec<f32>, Vec<f32>) {
    let each = captions / images;
    let parts: Vec<(Vec<f32>, Vec<f32>)> = std::thread::scope(|scope| {
        let part = |part: usize| images * part / THREADS..images * (part + 1) / THREADS;
        let threads: Vec<_> =
            (0..THREADS).map(|i| scope.spawn(move || draw_part(i as u64, part(i).len(), each, width))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread draws")).collect()
    });
    let (images, captions): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
    (images.concat(), captions.concat())
}

fn draw_part(seed: u64, images: usize, each: usize, width: usize) -> (Vec<f32>, Vec<f32>) {
    let mut rng = Rng::new(seed, &[]);
    // The sum of four uniform numbers is approximately normal.
    let mut normal = || ((0..4).map(|_| rng.uniform()).sum::<f64>() - 2.0) * 3f64.sqrt();
    let (mut rows, mut columns) = (Vec::with_capacity(images * width), Vec::with_capacity(images * each * width));
    let unit = |to: &mut Vec<f32>, values: &[f64]| {
        let norm = values.iter().map(|x| x * x).sum::<f64>().sqrt();
        to.extend(values.iter().map(|x| (x / norm) as f32));
    };
    let noise = NOISE * (width as f64 / 1024.0).sqrt();
    for _ in 0..images {
        let image: Vec<f64> = (0..width).map(|_| normal()).collect();
        unit(&mut rows, &image);
        for _ in 0..each {
            let caption: Vec<f64> = image.iter().map(|x| x + noise * normal()).collect();
            unit(&mut columns, &caption);
        }
    }
    (rows, columns)
}

/// Rate of our matrix product with all threads, in GFLOP/s.
fn product_rate(lanes: ElementType) -> f64 {
    let (rows, columns) = (96, 3072);
    let values = vec![0.5; WIDTH];
    let left = LeftFactor::from_rows(lanes, rows, WIDTH, |_| &values);
    let right = RightFactor::from_columns(lanes, WIDTH, columns, |_| &values);
    let work = || {
        for (_, right) in right.panels() {
            for (rows, left) in left.panels() {
                let mut product = Tile::ZERO;
                add_product(lanes, rows, left, right, &mut product);
                std::hint::black_box(product);
            }
        }
    };
    let fastest = (0..12).map(|_| {
        let clock = Instant::now();
        std::thread::scope(|scope| {
            for _ in 1..THREADS {
                scope.spawn(|| (0..4).for_each(|_| work()));
            }
            (0..4).for_each(|_| work());
        });
        clock.elapsed().as_secs_f64()
    });
    4.0 * 2.0 * (THREADS * rows * WIDTH * columns) as f64 / fastest.fold(f64::INFINITY, f64::min) / 1e9
}

/// Process of the peers.
struct SearchPeer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl SearchPeer {
    fn start(folder: &PathBuf, images: &[f32], captions: &[f32]) -> Option<Self> {
        let Ok(python) = std::env::var("PAIRLOOM_PEER_PYTHON") else {
            println!("peers skipped: `PAIRLOOM_PEER_PYTHON` names no interpreter");
            return None;
        };
        std::fs::create_dir_all(folder).expect("a folder for the vectors");
        for (name, values) in [("images", images), ("captions", captions)] {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            std::fs::write(folder.join(name), bytes).expect("disk space for the vectors");
        }
        let script = test_data::root().join("benches/search_peer.py");
        let mut command = processes::peer(&python);
        command.arg(script).arg(folder).args([THREADS, WIDTH, TOP].map(|number| number.to_string()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the peer starts");
        let input = child.stdin.take().expect("it is piped");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        Some(Self { child, input, output })
    }

    /// Runs one search. Returns its wall time, and its CPU time over the number of threads, in seconds.
    fn run(&mut self, work: &str) -> [f64; 2] {
        writeln!(self.input, "{work}").expect("the peer reads");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the peer writes");
        let mut seconds = line.split_whitespace().map(|seconds| seconds.parse::<f64>().expect("seconds"));
        let mut next = || seconds.next().expect("two numbers");
        [next(), next() / THREADS as f64]
    }
}

impl Drop for SearchPeer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
