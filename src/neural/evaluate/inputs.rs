//! All that an evaluation reads, and the sources of scores that retrieval takes.

use super::embeddings::SplitEmbeddings;
use super::pool::SplitPool;
use super::query_bank::{BankRows, QueryBankScores, QueryBankVectors};
use super::relevance;
use super::scores::{ModelInputs, ModelScores, ScoreRows};
use pairloom_base::error::{Error, Result};
use pairloom_model::trained_model::TrainedModel;
use pairloom_retrieval::{
    BinaryRelevance, Collection, Folds, GradedRelevance, ImageCaptionVectors, Method, ScoreSource, StoredScores,
    VectorSource,
};
use pairloom_search::SearchFactory;
use pairloom_spec::stages::evaluate::{
    BANK_WITH_SPLIT, Evaluate, VALIDATION, VALIDATION_BANK, ValidationSettings, relevance_input,
};
use pairloom_spec::stages::image_vectors;
use pairloom_stage::StageContext;

/// Inputs of an evaluation.
pub(super) struct EvaluationInputs<'m> {
    pub(super) test: SplitInputs<'m>,
    /// Split that methods are chosen on.
    validation: Option<SplitInputs<'m>>,
    /// Query bank of embeddings.
    bank: Option<QueryBankVectors>,
    pub(super) protocols: Vec<Folds>,
    pub(super) binary_relevance: Vec<BinaryRelevance>,
    pub(super) graded_relevance: Vec<GradedRelevance>,
    /// Input of each graded relevance.
    pub(super) graded_tables: Vec<String>,
}

/// Images and captions of a split.
pub(super) struct SplitInputs<'m> {
    name: &'m str,
    pub(super) pool: SplitPool,
    items: SplitItems<'m>,
}

/// Images and captions in the form that scores are taken from.
enum SplitItems<'m> {
    Vectors(SplitEmbeddings),
    /// Scores of the split, and those with a query bank.
    Scores(ScoreRows, Option<QueryBankScores>),
    Model(Box<ModelScores<'m>>),
}

impl<'m> EvaluationInputs<'m> {
    pub(super) fn read(
        stage: &'m Evaluate,
        model: Option<&'m (TrainedModel, blake3::Hash)>,
        cx: &mut StageContext<'_>,
    ) -> Result<Self> {
        let mut test = SplitInputs::read(stage, "", &stage.split, model, cx)?;
        let mut bank = None;
        if let Some(settings) = &stage.query_bank {
            match &mut test.items {
                SplitItems::Vectors(vectors) => {
                    bank = Some(QueryBankVectors::read(settings, vectors.width, stage.similarity, cx)?);
                }
                SplitItems::Scores(_, scores) => {
                    let split = (stage.split.as_str(), &test.pool);
                    *scores = Some(QueryBankScores::read(settings, BANK_WITH_SPLIT, split, cx)?);
                }
                SplitItems::Model(_) => return Err(Error::internal("a query bank beside a model")),
            }
        }
        let protocols = stage.protocols.iter().map(|protocol| protocol.pools(&stage.dataset, test.pool.images.len()));
        let protocols = protocols.collect::<Result<_>>()?;
        let mut this = Self {
            test,
            validation: None,
            bank,
            protocols,
            binary_relevance: Vec::new(),
            graded_relevance: Vec::new(),
            graded_tables: Vec::new(),
        };
        this.read_relevance(stage, cx)?;
        let needs_validation = stage.methods.iter().any(|method| matches!(method, Method::BestOf(_)));
        if let Some(split) = stage.validation_split.as_deref().filter(|_| needs_validation) {
            let mut validation = SplitInputs::read(stage, VALIDATION, split, model, cx)?;
            if let (Some(settings), SplitItems::Scores(_, scores)) = (&stage.query_bank, &mut validation.items)
                && stage.validation.as_ref().is_some_and(ValidationSettings::has_bank)
            {
                *scores = Some(QueryBankScores::read(settings, VALIDATION_BANK, (split, &validation.pool), cx)?);
            }
            this.validation = Some(validation);
        }
        if let SplitItems::Model(scores) = &mut this.test.items {
            for relevance in &this.binary_relevance {
                scores.add_positives(relevance);
            }
        }
        Ok(this)
    }

