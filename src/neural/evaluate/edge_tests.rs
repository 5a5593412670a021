//! Edge cases of every method: tiny pools, extreme parameters, equal scores. A method must work or return an error with
//! its name.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float32Type, Float64Type};

use super::method_tests::evaluate;
use super::tests::{TestCaptions, TestImages, host, random};
use crate::testing::RunOnHost as _;
use pairloom_base::error::ErrorCategory;
use pairloom_retrieval::Method;
use pairloom_retrieval::methods::{Csls, MethodContext, Nnn, ScoreKind};
use pairloom_spec::similarity::{EmbeddingSimilarity, OrderPenalty};
use pairloom_spec::stages::evaluate::Evaluate;
use pairloom_stage::Stage;
use pairloom_stage_testing::InMemoryHost;

/// Rows of images and of captions.
type PoolRows = (TestImages, TestCaptions);

/// Tables with a test split and a training split, which is the query bank.
fn with_bank(mut images: TestImages, mut captions: TestCaptions, bank: &PoolRows) -> InMemoryHost {
    images.extend(bank.0.iter().map(|(id, _, vector)| (1000 + id, "train", vector.clone())));
    captions.extend(bank.1.iter().map(|(id, image, _, vector)| (1000 + id, 1000 + image, "train", vector.clone())));
    let mut host = host(&images, &captions);
    for side in ["images", "captions"] {
        let batches = host.input_tables[side].clone();
        host.input_tables.insert(format!("query_bank.{side}"), batches);
    }
    host
}

/// First column of a table with a number that is not finite.
fn not_finite(batch: &RecordBatch) -> Option<String> {
    batch.schema().fields().iter().zip(batch.columns()).find_map(|(field, column)| {
        let finite = match field.data_type() {
            DataType::Float64 => column.as_primitive::<Float64Type>().iter().flatten().all(f64::is_finite),
            DataType::List(item) if *item.data_type() == DataType::Float32 => {
                column.as_list::<i32>().values().as_primitive::<Float32Type>().iter().flatten().all(f32::is_finite)
            }
            _ => true,
        };
        (!finite).then(|| field.name().clone())
    })
}

/// Runs each method. A run must return finite numbers and rankings in descending order of scores, or an error about the
/// settings or the data that names the method. Returns the names of methods with errors.
fn run_all(
    name: &str,
    methods: &[Method],
    similarity: EmbeddingSimilarity,
    make: impl Fn() -> InMemoryHost,
) -> Vec<&'static str> {
    let mut refused = Vec::new();
    for method in methods {
        let stage = Evaluate { similarity, ..evaluate(vec![method.clone()]) };
        let problems = stage.check();
        if !problems.is_empty() {
            assert!(problems.iter().all(|problem| problem.setting.contains(method.name())), "{name}: {problems:?}");
            refused.push(method.name());
            continue;
        }
        let mut host = make();
        if let Err(error) = host.run_stage(&stage) {
            let known = matches!(error.category(), ErrorCategory::Usage | ErrorCategory::Data);
            assert!(known && error.to_string().contains(method.name()), "{name} {method:?}: {error}");
            refused.push(method.name());
            continue;
        }
        for table in ["rankings", "metrics", "summary", "hubs"] {
            assert_eq!(not_finite(&host.output(table)), None, "{name} {method:?}: {table}");
        }
        let rankings = host.output("rankings");
        let scores = rankings["top_scores"].as_list::<i32>();
        let matching = method.label(None, None).transductive && rankings["rank"].null_count() > 0;
        for row in (0..rankings.num_rows()).filter(|_| !matching) {
            let scores = scores.value(row).as_primitive::<Float32Type>().values().to_vec();
            assert!(scores.is_sorted_by(|a, b| a >= b), "{name} {method:?}: {scores:?}");
        }
    }
    refused
}

