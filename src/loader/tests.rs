//! What a stream of batches promises, for any threads, ranks and beginning.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow::array::{ArrayRef, BinaryArray, Int32Array, Int64Array, RecordBatch, StringArray};

use super::*;
use crate::error::{Error, Kind, Result};
use crate::io::cache::Cache;
use crate::io::shard::Shard;
use crate::io::shards::{Shards, Source};
use crate::kernels::epoch::{DataSet as PlanSet, Order, Plan};
use crate::tables;

const WIDTH: usize = 3;

/// Rows of shard `shard`: image `10·shard + row` with the feature (image, image + ½, −image).
fn features(shard: usize, rows: usize, width: usize) -> RecordBatch {
    let images = (0..rows).map(|row| 10 * shard + row);
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let values = images.clone().flat_map(|image| {
        let image = image as f32;
        [image, image + 0.5, -image].into_iter().cycle().take(width)
    });
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(images.clone().map(|image| i64::try_from(image).unwrap()))),
        Arc::new(StringArray::from(vec!["train"; rows])),
        tables::vectors(values.collect(), width).unwrap(),
    ];
    tables::batch(&tables::features::table().schema_of_width(width), columns).unwrap()
}

/// A sample: its data set, shard, row, and which caption of its image.
type Row = (usize, usize, usize, usize);

/// Two captions for every image of shards with these rows: caption `2·image + k` of `image % 4 + k + 1` words.
fn samples(sets: &[&[usize]]) -> Arc<Shard> {
    let mut rows = Vec::new();
    for (set, shards) in sets.iter().enumerate() {
        let places = shards.iter().enumerate().flat_map(|(shard, &rows)| (0..rows).map(move |row| (shard, row)));
        rows.extend(places.flat_map(|(shard, row)| [0, 1].map(|k| (set, shard, row, k))));
    }
    let image = |&(_, shard, row, _): &Row| 10 * shard + row;
    let column = |value: &dyn Fn(&Row) -> usize| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| i64::try_from(value(row)).unwrap())))
    };
    let schema = tables::samples::table().schema();
    let lengths = rows.iter().map(|row| image(row) % 4 + row.3 + 1);
    let words = lengths.clone().flat_map(|length| (0..length).map(|word| i32::try_from(word).unwrap()));
    let words = tables::list(&schema, "words", lengths, Arc::new(Int32Array::from_iter_values(words))).unwrap();
    let columns = vec![
        column(&|row| row.0),
        column(&|_| 0),
        column(&|row| 1000 * row.0 + 2 * image(row) + row.3),
        column(&image),
        column(&|row| row.1),
        column(&|row| row.2),
        words,
    ];
    Arc::new(Shard::of_batch(&tables::batch(&schema, columns).unwrap()).unwrap())
}

/// Shards with these rows, read by `read`.
fn shards(rows: &[usize], read: impl Fn(usize) -> Result<RecordBatch> + Send + Sync + 'static) -> Shards {
    let sources = rows.iter().map(|&rows| Source { digest: String::new(), rows });
    Shards::uncached("features", sources.collect(), Box::new(read))
}

fn data(rows: &[usize], order: Order, batch: usize) -> (Arc<Data>, Arc<Plan>) {
    let sizes = rows.to_vec();
    let shards = shards(rows, move |shard| Ok(features(shard, sizes[shard], WIDTH)));
    with(shards, rows, order, batch)
}

fn with(shards: Shards, rows: &[usize], order: Order, batch: usize) -> (Arc<Data>, Arc<Plan>) {
    let images = Images::Vectors { shards, column: "feature".to_owned() };
    let set = DataSet { images, samples: 2 * rows.iter().sum::<usize>(), weight: 1.0 };
    let data = Data::new(&samples(&[rows]), vec![set]).unwrap();
    let plan = Plan::new(&data.plan_sets(), order, 5, batch).unwrap();
    (Arc::new(data), Arc::new(plan))
}

