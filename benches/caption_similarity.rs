//! Benchmark of φ: CIDEr-D and SPICE-style scores of whole data sets, compared with pycocoevalcap.
//!
//! Measures dense φ (all images × all captions of COCO's 5,000 test images), `top` (the 100 best of all training
//! captions for each training image of Flickr30k, compared with brute force on a sample), and φ of a mini-batch. The
//! peer is pycocoevalcap's scorer in its Python loop, on a sample of the same pairs. It runs if the environment
//! variable `PAIRLOOM_PEER_PYTHON` names an interpreter that can import it.
//!
//! Run: `cargo bench --bench caption_similarity`, with the data in `PAIRLOOM_DATA` or `../shared/data`.
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark measures time and prints")]
#![expect(clippy::cast_precision_loss, reason = "printed numbers need not be exact")]

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use pairloom_kernels::random::Rng;
use pairloom_kernels::text::CaptionSimilarity;
use pairloom_kernels::text::Tokenizer;
use pairloom_kernels::text::cider::{
    CaptionVectors, Cider, CiderVariant, DocumentFrequency, NgramVocabulary, OwnCaption,
};
use pairloom_kernels::text::spice::{SceneGraph, SpiceBuilder};
use pairloom_language::lexicon::Lexicon;
use pairloom_language::scene_graph;

#[path = "shared/memory.rs"]
mod memory;

/// Number of threads.
const THREADS: usize = 2;
/// Captions kept per image by `top`.
const BEST: usize = 100;
/// Pairs of a mini-batch.
const BATCH: usize = 128;

/// Captions of a data set: (image, text).
type ImageCaptions = Vec<(usize, String)>;

fn main() {
    let folder = std::env::var("PAIRLOOM_DATA").unwrap_or_else(|_| "../shared/data".to_owned());
    let update_rate = updates_per_second();
    println!("this machine, {THREADS} threads: {:.2} G updates per second of sums in the L2 cache", update_rate / 1e9);
    match coco(&folder) {
        Some(captions) => dense(&captions, update_rate),
        None => println!("skipped: no COCO captions in `{folder}`"),
    }
    match flickr30k(&folder, true) {
        Some(captions) => top_and_block(&captions, update_rate),
        None => println!("skipped: no Flickr30k captions in `{folder}`"),
    }
    if let (Some(flickr30k), Some(coco)) = (flickr30k(&folder, false), coco(&folder)) {
        scene_graphs(&flickr30k, &coco);
    }
    println!("peak memory of the process {} MB", memory::peak("self") / 1_000_000);
}

/// Measures parsing of all captions of Flickr30k, and SPICE-style φ of all images × all captions of COCO.
fn scene_graphs(flickr30k: &ImageCaptions, coco: &ImageCaptions) {
    let clock = Instant::now();
    let graphs = parse_all(flickr30k);
    let seconds = clock.elapsed().as_secs_f64();
    println!(
        "\nscene graphs      {seconds:>9.2} s for the {} captions of Flickr30k, {:.1} us per caption and thread",
        graphs.len(),
        seconds * THREADS as f64 / graphs.len() as f64 * 1e6
    );
    let clock = Instant::now();
    let graphs = parse_all(coco);
    let parsing = clock.elapsed().as_secs_f64();
    let clock = Instant::now();
    let words = Lexicon::wordnet();
    let mut builder = SpiceBuilder::default();
    let mut references: Vec<Vec<usize>> = Vec::new();
    for (index, ((image, _), graph)) in coco.iter().zip(&graphs).enumerate() {
        builder.push(graph, words);
        references.resize(image + 1, Vec::new());
        references[*image].push(index);
    }
    let spice = builder.build(&references);
    let building = clock.elapsed().as_secs_f64();
    let clock = Instant::now();
    let sum = rows(&spice, |spice, image, scratch, values: &mut Vec<f32>| {
        values.resize(spice.caption_count(), 0.0);
        spice.row(image, scratch, values);
        values.iter().map(|&value| f64::from(value)).sum()
    });
    let pairs = (spice.image_count() * spice.caption_count()) as f64;
    println!(
        "SPICE-style dense {:>9.2} s for COCO's {} images x {} captions: parsing {parsing:.2}, tuples {building:.2}, pairs {:.2}; mean {:.4}",
        parsing + building + clock.elapsed().as_secs_f64(),
        spice.image_count(),
        spice.caption_count(),
        clock.elapsed().as_secs_f64(),
        sum / pairs
    );
}

