//! Run of `evaluate`: reads a split and passes it to the retrieval, with the callbacks that write tables and save the
//! checkpoints of long searches in the shard cache.

use std::sync::Arc;

use arrow::array::{Int32Array, ListArray, RecordBatch};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Schema};

use super::embeddings::SplitEmbeddings;
use super::pool::SplitPool;
use super::query_bank::{BankRows, QueryBankScores, QueryBankVectors};
use super::relevance::{self, SimilarityMatrix};
use super::scores::{ModelInputs, ModelScores, ScoreRows};
use pairloom_base::error::{Error, ErrorCategory, Result};
use pairloom_model::device_search::DeviceSearchFactory;
use pairloom_model::trained_model::TrainedModel;
use pairloom_retrieval::{
    Callbacks, Evaluation, EvaluationDetail, GradedRelevance, ImageCaptionVectors, Method, RelevanceGrades,
    ScoreSource, StoredBankScores, StoredScores, ValidationCollection, VectorSource, evaluate,
};
use pairloom_search::{CheckpointStore, MINIMUM_COST, SearchFactory};
use pairloom_spec::stages::evaluate::{
    BANK_WITH_SPLIT, Evaluate, QueryBankSettings, VALIDATION, VALIDATION_BANK, ValidationSettings, relevance_input,
};
use pairloom_spec::stages::image_vectors;
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
    let (pool, mut sides) = read_split(stage, "", &stage.split, model.as_ref(), cx)?;
    let (mut bank, mut bank_scores) = (None, None);
    match (&stage.query_bank, &sides) {
        (Some(settings), SplitItems::Vectors(vectors)) => {
            bank = Some(QueryBankVectors::read(settings, vectors.width, stage.similarity, cx)?);
        }
        (Some(settings), SplitItems::Scores(_)) => {
            bank_scores = Some(QueryBankScores::read(settings, BANK_WITH_SPLIT, (&stage.split, &pool), cx)?);
        }
        (Some(_), SplitItems::Model(_)) => return Err(Error::internal("a query bank beside a model")),
        (None, _) => {}
    }
    let bank = bank.as_ref().map(QueryBankVectors::vector_pair).transpose()?;
    let bank_rows = bank_scores.as_ref().map(QueryBankScores::rows).transpose()?;
    let protocols = stage.protocols.iter().map(|protocol| protocol.pools(&stage.dataset, pool.images.len()));
    let protocols = protocols.collect::<Result<Vec<_>>>()?;
    let (mut binary, mut graded, mut graded_inputs) = (Vec::new(), Vec::new(), Vec::new());
    for (number, relevance) in stage.relevance.iter().enumerate() {
        let (name, at_least) = (&relevance.name, relevance.at_least());
        if relevance.ratings.is_some() {
            let input = relevance_input(number, "ratings");
            binary.push(relevance::read_relevant_pairs(cx, &input, name, at_least, &pool)?);
        } else if relevance.qrels.is_some() {
            let input = relevance_input(number, "qrels");
            binary.push(relevance::read_judged_items(cx, &input, name, at_least, &pool)?);
        } else {
            graded.push(GradedRelevance { name: relevance.name.clone(), neighbours: relevance.neighbours().to_vec() });
            graded_inputs.push(relevance_input(number, "similarity"));
        }
    }
    let needs_validation = stage.methods.iter().any(|method| matches!(method, Method::BestOf(_)));
    let validation = stage.validation_split.as_deref().filter(|_| needs_validation);
    let validation_items = match validation {
        Some(split) => Some((split, read_split(stage, VALIDATION, split, model.as_ref(), cx)?)),
        None => None,
    };
    let mut validation_bank = None;
    if let (Some(settings), Some((split, (pool, _)))) = (&stage.query_bank, &validation_items)
        && stage.validation.as_ref().is_some_and(ValidationSettings::has_bank)
    {
        validation_bank = Some(QueryBankScores::read(settings, VALIDATION_BANK, (split, pool), cx)?);
    }
    let validation_bank = validation_bank.as_ref().map(QueryBankScores::rows).transpose()?;
    if let SplitItems::Model(scores) = &mut sides {
        for relevance in &binary {
            scores.add_positives(relevance);
        }
    }
    let rows = sides.score_rows()?;
    let of_bank = (bank.as_ref(), bank_rows.as_ref().map(BankRows::scores));
    let scores = sides.source(&rows, of_bank, &factory, cx);
    let validation_rows = validation_items.as_ref().map(|(_, (_, sides))| sides.score_rows()).transpose()?;
    let validation_scores =
        validation_items.as_ref().zip(validation_rows.as_ref()).map(|((name, (pool, sides)), rows)| {
            let bank_scores = validation_bank.as_ref().map(BankRows::scores);
            (*name, pool, sides.source(rows, (bank.as_ref(), bank_scores), &factory, cx))
        });
    let validation = validation_scores
        .as_ref()
        .map(|(name, pool, scores)| ValidationCollection { name, collection: pool.collection(scores.as_ref()) });
    let evaluation = Evaluation {
        collection: pool.collection(scores.as_ref()),
        methods: &stage.methods,
        cutoffs: &stage.cutoffs,
        protocols: &protocols,
        binary_relevance: &binary,
        graded_relevance: &graded,
        bank: stage.query_bank.as_ref().map(QueryBankSettings::name),
        validation,
        detail: EvaluationDetail::Tables,
        ranking_depth: stage.ranking_depth,
    };
    let results = evaluate(&evaluation, &mut StageCallbacks::new(cx, &pool, graded_inputs, minimum_cost))?;
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

