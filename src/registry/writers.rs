//! Stages that write each table, for messages about inputs that are connected to the wrong one.

/// Table or files, and the stages that write it, with the settings that it needs.
const WRITERS: [(&str, &str); 33] = [
    ("images", "an `ingest`"),
    ("captions", "an `ingest`"),
    ("ratings", "an `ingest` (ratings)"),
    ("published", "an `ingest` (published)"),
    ("qrels", "an `ingest` (qrels)"),
    ("features", "an `extract`, an `import_features`, an `import_arrays` or of an `ingest` (precomp)"),
    (
        "regions",
        "an `extract` (`pooling = { grid = 7 }`), an `import_regions`, an `import_features` or an `import_arrays` (both with `max_regions`) or of an `ingest` (precomp with `regions = true`)",
    ),
    ("region_boxes", "an `extract` (`pooling = { grid = 7 }`) or of an `import_regions`"),
    ("caption_ngrams", "a `score_captions` (CIDEr)"),
    ("scene_graphs", "a `score_captions` (SPICE)"),
    ("caption_similarity", "a `score_captions`"),
    ("spice_scores", "a `score_captions` (SPICE with `pairs = { table = … }`)"),
    ("concepts", "a `build_concepts`"),
    ("model", "a `train` or of an `import_model`"),
    ("data_order", "a `train`"),
    ("samples", "a `train`"),
    ("memory_bank", "a `train` (with `memory_bank`)"),
    ("history", "a `train`"),
    ("auxiliary_losses", "a `train` (of a model with auxiliary losses)"),
    ("loss_scalars", "a `train` (with `learned = true` in its loss)"),
    ("validation", "a `train`"),
    ("scores", "a `score_pairs` or of an `ensemble`"),
    ("scored_captions", "a `score_pairs` or of an `ensemble`"),
    ("attention", "a `compute_attention`"),
    ("image_embeddings", "an `embed`, an `extract` (with `captions`), an `ensemble` or of an `ingest` (embeddings)"),
    ("caption_embeddings", "an `embed`, an `extract` (with `captions`), an `ensemble` or of an `ingest` (embeddings)"),
    ("rankings", "an `evaluate`"),
    ("hubs", "an `evaluate`"),
    ("metrics", "an `evaluate`"),
    ("summary", "an `evaluate`"),
    ("significance_tests", "a `test_significance`"),
    ("correlations", "a `correlate`"),
    ("page", "a `report`"),
];

/// Stages that write the table or files `output`.
pub(super) fn writers(output: &str) -> Option<&'static str> {
    WRITERS.iter().find(|(name, _)| *name == output).map(|(_, stages)| *stages)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::AnyStage;
    use pairloom_pipeline::{LoadOptions, load};
    use pairloom_stage::Stage;
    use pairloom_tables as tables;

    #[test]
    fn every_table_has_its_writers() {
        let files = ["model", "page"].into_iter();
        let known: BTreeSet<&str> = WRITERS.iter().map(|(name, _)| *name).collect();
        assert_eq!(known, tables::all().iter().map(|table| table.name).chain(files).collect());
    }

    /// Every stage of every pipeline in `pipelines/` is among the writers of its outputs.
    #[test]
    fn the_writers_are_those_of_the_pipelines() {
        let folder = test_data::root().join("pipelines");
        let entries = walkdir::WalkDir::new(folder).into_iter().map(Result::unwrap);
        let mut used = BTreeSet::new();
        for path in
            entries.map(walkdir::DirEntry::into_path).filter(|path| path.extension().is_some_and(|end| end == "toml"))
        {
            let options = LoadOptions {
                overrides: &[],
                profile: None,
                only: &[],
                except: &[],
                environment: &|_| None,
                sources_must_exist: false,
                check_queries: &|_, _| Vec::new(),
            };
            for node in load::<AnyStage>(&path, &options).unwrap().plan.stages() {
                for output in node.stage.outputs() {
                    let stages = writers(output.name).unwrap_or_default();
                    assert!(stages.contains(&format!("`{}`", node.stage.kind())), "{}: {stages}", output.name);
                    used.insert(output.name);
                }
            }
        }
        assert!(used.len() > 18, "{used:?}");
    }
}
