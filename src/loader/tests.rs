//! Tests of the stream of batches, for any number of threads, number of ranks and start.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow::array::{ArrayRef, BinaryArray, Int32Array, Int64Array, RecordBatch, StringArray};

use super::*;
use pairloom_base::error::{Error, ErrorCategory, Result};
use pairloom_images::image::picture_digests;
use pairloom_kernels::epoch::{DataOrder, DataSet as PlanSet, Shuffle, TrainingPair};
use pairloom_storage::cache::ShardCache;
use pairloom_storage::shard::Shard;
use pairloom_storage::table_shards::{ShardSource, TableShards};
use pairloom_tables as tables;

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
        tables::vector_array(values.collect(), width).unwrap(),
    ];
    tables::batch(&tables::features::table().schema_with_width(width), columns).unwrap()
}

/// Sample: data set, shard, row, and number of the caption among those of its image.
type SampleRow = (usize, usize, usize, usize);

/// Two captions for every image of shards with these rows: caption `2·image + k` of `image % 4 + k + 1` tokens.
fn samples(sets: &[&[usize]]) -> Arc<Shard> {
    let mut rows = Vec::new();
    for (set, shards) in sets.iter().enumerate() {
        let places = shards.iter().enumerate().flat_map(|(shard, &rows)| (0..rows).map(move |row| (shard, row)));
        rows.extend(places.flat_map(|(shard, row)| [0, 1].map(|k| (set, shard, row, k))));
    }
    let image = |&(_, shard, row, _): &SampleRow| 10 * shard + row;
    let column = |value: &dyn Fn(&SampleRow) -> usize| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| i64::try_from(value(row)).unwrap())))
    };
    let schema = tables::samples::table().schema();
    let lengths = rows.iter().map(|row| image(row) % 4 + row.3 + 1);
    let words = lengths.clone().flat_map(|length| (0..length).map(|word| i32::try_from(word).unwrap()));
    let words =
        tables::list_array(&schema, "token_ids", lengths, Arc::new(Int32Array::from_iter_values(words))).unwrap();
    let columns = vec![
        column(&|row| row.0),
        column(&|_| 0),
        column(&|row| 1000 * row.0 + 2 * image(row) + row.3),
        column(&image),
        column(&|row| row.1),
        column(&|row| row.2),
        words,
    ];
    Arc::new(Shard::from_batch(&tables::batch(&schema, columns).unwrap()).unwrap())
}

/// Shards with these rows, read by `read`.
fn shards(rows: &[usize], read: impl Fn(usize) -> Result<RecordBatch> + Send + Sync + 'static) -> TableShards {
    let sources = rows.iter().map(|&rows| ShardSource { digest: String::new(), rows });
    TableShards::uncached("features", sources.collect(), Box::new(read))
}

fn data(rows: &[usize], order: Shuffle, batch: usize) -> (Arc<LoaderData>, Arc<DataOrder>) {
    let sizes = rows.to_vec();
    let shards = shards(rows, move |shard| Ok(features(shard, sizes[shard], WIDTH)));
    with(shards, rows, order, batch)
}

fn with(shards: TableShards, rows: &[usize], order: Shuffle, batch: usize) -> (Arc<LoaderData>, Arc<DataOrder>) {
    let images = LoaderImages::Vectors { shards, column: "feature".to_owned() };
    let set = LoaderDataSet { images, samples: 2 * rows.iter().sum::<usize>(), weight: 1.0 };
    let data = LoaderData::new(&samples(&[rows]), vec![set]).unwrap();
    let data_order = DataOrder::new(&data.order_sets(), order, 5, batch).unwrap();
    (Arc::new(data), Arc::new(data_order))
}

/// `caption_id` of pairs of [`samples`]: each data set begins at an even row.
fn captions(pairs: &[TrainingPair]) -> Vec<i64> {
    let number = |row: usize| i64::try_from(row % 2).unwrap();
    pairs.iter().map(|pair| 1000 * pair.image.0 + 2 * pair.image.1 + number(pair.row)).collect()
}

fn ids(loader: &mut Loader) -> Vec<Vec<i64>> {
    let mut all = Vec::new();
    while let Some(batch) = loader.next(|| Ok(())).unwrap() {
        all.push(captions(batch.own_pairs()));
    }
    all
}

fn start(data: &(Arc<LoaderData>, Arc<DataOrder>), start: LoaderStart) -> Result<Loader> {
    Loader::start(Arc::clone(&data.0), Arc::clone(&data.1), start, &pooled_heap())
}