#[test]
fn every_method_handles_every_pool() {
    let (images, captions) = random(7, 5, 1);
    let bank = random(4, 5, 2);
    let one = vec![0.6, 0.0, 0.8, 0.0, 0.0];
    let equal = |(images, captions): PoolRows| -> PoolRows {
        let images = images.into_iter().map(|(id, split, _)| (id, split, one.clone())).collect();
        (images, captions.into_iter().map(|(id, image, split, _)| (id, image, split, one.clone())).collect())
    };
    // Captions that equal their image, and two equal images.
    let mut copies: PoolRows = (images.clone(), captions.clone());
    copies.0[1].2 = copies.0[0].2.clone();
    let images = copies.0.clone();
    copies.1.iter_mut().for_each(|row| row.3 = images[usize::try_from(row.1).expect("an id")].2.clone());
    let lonely = captions.iter().filter(|row| row.1 != 3).cloned().collect();
    let tiny = (images[..1].to_vec(), captions[..1].to_vec());
    let pools: [(&str, PoolRows, PoolRows); 8] = [
        ("an ordinary one", (images.clone(), captions.clone()), bank.clone()),
        ("a bank of one", (images.clone(), captions.clone()), (bank.0[..1].to_vec(), bank.1[..1].to_vec())),
        ("a bank of equal vectors", (images.clone(), captions.clone()), equal(bank.clone())),
        ("all scores are equal", equal((images.clone(), captions.clone())), equal(bank.clone())),
        ("copies", copies.clone(), copies),
        ("an image without captions", (images.clone(), lonely), bank.clone()),
        ("one image and one caption", tiny.clone(), bank),
        ("one image, one caption, and a bank of one", tiny.clone(), tiny),
    ];
    let order = EmbeddingSimilarity::Order { form: OrderPenalty::default() };
    for (name, (images, captions), bank) in pools {
        let host = || with_bank(images.clone(), captions.clone(), &bank);
        for methods in [Method::samples(), Method::extremes(1000)] {
            assert!(run_all(name, &methods, EmbeddingSimilarity::Cosine, host).is_empty(), "{name}");
            let mut refused = run_all(name, &methods, order, host);
            refused.dedup();
            refused.sort_unstable();
            refused.dedup();
            // Only methods whose settings check fails return an error.
            let given = MethodContext::complete(ScoreKind::Order);
            let mut say_so: Vec<_> =
                methods.iter().filter(|method| !method.problems("", given).is_empty()).map(Method::name).collect();
            say_so.sort_unstable();
            say_so.dedup();
            assert_eq!(refused, say_so, "{name}");
        }
    }
}

/// Bad query banks are reported before any method runs.
#[test]
fn bad_banks_are_refused() {
    let (images, captions) = random(4, 5, 1);
    let fails = |bank: &PoolRows| {
        let mut host = with_bank(images.clone(), captions.clone(), bank);
        host.run_stage(&evaluate(vec![Method::Nnn(Nnn { alpha: 0.75, k: 3 })])).expect_err("a bad bank").to_string()
    };
    let mut zero = random(3, 5, 2);
    zero.0[1].2 = vec![0.0; 5];
    assert!(fails(&zero).contains("(image_id 1001): the embedding has norm 0.0000"), "{}", fails(&zero));
    zero.0[1].2 = vec![f32::NAN; 5];
    assert!(fails(&zero).contains("(image_id 1001): the embedding has values that are not finite"));
    assert!(fails(&(vec![], vec![])).contains("no rows of split `train`"), "{}", fails(&(vec![], vec![])));
    // Vectors of another model.
    let mut host = with_bank(images.clone(), captions.clone(), &random(3, 5, 2));
    let other = with_bank(random(4, 6, 1).0, random(4, 6, 1).1, &random(3, 6, 2));
    for side in ["query_bank.images", "query_bank.captions"] {
        host.input_tables.insert(side.to_owned(), other.input_tables[side].clone());
    }
    let error = host
        .run_stage(&evaluate(vec![Method::Csls(Csls { k: 3, query_bank: true, ..Csls::default() })]))
        .expect_err("another width");
    assert!(error.to_string().contains("the query bank has vectors of width 6, the test split of width 5"), "{error}");
}
