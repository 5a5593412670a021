//! Tests of the vector cache of a session.

use arrow::array::AsArray;
use arrow::datatypes::Float64Type;

use crate::Session;
use crate::testing::store;

const SUM: &str = "SELECT sum(vector_norm(feature)) FROM cnn.features";

fn sum(session: &Session) -> pairloom_base::error::Result<f64> {
    let rows = session.query(SUM)?.collect::<pairloom_base::error::Result<Vec<_>>>()?;
    Ok(rows[0].column(0).as_primitive::<Float64Type>().value(0))
}

#[test]
fn vectors_are_read_once() {
    let (folder, store, _) = store();
    let [caching, too_small, without] = [1 << 20, 100, 0].map(|bytes| {
        let session = Session::open(&store).unwrap();
        if bytes == 0 { session } else { session.with_vector_cache(bytes) }
    });
    let wanted = sum(&without).unwrap();
    assert_eq!(sum(&caching).unwrap(), wanted);
    assert_eq!(sum(&too_small).unwrap(), wanted);
    // A part of a scan, and another projection, are not the same scan.
    let few = caching.query("SELECT feature FROM cnn.features LIMIT 1").unwrap().map(|batch| batch.unwrap().num_rows());
    assert_eq!(few.sum::<usize>(), 1);
    // Computed columns are not cached.
    let random = "SELECT max(r) FROM (SELECT feature AS f, random() AS r FROM cnn.features) WHERE vector_norm(f) >= 0";
    let value =
        || caching.query(random).unwrap().next().unwrap().unwrap().column(0).as_primitive::<Float64Type>().value(0);
    assert_ne!(value(), value());
    let with_ids = "SELECT image_id, feature FROM cnn.features WHERE image_id > 1";
    assert_eq!(caching.query(with_ids).unwrap().map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 2);
    for part in walkdir::WalkDir::new(folder.path().join("v1/extract")) {
        let part = part.unwrap();
        if part.path().extension().is_some_and(|end| end == "parquet") {
            let size = part.metadata().unwrap().len();
            std::fs::write(part.path(), vec![0; usize::try_from(size).unwrap()]).unwrap();
        }
    }
    assert_eq!(sum(&caching).unwrap(), wanted, "from the cache");
    assert!(sum(&too_small).is_err() && sum(&without).is_err(), "from the file");
}