#[test]
fn a_batch_holds_the_samples_of_the_data_order() {
    for (order, threads) in [(Shuffle::Global, 1), (Shuffle::Global, 3), (Shuffle::Windows(2), 2)] {
        let data = data(&[10, 4, 0, 10, 7, 1], order, 9);
        let mut loader = start(&data, LoaderStart::single_rank(3, 0, threads)).unwrap();
        let mut seen = Vec::new();
        while let Some(batch) = loader.next(|| Ok(())).unwrap() {
            assert_eq!(batch.images().len(), batch.len() * WIDTH);
            for (i, caption) in captions(batch.pairs()).into_iter().enumerate() {
                let image = caption / 2;
                #[expect(clippy::cast_precision_loss, reason = "small numbers")]
                let value = image as f32;
                assert_eq!(batch.images()[i * WIDTH..][..WIDTH], [value, value + 0.5, -value]);
                let token_ids = batch.token_ids()[i];
                assert!(token_ids.iter().copied().map(i64::from).eq(0..=image % 4 + caption % 2), "{token_ids:?}");
                seen.push(caption);
            }
        }
        let epoch = data.1.epoch(3);
        let table = samples(&[&[10, 4, 0, 10, 7, 1]]);
        let captions = table.ids("caption_id").unwrap();
        let expected: Vec<i64> = epoch.samples(0..64).map(|sample| captions.value(sample.index).unwrap()).collect();
        assert_eq!(seen, expected);
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 64);
    }
}

/// An epoch that resumes with other numbers of ranks has the same samples as with one rank.
#[test]
fn the_number_of_ranks_may_change_at_any_batch() {
    let data = data(&[10, 4, 10, 7, 1], Shuffle::Windows(2), 7);
    let whole = ids(&mut start(&data, LoaderStart::single_rank(1, 0, 2)).unwrap());
    let mut parts: Vec<Vec<i64>> = Vec::new();
    for (first, end, ranks) in [(0, 2, 2), (2, 3, 3), (3, 6, 5), (6, 7, 7), (7, whole.len(), 1)] {
        let mut batch_rows = vec![vec![]; end - first];
        for rank in 0..ranks {
            let from = LoaderStart { epoch: 1, first_batch: first, rank, world_size: ranks, threads: 2 };
            let mut loader = start(&data, from).unwrap();
            for (number, batch) in batch_rows.iter_mut().enumerate() {
                let share = loader.next(|| Ok(())).unwrap().unwrap();
                assert_eq!(captions(share.pairs()), whole[first + number], "each rank knows the whole batch");
                batch.extend(captions(share.own_pairs()));
            }
        }
        parts.extend(batch_rows);
    }
    assert_eq!(parts, whole);
}

/// The last batch has one sample, so the shares of all ranks but one are empty. All ranks have the same number of
/// batches.
#[test]
fn all_ranks_have_the_same_number_of_batches() {
    let data = data(&[8], Shuffle::Global, 5);
    let shares: Vec<Vec<usize>> = (0..3)
        .map(|rank| {
            let from = LoaderStart { epoch: 0, first_batch: 0, rank, world_size: 3, threads: 1 };
            ids(&mut start(&data, from).unwrap()).iter().map(Vec::len).collect()
        })
        .collect();
    assert_eq!(shares, [[1, 1, 1, 0], [2, 2, 2, 0], [2, 2, 2, 1]]);
}

#[test]
fn more_ranks_than_a_batch_has_samples_are_refused() {
    let data = data(&[8], Shuffle::Global, 4);
    let refused = |rank, ranks| {
        let from = LoaderStart { epoch: 0, first_batch: 0, rank, world_size: ranks, threads: 1 };
        let error = start(&data, from).err().unwrap();
        assert_eq!(error.category(), ErrorCategory::Usage);
        error.to_string()
    };
    assert!(refused(0, 5).contains("5 ranks share batches of 4 samples"));
    assert!(refused(2, 2).contains("rank 2 of 2"));
}