/// Parses every caption, on all threads.
fn parse_all(captions: &ImageCaptions) -> Vec<SceneGraph> {
    let size = captions.len().div_ceil(THREADS);
    std::thread::scope(|scope| {
        let parts: Vec<_> = captions
            .chunks(size)
            .map(|part| scope.spawn(|| part.iter().map(|(_, text)| scene_graph::parse(text)).collect::<Vec<_>>()))
            .collect();
        parts.into_iter().flat_map(|part| part.join().expect("a thread that does not panic")).collect()
    })
}

/// Measures CIDEr-D of all images × all captions, and the peer on a sample of the same pairs.
fn dense(captions: &ImageCaptions, update_rate: f64) {
    let clock = Instant::now();
    let cider = cider_d(captions);
    let built = clock.elapsed().as_secs_f64();
    let pairs = (cider.image_count() * cider.caption_count()) as f64;
    let clock = Instant::now();
    let sum = rows(&cider, |cider, image, scratch, values: &mut Vec<f32>| {
        values.resize(cider.caption_count(), 0.0);
        cider.row(image, scratch, values);
        values.iter().map(|&value| f64::from(value)).sum()
    });
    let seconds = clock.elapsed().as_secs_f64();
    println!(
        "\nCOCO, {} images x {} captions, CIDEr-D dense, all captions of an image its references",
        cider.image_count(),
        cider.caption_count()
    );
    println!("vectors           {built:>9.2} s");
    println!("dense             {seconds:>9.2} s {:>12.1} ns per pair, mean {:.4}", seconds / pairs * 1e9, sum / pairs);
    print_limit(&cider, update_rate, seconds);
    if let Some((peer, difference)) = peer(captions, &cider) {
        println!(
            "pycocoevalcap     {:>9.0} s {:>12.1} ns per pair (from a sample), {:.0} times as long; values differ by at most {difference:.1e}",
            peer * pairs,
            peer * 1e9,
            peer * pairs / seconds
        );
    }
}

