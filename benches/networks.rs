//! Images a second of decoding, and of decoding with preprocessing, on one thread and on two.
//!
//! ```sh
//! cargo bench --bench networks -- FLICKR8K [PIXELS]
//! ```
//!
//! `FLICKR8K` is a folder with `images/`. The decoded pixels of all images, one after the other, are written to the file
//! `PIXELS`. `benches/networks_peer.py` compares them and the times with PIL's, and measures whole networks.
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark measures time and prints it")]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use pairloom_images::image::decode;
use pairloom_kernels::normalize::to_channels;
use pairloom_kernels::resize::{CropPlace, resize_and_crop};
use pairloom_spec::networks::NetworkInput;

/// Decodes an image; with `whole`, it is also resized, cropped and normalised.
fn work(bytes: &[u8], whole: bool, pixels: &mut Vec<f32>) {
    let image = decode(bytes).expect("a photograph");
    if whole {
        let input = NetworkInput::IMAGENET;
        let square = resize_and_crop(&image.rgb, image.width, image.height, input.square(CropPlace::Centre));
        pixels.resize(square.len(), 0.0);
        to_channels(&square, input.crop, input.statistics, false, pixels);
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let Some(folder) = arguments.next() else {
        println!("skipped: needs the folder of Flickr8k");
        return;
    };
    let entries = std::fs::read_dir(Path::new(&folder).join("images")).expect("a folder of images");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let files: Vec<Vec<u8>> = paths.iter().map(|path| std::fs::read(path).expect("a file")).collect();
    if let Some(pixels) = arguments.next() {
        let mut pixels = BufWriter::new(File::create(pixels).expect("a file can be made"));
        for file in &files {
            pixels.write_all(&decode(file).expect("a photograph").rgb).expect("a file can be written");
        }
        pixels.flush().expect("a file can be written");
    }
    for (title, whole) in [("decode", false), ("decode, resize, crop, normalise", true)] {
        for threads in [1, 2] {
            let mut best = f64::INFINITY;
            for _ in 0..3 {
                let clock = Instant::now();
                std::thread::scope(|scope| {
                    for thread in 0..threads {
                        let files = &files;
                        scope.spawn(move || {
                            let mut pixels = Vec::new();
                            files.iter().skip(thread).step_by(threads).for_each(|file| work(file, whole, &mut pixels));
                        });
                    }
                });
                best = best.min(clock.elapsed().as_secs_f64());
            }
            #[expect(clippy::cast_precision_loss, reason = "a thousand files")]
            let rate = files.len() as f64 / best;
            println!("Pairloom, {threads} thread{}, {title}: {rate:.0} images/s", if threads == 1 { "" } else { "s" });
        }
    }
}