#[test]
fn buffers_are_reused() {
    let data = data(&[10; 40], Shuffle::Global, 4);
    let given = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&given);
    let allocate: AllocateBuffer = Arc::new(move |values| {
        counted.fetch_add(1, Ordering::SeqCst);
        pooled_heap()(values)
    });
    let (threads, from) = (2, LoaderStart::single_rank(0, 0, 2));
    let mut loader = Loader::start(Arc::clone(&data.0), Arc::clone(&data.1), from, &allocate).unwrap();
    assert_eq!(ids(&mut loader).len(), 200);
    let given = given.load(Ordering::SeqCst);
    assert!(given <= 4 * threads + 1, "{given} pieces of memory for 200 batches");

    // The next epoch reuses the memory of the last one.
    let first = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&first);
    let again = pooled(Arc::new(move |values| {
        counted.fetch_add(1, Ordering::SeqCst);
        pooled_heap()(values)
    }));
    let mut most = 0;
    for epoch in 0..20 {
        let from = LoaderStart::single_rank(epoch, 0, 2);
        ids(&mut Loader::start(Arc::clone(&data.0), Arc::clone(&data.1), from, &again).unwrap());
        most = most.max(first.load(Ordering::SeqCst));
    }
    assert!(most <= 4 * threads + 1, "{most} pieces of memory for 20 epochs");
}