/// Measures the best captions of each image, compared with brute force on a sample; then mini-batches.
fn top_and_block(captions: &ImageCaptions, update_rate: f64) {
    let clock = Instant::now();
    let cider = cider_d(captions);
    let built = clock.elapsed().as_secs_f64();
    let clock = Instant::now();
    let kept = rows(&cider, |cider, image, scratch, _| cider.top_captions(image, BEST, scratch).len() as f64);
    let seconds = clock.elapsed().as_secs_f64();
    println!(
        "\nFlickr30k train, {} images x {} captions, CIDEr-D, the best {BEST} of each",
        cider.image_count(),
        cider.caption_count()
    );
    println!("vectors           {built:>9.2} s");
    println!("top               {seconds:>9.2} s, {kept} kept");
    print_limit(&cider, update_rate, seconds);
    let mut rng = Rng::new(7, &[]);
    let mut wrong = 0;
    let clock = Instant::now();
    for _ in 0..20 {
        let image = rng.uniform_below(cider.image_count());
        let mut all: Vec<(usize, f64)> = (0..cider.caption_count()).map(|c| (c, cider.pair(image, c))).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        all.truncate(BEST);
        wrong += usize::from(
            all != cider.top_captions(image, BEST, &mut pairloom_kernels::text::cider::CiderScratch::default()),
        );
    }
    println!("brute force       {wrong} of 20 images differ, {:.0} ms per image", clock.elapsed().as_secs_f64() * 50.0);

    let mut times: Vec<f64> = (0..50)
        .map(|_| {
            let captions: Vec<usize> = (0..BATCH).map(|_| rng.uniform_below(cider.caption_count())).collect();
            let images: Vec<usize> = captions.iter().map(|&caption| cider.vectors().caption(caption).image).collect();
            let clock = Instant::now();
            assert_eq!(cider.block(&images, &captions).len(), BATCH * BATCH);
            clock.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!("block B = {BATCH}     {:>9.2} ms, slowest of 50 {:.2} ms, one thread", times[25], times[49]);
}

fn cider_d(captions: &ImageCaptions) -> Cider {
    let mut ngrams = NgramVocabulary::default();
    let words: Vec<_> = captions.iter().map(|(_, text)| Tokenizer::Whitespace.tokenize(text, true)).collect();
    let found: Vec<_> = words.iter().map(|words| ngrams.count_ngrams(words)).collect();
    let mut frequency = DocumentFrequency::default();
    let indices: Vec<usize> = (0..captions.len()).collect();
    for image in indices.chunk_by(|&a, &b| captions[a].0 == captions[b].0) {
        frequency.add_image(image.iter().map(|&caption| found[caption].as_slice()));
    }
    let idf = frequency.idf(None).expect("a corpus of images");
    let mut vectors = CaptionVectors::default();
    for ((words, found), (image, _)) in words.iter().zip(&found).zip(captions) {
        vectors.push(*image, words.len(), found, &idf);
    }
    Cider::new(vectors, CiderVariant::CiderD, OwnCaption::Keep)
}

/// Computes every row on all threads. Returns the sum of the results of `row`.
fn rows<S: CaptionSimilarity>(
    similarity: &S,
    row: impl Fn(&S, usize, &mut S::Scratch, &mut Vec<f32>) -> f64 + Sync,
) -> f64 {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let work = || {
            let (mut scratch, mut values, mut sum) = (S::Scratch::default(), Vec::new(), 0.0);
            loop {
                let image = next.fetch_add(1, Ordering::Relaxed);
                if image >= similarity.image_count() {
                    return sum;
                }
                sum += row(similarity, image, &mut scratch, &mut values);
            }
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread that does not panic")).sum()
    })
}

/// Prints the time that the machine needs for as many updates as entries of the inverted index are read.
fn print_limit(cider: &Cider, update_rate: f64, seconds: f64) {
    let postings = postings(cider);
    let least = postings / update_rate;
    println!(
        "limit             {least:>9.2} s for {:.2} G entries of the inverted index; Pairloom takes {:.1} times as long, {:.2} ns per \
         entry and thread, which includes lookups of norms and length penalties",
        postings / 1e9,
        seconds / least,
        seconds * THREADS as f64 / postings * 1e9
    );
}

/// Entries of the inverted index that are read for all rows: Σ over n-grams of positive weight of (images × captions
/// with it).
fn postings(cider: &Cider) -> f64 {
    let vectors = cider.vectors();
    let mut frequency = DocumentFrequency::default();
    let mut of_captions: Vec<f64> = Vec::new();
    let by_image: Vec<usize> = (0..vectors.len()).collect();
    for image in by_image.chunk_by(|&a, &b| vectors.caption(a).image == vectors.caption(b).image) {
        let mut all = Vec::new();
        for caption in image.iter().map(|&index| vectors.caption(index)) {
            for ((&number, &order), &weight) in caption.ngrams.iter().zip(caption.orders).zip(caption.weights) {
                if weight > 0.0 {
                    of_captions.resize(of_captions.len().max(number as usize + 1), 0.0);
                    of_captions[number as usize] += 1.0;
                    all.push(pairloom_kernels::text::cider::Ngram { id: number, order, count: 1 });
                }
            }
        }
        frequency.add_image([&all[..]]);
    }
    (0u32..).zip(&of_captions).map(|(number, captions)| f64::from(frequency.images_with(number)) * captions).sum()
}

/// Updates per second, over all threads, of sums at ascending indices. This bounds the rate of reading a posting list.
fn updates_per_second() -> f64 {
    const CAPTIONS: u32 = 100_000;
    let places: Vec<u32> = (0..CAPTIONS).filter(|place| place % 3 != 0).collect();
    let rounds = 3000;
    let clock = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut sums = vec![0.0f64; CAPTIONS as usize];
                for round in 0..rounds {
                    let add = f64::from(round);
                    for &place in &places {
                        sums[place as usize] += add;
                    }
                }
                std::hint::black_box(sums)
            });
        }
    });
    f64::from(rounds) * places.len() as f64 * THREADS as f64 / clock.elapsed().as_secs_f64()
}