/// Reads a split: embeddings, scores from the inputs that begin with `prefix`, or what a model scores.
fn read_split<'m>(
    stage: &Evaluate,
    prefix: &str,
    split: &str,
    model: Option<&'m (TrainedModel, blake3::Hash)>,
    cx: &mut StageContext<'_>,
) -> Result<(SplitPool, SplitItems<'m>)> {
    if let Some((trained, digest)) = model {
        let images = image_vectors(stage.features.as_ref(), stage.regions.as_ref());
        let (Some((images, input)), Some(captions)) = (images, &stage.captions) else {
            return Err(Error::internal("a model without images or captions"));
        };
        let (images, captions) = ((images.to_string(), input), captions.to_string());
        let inputs = ModelInputs { images, captions, model_digest: *digest };
        return ModelScores::read(trained, &inputs, split, cx)
            .map(|(pool, scores)| (pool, SplitItems::Model(Box::new(scores))));
    }
    if stage.scores.is_some() {
        return ScoreRows::read(prefix, split, cx).map(|(pool, scores)| (pool, SplitItems::Scores(scores)));
    }
    SplitEmbeddings::read(split, stage.similarity, cx).map(|(pool, vectors)| (pool, SplitItems::Vectors(vectors)))
}

/// Images and captions of a split, in the form that scores are taken from.
enum SplitItems<'m> {
    Vectors(SplitEmbeddings),
    Scores(ScoreRows),
    Model(Box<ModelScores<'m>>),
}

impl SplitItems<'_> {
    /// Scores of each image, if they are stored.
    fn score_rows(&self) -> Result<Vec<&[f32]>> {
        match self {
            Self::Vectors(_) | Self::Model(_) => Ok(Vec::new()),
            Self::Scores(scores) => scores.rows(),
        }
    }

    /// Source of their scores, and of the scores with the query bank, whose vectors or scores are given. `rows` are those
    /// of [`SplitItems::score_rows`].
    fn source<'p>(
        &'p self,
        rows: &'p [&'p [f32]],
        (bank, bank_scores): (Option<&'p ImageCaptionVectors<'p>>, Option<StoredBankScores<'p>>),
        factory: &'p dyn SearchFactory,
        cx: &StageContext<'_>,
    ) -> Box<dyn ScoreSource + 'p> {
        let threads = cx.threads();
        match self {
            Self::Vectors(SplitEmbeddings { width, images, captions }) => {
                Box::new(VectorSource { images, captions, width: *width, bank, factory })
            }
            Self::Scores(scores) => {
                Box::new(StoredScores { rows, captions: scores.captions(), bank: bank_scores, threads })
            }
            Self::Model(scores) => Box::new(scores.as_ref()),
        }
    }
}

/// Callbacks that connect the retrieval with the stage.
struct StageCallbacks<'k, 'w> {
    cx: &'k mut StageContext<'w>,
    pool: &'k SplitPool,
    /// Inputs of the graded relevance.
    graded_inputs: Vec<String>,
    minimum_cost: u64,
    /// True until an access to the cache fails.
    cache_usable: bool,
}

/// Name of the column of payloads.
const PAYLOAD: &str = "payload";

impl<'k, 'w> StageCallbacks<'k, 'w> {
    /// Callbacks with a [`CheckpointStore::minimum_cost`].
    fn new(cx: &'k mut StageContext<'w>, pool: &'k SplitPool, graded: Vec<String>, minimum_cost: u64) -> Self {
        Self { cx, pool, graded_inputs: graded, minimum_cost, cache_usable: true }
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
        Ok(Box::new(SimilarityMatrix::read(self.cx, &self.graded_inputs[number], self.pool)?))
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