fn ids(loader: &mut Loader) -> Vec<Vec<i64>> {
    let mut all = Vec::new();
    while let Some(batch) = loader.next(|| Ok(())).unwrap() {
        all.push(batch.captions().to_vec());
    }
    all
}

fn start(data: &(Arc<Data>, Arc<Plan>), start: Start) -> Result<Loader> {
    Loader::start(Arc::clone(&data.0), Arc::clone(&data.1), start, &plain())
}

#[test]
fn a_batch_holds_the_samples_of_the_plan() {
    for (order, threads) in [(Order::Global, 1), (Order::Global, 3), (Order::Windows(2), 2)] {
        let data = data(&[10, 4, 0, 10, 7, 1], order, 9);
        let mut loader = start(&data, Start::alone(3, 0, threads)).unwrap();
        let mut seen = Vec::new();
        while let Some(batch) = loader.next(|| Ok(())).unwrap() {
            assert_eq!(batch.images().len(), batch.len() * WIDTH);
            for i in 0..batch.len() {
                let caption = batch.captions()[i];
                let image = caption / 2;
                #[expect(clippy::cast_precision_loss, reason = "small numbers")]
                let value = image as f32;
                assert_eq!(batch.images()[i * WIDTH..][..WIDTH], [value, value + 0.5, -value]);
                assert!(
                    batch.words(i).iter().copied().map(i64::from).eq(0..=image % 4 + caption % 2),
                    "{:?}",
                    batch.words(i)
                );
                seen.push(caption);
            }
        }
        let epoch = data.1.epoch(3);
        let table = samples(&[&[10, 4, 0, 10, 7, 1]]);
        let captions = table.ids("caption_id").unwrap();
        let wanted: Vec<i64> = epoch.samples(0..64).map(|sample| captions.value(sample.index).unwrap()).collect();
        assert_eq!(seen, wanted);
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 64);
    }
}

/// An epoch that goes on with another number of ranks, again and again, is the epoch of one.
#[test]
fn ranks_may_change_at_any_batch() {
    let data = data(&[10, 4, 10, 7, 1], Order::Windows(2), 7);
    let whole = ids(&mut start(&data, Start::alone(1, 0, 2)).unwrap());
    let mut parts: Vec<Vec<i64>> = Vec::new();
    for (first, end, ranks) in [(0, 2, 2), (2, 3, 3), (3, 6, 5), (6, 7, 7), (7, whole.len(), 1)] {
        let mut of_batch = vec![vec![]; end - first];
        for rank in 0..ranks {
            let from = Start { epoch: 1, batch: first, rank, ranks, threads: 2 };
            let mut loader = start(&data, from).unwrap();
            for batch in &mut of_batch {
                batch.extend_from_slice(loader.next(|| Ok(())).unwrap().unwrap().captions());
            }
        }
        parts.extend(of_batch);
    }
    assert_eq!(parts, whole);
}

/// The last batch, of one sample, has a share without any for all ranks but one; their number is the same.
#[test]
fn every_rank_has_as_many_batches() {
    let data = data(&[8], Order::Global, 5);
    let shares: Vec<Vec<usize>> = (0..3)
        .map(|rank| {
            let from = Start { epoch: 0, batch: 0, rank, ranks: 3, threads: 1 };
            ids(&mut start(&data, from).unwrap()).iter().map(Vec::len).collect()
        })
        .collect();
    assert_eq!(shares, [[1, 1, 1, 0], [2, 2, 2, 0], [2, 2, 2, 1]]);
}

#[test]
fn more_ranks_than_a_batch_has_samples_are_refused() {
    let data = data(&[8], Order::Global, 4);
    let refused = |rank, ranks| {
        let from = Start { epoch: 0, batch: 0, rank, ranks, threads: 1 };
        let error = start(&data, from).err().unwrap();
        assert_eq!(error.kind(), Kind::Usage);
        error.to_string()
    };
    assert!(refused(0, 5).contains("5 ranks share batches of 4 samples"));
    assert!(refused(2, 2).contains("rank 2 of 2"));
}