    fn read_relevance(&mut self, stage: &Evaluate, cx: &mut StageContext<'_>) -> Result<()> {
        for (number, settings) in stage.relevance.iter().enumerate() {
            let (name, at_least, pool) = (&settings.name, settings.at_least(), &self.test.pool);
            if settings.ratings.is_some() {
                let input = relevance_input(number, "ratings");
                self.binary_relevance.push(relevance::read_relevant_pairs(cx, &input, name, at_least, pool)?);
            } else if settings.qrels.is_some() {
                let input = relevance_input(number, "qrels");
                self.binary_relevance.push(relevance::read_judged_items(cx, &input, name, at_least, pool)?);
            } else {
                let neighbours = settings.neighbours().to_vec();
                self.graded_relevance.push(GradedRelevance { name: name.clone(), neighbours });
                self.graded_tables.push(relevance_input(number, "similarity"));
            }
        }
        Ok(())
    }

    /// Vectors of the query bank, checked.
    pub(super) fn bank_vectors(&self) -> Result<Option<ImageCaptionVectors<'_>>> {
        self.bank.as_ref().map(QueryBankVectors::vector_pair).transpose()
    }

    pub(super) fn open_test(&self) -> Result<OpenedSplit<'_>> {
        OpenedSplit::open(&self.test)
    }

    pub(super) fn open_validation(&self) -> Result<Option<OpenedSplit<'_>>> {
        self.validation.as_ref().map(OpenedSplit::open).transpose()
    }
}

impl<'m> SplitInputs<'m> {
    /// Reads a split: embeddings, scores from the inputs that begin with `prefix`, or what a model scores.
    fn read(
        stage: &Evaluate,
        prefix: &str,
        name: &'m str,
        model: Option<&'m (TrainedModel, blake3::Hash)>,
        cx: &mut StageContext<'_>,
    ) -> Result<Self> {
        let (pool, items) = if let Some((trained, digest)) = model {
            let images = image_vectors(stage.features.as_ref(), stage.regions.as_ref());
            let (Some((images, input)), Some(captions)) = (images, &stage.captions) else {
                return Err(Error::internal("a model without images or captions"));
            };
            let (images, captions) = ((images.to_string(), input), captions.to_string());
            let inputs = ModelInputs { images, captions, model_digest: *digest };
            let (pool, scores) = ModelScores::read(trained, &inputs, name, cx)?;
            (pool, SplitItems::Model(Box::new(scores)))
        } else if stage.scores.is_some() {
            let (pool, scores) = ScoreRows::read(prefix, name, cx)?;
            (pool, SplitItems::Scores(scores, None))
        } else {
            let (pool, vectors) = SplitEmbeddings::read(name, stage.similarity, cx)?;
            (pool, SplitItems::Vectors(vectors))
        };
        Ok(Self { name, pool, items })
    }
}

/// Split with the rows of its stored scores.
pub(super) struct OpenedSplit<'i> {
    split: &'i SplitInputs<'i>,
    /// Scores of each image, if they are stored.
    rows: Vec<&'i [f32]>,
    /// Scores with the query bank, if they are stored.
    bank: Option<BankRows<'i>>,
}

impl<'i> OpenedSplit<'i> {
    fn open(split: &'i SplitInputs<'i>) -> Result<Self> {
        let (rows, bank) = match &split.items {
            SplitItems::Scores(scores, bank) => (scores.rows()?, bank.as_ref().map(QueryBankScores::rows).transpose()?),
            SplitItems::Vectors(_) | SplitItems::Model(_) => (Vec::new(), None),
        };
        Ok(Self { split, rows, bank })
    }

    pub(super) fn split_name(&self) -> &'i str {
        self.split.name
    }

    /// Source of the scores of the split, and of those with the query bank, whose vectors are `bank`.
    pub(super) fn source<'s>(
        &'s self,
        bank: Option<&'s ImageCaptionVectors<'s>>,
        factory: &'s dyn SearchFactory,
        threads: usize,
    ) -> Box<dyn ScoreSource + 's> {
        match &self.split.items {
            SplitItems::Vectors(SplitEmbeddings { width, images, captions }) => {
                Box::new(VectorSource { images, captions, width: *width, bank, factory })
            }
            SplitItems::Scores(scores, _) => {
                let bank = self.bank.as_ref().map(BankRows::scores);
                Box::new(StoredScores { rows: &self.rows, captions: scores.captions(), bank, threads })
            }
            SplitItems::Model(scores) => Box::new(scores.as_ref()),
        }
    }

    /// The split with these scores, in the form that retrieval takes.
    pub(super) fn collection<'s>(&'s self, scores: &'s dyn ScoreSource) -> Collection<'s> {
        self.split.pool.collection(scores)
    }
}