/// Returns the seconds per pair of pycocoevalcap, and the largest difference between its values and ours.
fn peer(captions: &ImageCaptions, cider: &Cider) -> Option<(f64, f64)> {
    let Ok(python) = std::env::var("PAIRLOOM_PEER_PYTHON") else {
        println!("pycocoevalcap     skipped: `PAIRLOOM_PEER_PYTHON` names no interpreter");
        return None;
    };
    let file = std::env::temp_dir().join(format!("pairloom-bench-{}.tsv", std::process::id()));
    let lines: Vec<String> = captions.iter().map(|(image, text)| format!("{image}\t{}", text.to_lowercase())).collect();
    std::fs::write(&file, lines.join("\n")).expect("a file in the folder of temporary files");
    let script = test_data::root().join("benches/caption_similarity_peer.py");
    let output = Command::new(python).arg(script).arg(&file).output();
    let _ = std::fs::remove_file(&file);
    let output = match output {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).into_owned(),
        Ok(output) => {
            println!("pycocoevalcap     skipped: {}", String::from_utf8_lossy(&output.stderr).trim());
            return None;
        }
        Err(error) => {
            println!("pycocoevalcap     skipped: {error}");
            return None;
        }
    };
    let mut lines = output.lines();
    let seconds: f64 = lines.next()?.parse().ok()?;
    let (mut count, mut difference) = (0u32, 0.0f64);
    for line in lines {
        let fields: Vec<&str> = line.split(' ').collect();
        let (image, caption, value): (usize, usize, f64) =
            (fields[0].parse().ok()?, fields[1].parse().ok()?, fields[2].parse().ok()?);
        difference = difference.max((cider.pair(image, caption) - value).abs());
        count += 1;
    }
    Some((seconds / f64::from(count), difference))
}

/// Captions of COCO's 5,000 test images.
fn coco(folder: &str) -> Option<ImageCaptions> {
    let text = std::fs::read_to_string(format!("{folder}/cxc/coco_karpathy_test_captions.tsv")).ok()?;
    Some(number_images(text.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.splitn(3, '\t').collect();
        Some((*fields.get(1)?, *fields.get(2)?))
    })))
}

/// Captions of Flickr30k: all, or those of its training images.
fn flickr30k(folder: &str, train: bool) -> Option<ImageCaptions> {
    let path = format!("{folder}/f30k-captions/captions.tsv.gz");
    let output = Command::new("gzip").arg("-dc").arg(path).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(number_images(text.lines().filter_map(|line| {
        let fields: Vec<&str> = line.splitn(4, '\t').collect();
        (fields[0] == "train" || !train && fields[0] != "split").then(|| Some((*fields.get(1)?, *fields.get(3)?)))?
    })))
}

/// Numbers the images of lines (image, text), which must be grouped by image.
fn number_images<'a>(lines: impl Iterator<Item = (&'a str, &'a str)>) -> ImageCaptions {
    let (mut last, mut image) = (None, 0);
    let mut captions = Vec::new();
    for (name, text) in lines {
        if last.is_some_and(|last| last != name) {
            image += 1;
        }
        last = Some(name);
        captions.push((image, text.to_owned()));
    }
    captions
}