#[test]
fn memory_is_used_again() {
    let data = data(&[10; 40], Order::Global, 4);
    let given = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&given);
    let allocate: Allocate = Arc::new(move |values| {
        counted.fetch_add(1, Ordering::SeqCst);
        plain()(values)
    });
    let (threads, from) = (2, Start::alone(0, 0, 2));
    let mut loader = Loader::start(Arc::clone(&data.0), Arc::clone(&data.1), from, &allocate).unwrap();
    assert_eq!(ids(&mut loader).len(), 200);
    let given = given.load(Ordering::SeqCst);
    assert!(given <= 4 * threads + 1, "{given} pieces of memory for 200 batches");

    // The next epoch takes the memory of the one before.
    let first = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&first);
    let again = reused(Arc::new(move |values| {
        counted.fetch_add(1, Ordering::SeqCst);
        plain()(values)
    }));
    let mut most = 0;
    for epoch in 0..20 {
        let from = Start::alone(epoch, 0, 2);
        ids(&mut Loader::start(Arc::clone(&data.0), Arc::clone(&data.1), from, &again).unwrap());
        most = most.max(first.load(Ordering::SeqCst));
    }
    assert!(most <= 4 * threads + 1, "{most} pieces of memory for 20 epochs");
}

/// A window is in use and the next is read ahead; what is behind is let go, so every shard is read once an epoch and at most
/// two windows are mapped.
#[test]
fn windows_are_read_ahead_once_and_let_go() {
    let rows = [6; 24];
    let reads = Arc::new(Mutex::new(vec![0; rows.len()]));
    let counted = Arc::clone(&reads);
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(&folder.path().join("cache"), 1 << 20).unwrap();
    let sources = rows.iter().enumerate().map(|(shard, &rows)| Source { digest: shard.to_string(), rows });
    let read = move |shard| {
        counted.lock().unwrap()[shard] += 1;
        Ok(features(shard, 6, WIDTH))
    };
    let shards = Shards::new("features", sources.collect(), cache, Box::new(read), Box::new(|| Ok(())));
    let data = with(shards.clone(), &rows, Order::Windows(4), 6);
    let mut loader = start(&data, Start::alone(0, 0, 1)).unwrap();
    let mut most = 0;
    let mut at = 0;
    while let Some(batch) = loader.next(|| Ok(())).unwrap() {
        at += batch.len();
        // 48 samples are a window. What is mapped ahead comes in its own time.
        if at.is_multiple_of(48) && at < 288 {
            for _ in 0..400 {
                if shards.held() >= 8 || at > 192 {
                    break;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            assert!(at > 192 || shards.held() >= 8, "{} shards at {at}", shards.held());
        }
        most = most.max(shards.held());
    }
    drop(loader);
    // The reader may be some batches ahead, in a window that has just begun.
    assert!((8..=12).contains(&most), "{most} shards were mapped");
    assert!(reads.lock().unwrap().iter().all(|&count| count == 1), "{:?}", reads.lock().unwrap());
    assert_eq!(shards.held(), 0);
}

#[test]
fn an_error_comes_in_its_place_and_ends_the_stream() {
    let rows = [6; 8];
    let fails = |read: fn(usize) -> Result<RecordBatch>| {
        let data = with(shards(&rows, read), &rows, Order::Windows(1), 6);
        let mut loader = start(&data, Start::alone(0, 0, 2)).unwrap();
        let mut good = 0;
        loop {
            match loader.next(|| Ok(())) {
                Ok(batch) => good += batch.expect("an error before the end").len(),
                Err(error) => return (good, error),
            }
        }
    };
    let (good, error) = fails(|shard| match shard {
        3 => Err(Error::data("`part-00003.parquet` is gone")),
        _ => Ok(features(shard, 6, WIDTH)),
    });
    assert!(good < 96 && good.is_multiple_of(6), "{good}");
    assert_eq!((error.kind(), error.to_string().as_str()), (Kind::Data, "`part-00003.parquet` is gone"));

    let (_, error) = fails(|shard| Ok(features(shard, 6, if shard == 5 { 4 } else { WIDTH })));
    let text = error.to_string();
    assert!(text.contains("the columns of `features` changed: shard"), "{text}");
    assert!(text.contains("FixedSizeList(4") && text.contains("FixedSizeList(3"), "{text}");

    let (_, error) = fails(|shard| Ok(features(shard, if shard == 2 { 5 } else { 6 }, WIDTH)));
    assert_eq!(error.to_string(), "shard 2 of `features` has 5 rows, wanted 6");

    let (_, error) = fails(|shard| if shard == 1 { panic!("no such thing") } else { Ok(features(shard, 6, WIDTH)) });
    assert_eq!(error.kind(), Kind::Internal);
}

#[test]
fn waiting_ends_with_a_cancellation() {
    let rows = [6; 2];
    let slow = shards(&rows, |shard| {
        std::thread::sleep(Duration::from_millis(300));
        Ok(features(shard, 6, WIDTH))
    });
    let data = with(slow, &rows, Order::Global, 6);
    let mut loader = start(&data, Start::alone(0, 0, 1)).unwrap();
    let error = loader.next(|| Err(Error::interrupted())).err().unwrap();
    assert_eq!(error.kind(), Kind::Interrupted);
}

#[test]
fn what_is_waited_for_is_told_apart() {
    let rows = [6; 10];
    let run = |read: Duration, train: Duration| {
        let shards = shards(&rows, move |shard| {
            std::thread::sleep(read);
            Ok(features(shard, 6, WIDTH))
        });
        let data = with(shards, &rows, Order::Windows(1), 6);
        let mut loader = start(&data, Start::alone(0, 0, 1)).unwrap();
        while loader.next(|| Ok(())).unwrap().is_some() {
            std::thread::sleep(train);
        }
        loader.stalls()
    };
    let slow_store = run(Duration::from_millis(60), Duration::ZERO);
    assert!(slow_store.storage > 0.7 * slow_store.total() && slow_store.storage > 0.1, "{slow_store:?}");
    let slow_trainer = run(Duration::ZERO, Duration::from_millis(10));
    assert!(slow_trainer.trainer > 0.5 * slow_trainer.total() && slow_trainer.trainer > 0.19, "{slow_trainer:?}");
}

/// Two data sets, whose captions are told apart by their thousands: three of four samples come from the second.
#[test]
fn data_sets_are_mixed_by_weight() {
    let rows: [&[usize]; 2] = [&[10, 5], &[10, 10, 10]];
    let set = |rows: &'static [usize], weight| {
        let shards = shards(rows, move |shard| Ok(features(shard, rows[shard], WIDTH)));
        let images = Images::Vectors { shards, column: "feature".to_owned() };
        DataSet { images, samples: 2 * rows.iter().sum::<usize>(), weight }
    };
    let data = Data::new(&samples(&rows), vec![set(&[10, 5], 1.0), set(&[10, 10, 10], 3.0)]).unwrap();
    assert_eq!(
        data.plan_sets(),
        [PlanSet { shards: vec![20, 10], weight: 1.0 }, PlanSet { shards: vec![20, 20, 20], weight: 3.0 },]
    );
    let plan = Plan::new(&data.plan_sets(), Order::Global, 5, 9).unwrap();
    let all = ids(&mut start(&(Arc::new(data), Arc::new(plan)), Start::alone(0, 0, 1)).unwrap());
    for batch in &all {
        let second = batch.iter().filter(|caption| **caption >= 1000).count();
        assert!((6..=7).contains(&second) || batch.len() < 9, "{batch:?}");
    }
    // 90 samples: 22½ and 67½ by weight; of equal remainders the first takes more.
    assert_eq!(all.iter().flatten().filter(|caption| **caption >= 1000).count(), 67);
}

/// Pictures are seen through views that depend on the position alone: any thread, and any beginning, gives the same bits.
#[test]
fn pictures_are_the_same_for_any_threads_and_beginning() {
    let rows = [4, 3];
    let pictures = || {
        let batches = rows.iter().enumerate().map(|(shard, &rows)| pictures(shard, rows)).collect();
        let images = Images::Pictures(AugmentedPictures::new(batches, None, 8).unwrap());
        let set = DataSet { images, samples: 14, weight: 1.0 };
        let data = Data::new(&samples(&[&rows]), vec![set]).unwrap();
        let plan = Plan::new(&data.plan_sets(), Order::Global, 5, 4).unwrap();
        (Arc::new(data), Arc::new(plan))
    };
    let read = |from: Start| {
        let mut loader = start(&pictures(), from).unwrap();
        let mut all = Vec::new();
        while let Some(batch) = loader.next(|| Ok(())).unwrap() {
            all.push((batch.captions().to_vec(), batch.images().to_vec()));
        }
        all
    };
    let whole = read(Start::alone(2, 0, 1));
    assert_eq!(whole[0].1.len(), 4 * 3 * 8 * 8);
    assert_eq!(read(Start::alone(2, 0, 3)), whole);
    assert_eq!(read(Start::alone(2, 2, 2)), whole[2..]);
    assert_ne!(read(Start::alone(3, 0, 1)), whole);
    // A picture has two captions, so it is seen twice, through two views.
    let views = |image| {
        whole.iter().flat_map(move |(captions, pixels)| {
            let seen = captions.iter().enumerate().filter(move |(_, caption)| **caption / 2 == image);
            seen.map(|(i, _)| pixels[i * 192..][..192].to_vec())
        })
    };
    let views: Vec<_> = views(1).collect();
    assert!(views.len() == 2 && views[0] != views[1]);
}

/// Rows of `images`: PNG pictures of 20 × 15 pixels, no two alike.
fn pictures(shard: usize, rows: usize) -> RecordBatch {
    use image::{ExtendedColorType, ImageEncoder as _, codecs::png::PngEncoder};
    let png = |image: usize| {
        let pixel = |i: usize| [i % 256, i / 20 * 17 % 256, image * 20 % 256].map(|value| u8::try_from(value).unwrap());
        let mut bytes = Vec::new();
        let rgb: Vec<u8> = (0..300).flat_map(pixel).collect();
        PngEncoder::new(&mut bytes).write_image(&rgb, 20, 15, ExtendedColorType::Rgb8).unwrap();
        bytes
    };
    let images = 10 * shard..10 * shard + rows;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(images.clone().map(|image| i64::try_from(image).unwrap()))),
        Arc::new(StringArray::from(vec!["train"; rows])),
        Arc::new(StringArray::from_iter_values(images.clone().map(|image| format!("number {image}")))),
        Arc::new(StringArray::from(vec![None::<&str>; rows])),
        Arc::new(BinaryArray::from_iter_values(images.map(png))),
    ];
    tables::batch(&tables::images::table().schema(), columns).unwrap()
}

/// Windows that begin and end within a batch are let go too.
#[test]
fn windows_shorter_than_a_batch_are_let_go() {
    let rows = [6; 24];
    for batch in [6, 24, 48, 64] {
        let shards = shards(&rows, |shard| Ok(features(shard, 6, WIDTH)));
        let data = with(shards.clone(), &rows, Order::Windows(1), batch);
        for epoch in 0..3 {
            let mut loader = start(&data, Start::alone(epoch, 0, 1)).unwrap();
            let mut most = 0;
            while loader.next(|| Ok(())).unwrap().is_some() {
                most = most.max(shards.held());
            }
            drop(loader);
            // Four batches: one with the trainer, three with the reader; and the window that is read ahead.
            assert!(most <= 4 * batch.div_ceil(12) + 6, "batch {batch}: {most} shards");
            assert_eq!(shards.held(), 0, "batch {batch}, epoch {epoch}");
        }
    }
}