/// The next window is prefetched, and earlier ones are released. So every shard is read once an epoch, and at most two
/// windows are mapped.
#[test]
fn windows_are_prefetched_once_and_released() {
    let rows = [6; 24];
    let reads = Arc::new(Mutex::new(vec![0; rows.len()]));
    let counted = Arc::clone(&reads);
    let folder = tempfile::tempdir().unwrap();
    let cache = ShardCache::open(&folder.path().join("cache"), 1 << 20).unwrap();
    let sources = rows.iter().enumerate().map(|(shard, &rows)| ShardSource { digest: shard.to_string(), rows });
    let read = move |shard| {
        counted.lock().unwrap()[shard] += 1;
        Ok(features(shard, 6, WIDTH))
    };
    let shards = TableShards::new("features", sources.collect(), cache, Box::new(read), Box::new(|| Ok(())));
    let data = with(shards.clone(), &rows, Shuffle::Windows(4), 6);
    let mut loader = start(&data, LoaderStart::single_rank(0, 0, 1)).unwrap();
    let mut most = 0;
    let mut at = 0;
    while let Some(batch) = loader.next(|| Ok(())).unwrap() {
        at += batch.len();
        // 48 samples are a window. Prefetching is asynchronous.
        if at.is_multiple_of(48) && at < 288 {
            for _ in 0..400 {
                if shards.n_open() >= 8 || at > 192 {
                    break;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            assert!(at > 192 || shards.n_open() >= 8, "{} shards at {at}", shards.n_open());
        }
        most = most.max(shards.n_open());
    }
    drop(loader);
    // The reader may be some batches ahead, in a window that has just begun.
    assert!((8..=12).contains(&most), "{most} shards were mapped");
    assert!(reads.lock().unwrap().iter().all(|&count| count == 1), "{:?}", reads.lock().unwrap());
    assert_eq!(shards.n_open(), 0);
}

#[test]
fn an_error_takes_the_place_of_its_batch_and_ends_the_stream() {
    let rows = [6; 8];
    let fails = |read: fn(usize) -> Result<RecordBatch>| {
        let data = with(shards(&rows, read), &rows, Shuffle::Windows(1), 6);
        let mut loader = start(&data, LoaderStart::single_rank(0, 0, 2)).unwrap();
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
    assert_eq!((error.category(), error.to_string().as_str()), (ErrorCategory::Data, "`part-00003.parquet` is gone"));

    let (_, error) = fails(|shard| Ok(features(shard, 6, if shard == 5 { 4 } else { WIDTH })));
    let text = error.to_string();
    assert!(text.contains("the columns of `features` changed: shard"), "{text}");
    assert!(text.contains("FixedSizeList(4") && text.contains("FixedSizeList(3"), "{text}");

    let (_, error) = fails(|shard| Ok(features(shard, if shard == 2 { 5 } else { 6 }, WIDTH)));
    assert_eq!(error.to_string(), "shard 2 of `features` has 5 rows, expected 6");

    let (_, error) = fails(|shard| if shard == 1 { panic!("no such thing") } else { Ok(features(shard, 6, WIDTH)) });
    assert_eq!(error.category(), ErrorCategory::Internal);
}

#[test]
fn waiting_ends_with_a_cancellation() {
    let rows = [6; 2];
    let slow = shards(&rows, |shard| {
        std::thread::sleep(Duration::from_millis(300));
        Ok(features(shard, 6, WIDTH))
    });
    let data = with(slow, &rows, Shuffle::Global, 6);
    let mut loader = start(&data, LoaderStart::single_rank(0, 0, 1)).unwrap();
    let error = loader.next(|| Err(Error::interrupted())).err().unwrap();
    assert_eq!(error.category(), ErrorCategory::Interrupted);
}

#[test]
fn waiting_times_are_reported_by_cause() {
    let rows = [6; 10];
    let run = |read: Duration, train: Duration| {
        let shards = shards(&rows, move |shard| {
            std::thread::sleep(read);
            Ok(features(shard, 6, WIDTH))
        });
        let data = with(shards, &rows, Shuffle::Windows(1), 6);
        let mut loader = start(&data, LoaderStart::single_rank(0, 0, 1)).unwrap();
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

#[test]
fn the_only_batch_of_an_epoch_counts_as_training_time() {
    let rows = [6; 2];
    let data = with(shards(&rows, |shard| Ok(features(shard, 6, WIDTH))), &rows, Shuffle::Global, 1000);
    let mut loader = start(&data, LoaderStart::single_rank(0, 0, 1)).unwrap();
    assert!(loader.next(|| Ok(())).unwrap().is_some());
    std::thread::sleep(Duration::from_millis(30));
    let during = loader.stalls().trainer;
    assert!(during >= 0.03, "{during}");
    assert!(loader.next(|| Ok(())).unwrap().is_none());
    let after = loader.stalls().trainer;
    assert!(after >= during && loader.stalls().trainer.total_cmp(&after).is_eq(), "{after}");
}

/// Captions of the second data set have ids from 1,000 on. Three of four samples come from it.
#[test]
fn data_sets_are_mixed_by_weight() {
    let rows: [&[usize]; 2] = [&[10, 5], &[10, 10, 10]];
    let set = |rows: &'static [usize], weight| {
        let shards = shards(rows, move |shard| Ok(features(shard, rows[shard], WIDTH)));
        let images = LoaderImages::Vectors { shards, column: "feature".to_owned() };
        LoaderDataSet { images, samples: 2 * rows.iter().sum::<usize>(), weight }
    };
    let data = LoaderData::new(&samples(&rows), vec![set(&[10, 5], 1.0), set(&[10, 10, 10], 3.0)]).unwrap();
    assert_eq!(
        data.order_sets(),
        [PlanSet { shards: vec![20, 10], weight: 1.0 }, PlanSet { shards: vec![20, 20, 20], weight: 3.0 },]
    );
    let data_order = DataOrder::new(&data.order_sets(), Shuffle::Global, 5, 9).unwrap();
    let all = ids(&mut start(&(Arc::new(data), Arc::new(data_order)), LoaderStart::single_rank(0, 0, 1)).unwrap());
    for batch in &all {
        let second = batch.iter().filter(|caption| **caption >= 1000).count();
        assert!((6..=7).contains(&second) || batch.len() < 9, "{batch:?}");
    }
    // 90 samples: 22½ and 67½ by weight; of equal remainders the first takes more.
    assert_eq!(all.iter().flatten().filter(|caption| **caption >= 1000).count(), 67);
}

/// Augmentation depends on the position alone: any number of threads and any start give the same bits.
#[test]
fn images_are_the_same_for_any_number_of_threads_and_start() {
    let rows = [4, 3];
    let pictures = || {
        let batches = rows.iter().enumerate().map(|(shard, &rows)| image_rows(shard, rows)).collect();
        let images = LoaderImages::Pixels(AugmentedImages::new(batches, None, PixelFormat::imagenet(8)).unwrap());
        let set = LoaderDataSet { images, samples: 14, weight: 1.0 };
        let data = LoaderData::new(&samples(&[&rows]), vec![set]).unwrap();
        let data_order = DataOrder::new(&data.order_sets(), Shuffle::Global, 5, 4).unwrap();
        (Arc::new(data), Arc::new(data_order))
    };
    let read = |from: LoaderStart| {
        let mut loader = start(&pictures(), from).unwrap();
        let mut all = Vec::new();
        while let Some(batch) = loader.next(|| Ok(())).unwrap() {
            all.push((captions(batch.pairs()), batch.images().to_vec()));
        }
        all
    };
    let whole = read(LoaderStart::single_rank(2, 0, 1));
    assert_eq!(whole[0].1.len(), 4 * 3 * 8 * 8);
    assert_eq!(read(LoaderStart::single_rank(2, 0, 3)), whole);
    assert_eq!(read(LoaderStart::single_rank(2, 2, 2)), whole[2..]);
    assert_ne!(read(LoaderStart::single_rank(3, 0, 1)), whole);
    // An image has two captions, so it appears twice, with two augmentations.
    let views = |image| {
        whole.iter().flat_map(move |(captions, pixels)| {
            let seen = captions.iter().enumerate().filter(move |(_, caption)| **caption / 2 == image);
            seen.map(|(i, _)| pixels[i * 192..][..192].to_vec())
        })
    };
    let views: Vec<_> = views(1).collect();
    assert!(views.len() == 2 && views[0] != views[1]);
}

/// Rows of `images`: different PNG images of 20 × 15 pixels.
fn image_rows(shard: usize, rows: usize) -> RecordBatch {
    use image::{ExtendedColorType, ImageEncoder as _, codecs::png::PngEncoder};
    let png = |image: usize| {
        let pixel = |i: usize| [i % 256, i / 20 * 17 % 256, image * 20 % 256].map(|value| u8::try_from(value).unwrap());
        let mut bytes = Vec::new();
        let rgb: Vec<u8> = (0..300).flat_map(pixel).collect();
        PngEncoder::new(&mut bytes).write_image(&rgb, 20, 15, ExtendedColorType::Rgb8).unwrap();
        bytes
    };
    let images = 10 * shard..10 * shard + rows;
    let bytes = BinaryArray::from_iter_values(images.clone().map(png));
    let digests = picture_digests(&bytes);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(images.clone().map(|image| i64::try_from(image).unwrap()))),
        Arc::new(StringArray::from(vec!["train"; rows])),
        Arc::new(StringArray::from_iter_values(images.clone().map(|image| format!("number {image}")))),
        Arc::new(StringArray::from(vec![None::<&str>; rows])),
        Arc::new(bytes),
        Arc::new(digests),
    ];
    tables::batch(&tables::images::table().schema(), columns).unwrap()
}

/// Rows of two data sets, read in batches of four by any number of threads. Row 2·i + k is caption k of image i.
#[test]
fn given_rows_are_read_in_their_order() {
    let sizes: [&[usize]; 2] = [&[10, 4, 10], &[5, 5]];
    for (threads, release_shards) in [(1, true), (3, true), (2, false)] {
        let tables = sizes.map(|rows| shards(rows, move |shard| Ok(features(shard, rows[shard], WIDTH))));
        let sets = sizes.iter().zip(&tables).map(|(rows, shards)| {
            let images = LoaderImages::Vectors { shards: shards.clone(), column: "feature".to_owned() };
            LoaderDataSet { images, samples: 2 * rows.iter().sum::<usize>(), weight: 1.0 }
        });
        let data = Arc::new(LoaderData::new(&samples(&sizes), sets.collect()).unwrap());
        let rows = SelectedRows { rows: vec![0, 3, 19, 30, 47, 48, 59, 67], batch_size: 4, release_shards };
        let mut loader = Loader::start_on_rows(data, rows, threads, &pooled_heap()).unwrap();
        let (mut pairs, mut firsts) = (Vec::new(), Vec::new());
        while let Some(batch) = loader.next(|| Ok(())).unwrap() {
            assert_eq!(batch.own_pairs(), batch.pairs());
            pairs.push(captions(batch.pairs()));
            firsts.extend(batch.images().chunks_exact(WIDTH).map(|values| values[0]));
        }
        drop(loader);
        // Images 10 to 13 are those of the second shard, 20 to 29 those of the third.
        assert_eq!(pairs, [[0, 3, 19, 42], [59, 1000, 1021, 1029]]);
        assert_eq!(firsts, [0.0, 1.0, 9.0, 21.0, 29.0, 0.0, 10.0, 14.0]);
        let open = if release_shards { [0, 0] } else { [2, 2] };
        assert_eq!(tables.each_ref().map(TableShards::n_open), open);
    }
    let (data, _) = data(&[3], Shuffle::Global, 2);
    let beyond = SelectedRows { rows: vec![6], batch_size: 1, release_shards: true };
    assert!(Loader::start_on_rows(data, beyond, 1, &pooled_heap()).is_err());
}

/// Windows that begin and end within a batch are released too.
#[test]
fn windows_shorter_than_a_batch_are_released() {
    let rows = [6; 24];
    for batch in [6, 24, 48, 64] {
        let shards = shards(&rows, |shard| Ok(features(shard, 6, WIDTH)));
        let data = with(shards.clone(), &rows, Shuffle::Windows(1), batch);
        for epoch in 0..3 {
            let mut loader = start(&data, LoaderStart::single_rank(epoch, 0, 1)).unwrap();
            let mut most = 0;
            while loader.next(|| Ok(())).unwrap().is_some() {
                most = most.max(shards.n_open());
            }
            drop(loader);
            // Four batches: one with the trainer, three with the reader; and the window that is prefetched.
            assert!(most <= 4 * batch.div_ceil(12) + 6, "batch {batch}: {most} shards");
            assert_eq!(shards.n_open(), 0, "batch {batch}, epoch {epoch}");
        }
    }
}
