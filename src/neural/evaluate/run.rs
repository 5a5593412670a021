//! Run of `evaluate`: passes the inputs to the retrieval, with the callbacks that write tables and save the checkpoints of
//! long searches in the shard cache.

use std::sync::Arc;

use arrow::array::{Int32Array, ListArray, RecordBatch};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Schema};

use super::inputs::EvaluationInputs;
use super::relevance::SimilarityMatrix;
use pairloom_base::error::{Error, ErrorCategory, Result};
use pairloom_model::device_search::DeviceSearchFactory;
use pairloom_model::trained_model::TrainedModel;
use pairloom_retrieval::{Callbacks, Evaluation, EvaluationDetail, RelevanceGrades, ValidationCollection, evaluate};
use pairloom_search::{CheckpointStore, MINIMUM_COST};
use pairloom_spec::stages::evaluate::{Evaluate, QueryBankSettings};
use pairloom_stage::StageContext;
use pairloom_tables as tables;

/// Runs the stage.
///
/// # Errors
/// Any error of the stage.
pub fn run(stage: &Evaluate, cx: &mut StageContext<'_>) -> Result<()> {
    run_with_checkpoints(stage, cx, MINIMUM_COST)
}

/// Runs the evaluation; `minimum_cost` is the cost of a search, in multiply-adds, from which on it has checkpoints.
pub(super) fn run_with_checkpoints(stage: &Evaluate, cx: &mut StageContext<'_>, minimum_cost: u64) -> Result<()> {
    let factory = DeviceSearchFactory::new(cx.device(), stage.similarity, cx.threads())?;
    let factory = factory.with_remote(cx.resources().remote.clone());
    let model = open_model(stage, cx)?;
    let inputs = EvaluationInputs::read(stage, model.as_ref(), cx)?;
    let bank = inputs.bank_vectors()?;
    let opened = inputs.open_test()?;
    let scores = opened.source(bank.as_ref(), &factory, cx.threads());
    let opened_validation = inputs.open_validation()?;
    let validation_scores =
        opened_validation.as_ref().map(|opened| opened.source(bank.as_ref(), &factory, cx.threads()));
    let validation = opened_validation.as_ref().zip(validation_scores.as_deref());
    let evaluation = Evaluation {
        collection: opened.collection(scores.as_ref()),
        methods: &stage.methods,
        cutoffs: &stage.cutoffs,
        protocols: &inputs.protocols,
        binary_relevance: &inputs.binary_relevance,
        graded_relevance: &inputs.graded_relevance,
        bank: stage.query_bank.as_ref().map(QueryBankSettings::name),
        validation: validation.map(|(opened, scores)| ValidationCollection {
            name: opened.split_name(),
            collection: opened.collection(scores),
        }),
        detail: EvaluationDetail::Tables,
        ranking_depth: stage.ranking_depth,
    };
    let results = evaluate(&evaluation, &mut StageCallbacks::new(cx, &inputs, minimum_cost))?;
    cx.write("metrics", results.metrics()?)?;
    cx.write("summary", results.summary()?)
}

/// Opens the model that computes the scores, if there is one, with the digest of its files.
fn open_model(stage: &Evaluate, cx: &mut StageContext<'_>) -> Result<Option<(TrainedModel, blake3::Hash)>> {
    if stage.model.is_none() {
        return Ok(None);
    }
    let (resources, mut hasher) = (cx.resources().clone(), blake3::Hasher::new());
    let file = |name: &str| {
        let content = cx.file("model", name)?;
        hasher.update(&content);
        Ok(content)
    };
    let trained = TrainedModel::open(file, &resources)?;
    Ok(Some((trained, hasher.finalize())))
}

/// Callbacks that connect the retrieval with the stage.
struct StageCallbacks<'k, 'w> {
    cx: &'k mut StageContext<'w>,
    inputs: &'k EvaluationInputs<'k>,
    minimum_cost: u64,
    /// True until an access to the cache fails.
    cache_usable: bool,
}

/// Name of the column of payloads.
const PAYLOAD: &str = "payload";

impl<'k, 'w> StageCallbacks<'k, 'w> {
    /// Callbacks with a [`CheckpointStore::minimum_cost`].
    fn new(cx: &'k mut StageContext<'w>, inputs: &'k EvaluationInputs<'k>, minimum_cost: u64) -> Self {
        Self { cx, inputs, minimum_cost, cache_usable: true }
    }

    /// Disables the cache after an error, with a warning. Results do not depend on the cache.
    fn disable_cache<T>(&mut self, error: Error) -> Result<Option<T>> {
        if error.category() == ErrorCategory::Interrupted {
            return Err(error);
        }
        if self.cache_usable {
            self.cache_usable = false;
            self.cx
                .warn("cache", format!("checkpoints cannot be saved, so an interrupted run would start anew: {error}"));
        }
        Ok(None)
    }
}

impl Callbacks for StageCallbacks<'_, '_> {
    fn add_rankings(&mut self, rows: RecordBatch) -> Result<()> {
        self.cx.write("rankings", rows)
    }

    fn add_hubs(&mut self, rows: RecordBatch) -> Result<()> {
        self.cx.write("hubs", rows)
    }

    fn progress(&mut self, done: u64, total: u64) {
        self.cx.progress(done, Some(total), "queries");
    }

    fn check_cancelled(&self) -> Result<()> {
        self.cx.check_cancelled()
    }

    fn warn(&mut self, subject: String, message: String) {
        self.cx.warn(subject, message);
    }

    fn checkpoint_store(&mut self) -> Option<&mut dyn CheckpointStore> {
        Some(self)
    }

    fn relevance_grades(&mut self, number: usize) -> Result<Box<dyn RelevanceGrades>> {
        let EvaluationInputs { graded_tables, test, .. } = self.inputs;
        Ok(Box::new(SimilarityMatrix::read(self.cx, &graded_tables[number], &test.pool)?))
    }
}

impl CheckpointStore for StageCallbacks<'_, '_> {
    fn load(&mut self, name: &str) -> Result<Option<Vec<i32>>> {
        if !self.cache_usable {
            return Ok(None);
        }
        let shard = match self.cx.cached("search", &name.into()) {
            Ok(shard) => shard,
            // The entry was damaged and has been removed.
            Err(error) if error.category() == ErrorCategory::Data => return Ok(None),
            Err(error) => return self.disable_cache(error),
        };
        // A payload that cannot be read is computed again.
        Ok(shard.and_then(|shard| Some(shard.int32_lists(PAYLOAD).ok()?.row(0).ok()?.to_vec())))
    }

    fn save(&mut self, name: &str, content: Vec<i32>) -> Result<()> {
        if !self.cache_usable {
            return Ok(());
        }
        let item = Arc::new(Field::new("item", DataType::Int32, false));
        let schema = Schema::new(vec![Field::new(PAYLOAD, DataType::List(Arc::clone(&item)), false)]);
        let offsets = OffsetBuffer::from_lengths([content.len()]);
        let payload = ListArray::try_new(item, offsets, Arc::new(Int32Array::from(content)), None)?;
        let batch = tables::batch(&Arc::new(schema), vec![Arc::new(payload)])?;
        match self.cx.cache("search", &name.into(), batch) {
            Ok(_) => Ok(()),
            Err(error) => self.disable_cache::<()>(error).map(|_| ()),
        }
    }

    fn minimum_cost(&self) -> u64 {
        self.minimum_cost
    }
}
