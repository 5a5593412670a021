//! The work of `evaluate`: reads a split, and hands it to the retrieval.

use super::bank::BankVectors;
use super::callbacks::StageCallbacks;
use super::embeddings::Embeddings;
use super::encoded::{EncodedSides, MODEL, ModelSource};
use super::pool::Pool;
use super::rated;
use super::settings::{Evaluate, input};
use crate::error::{Error, Result};
use crate::model::search::Searcher;
use crate::model::trained::Trained;
use crate::retrieval::{
    Detail, Evaluation, Graded, Method, ScoreSource, Validation, VectorPair, VectorSource, evaluate,
};
use crate::search::{MINIMUM_COST, SearchFactory};
use crate::stage::{Cx, Run};

impl Run for Evaluate {
    fn run(&self, cx: &mut Cx<'_>) -> Result<()> {
        self.evaluate(cx, MINIMUM_COST)
    }
}

impl Evaluate {
    /// The work; `minimum_cost` is how many multiply-adds a search must have to be kept.
    pub(super) fn evaluate(&self, cx: &mut Cx<'_>, minimum_cost: u64) -> Result<()> {
        let trained = match self.scores {
            Some(_) => {
                let (device, threads) = (cx.device(), cx.threads());
                Some(Trained::open(|name| cx.file(MODEL, name), device, threads)?)
            }
            None => None,
        };
        let searcher = Searcher::new(cx.device(), self.similarity, cx.threads())?;
        let (pool, sides) = self.read(trained.as_ref(), &self.split, cx)?;
        let bank = match &self.bank {
            Some(bank) => Some(BankVectors::read(bank, sides.width()?, self.similarity, cx)?),
            None => None,
        };
        let bank = bank.as_ref().map(BankVectors::pair).transpose()?;
        let protocols = self.protocols.iter().map(|protocol| protocol.pools(&self.dataset, pool.images.len()));
        let protocols = protocols.collect::<Result<Vec<_>>>()?;
        let (mut rated, mut graded, mut graded_inputs) = (Vec::new(), Vec::new(), Vec::new());
        for (number, relevance) in self.relevance.iter().enumerate() {
            if relevance.ratings.is_some() {
                let at_least = relevance.at_least.unwrap_or(f64::INFINITY);
                rated.push(rated::read(cx, &input(number, "ratings"), &relevance.name, at_least, &pool)?);
            } else {
                graded.push(Graded { name: relevance.name.clone(), neighbours: relevance.neighbours().to_vec() });
                graded_inputs.push(input(number, "similarity"));
            }
        }
        let chooses = self.methods.iter().any(|method| matches!(method, Method::BestOf(_)));
        let validation = self.validation.as_deref().filter(|_| chooses);
        let other = match validation {
            Some(split) => Some((split, self.read(trained.as_ref(), split, cx)?)),
            None => None,
        };
        let scores = sides.source(&pool, bank.as_ref(), &searcher, cx);
        let of_other =
            other.as_ref().map(|(name, (pool, sides))| (*name, pool, sides.source(pool, bank.as_ref(), &searcher, cx)));
        let validation = of_other
            .as_ref()
            .map(|(name, pool, scores)| Validation { name, collection: pool.collection(scores.as_ref()) });
        let evaluation = Evaluation {
            collection: pool.collection(scores.as_ref()),
            methods: &self.methods,
            cutoffs: &self.cutoffs,
            protocols: &protocols,
            rated: &rated,
            graded: &graded,
            bank: self.bank.as_ref().map(super::Bank::name),
            validation,
            detail: Detail::Tables,
        };
        let results = evaluate(&evaluation, &mut StageCallbacks::new(cx, &pool, graded_inputs, minimum_cost))?;
        cx.write("metrics", results.metrics()?)?;
        cx.write("summary", results.summary()?)
    }

    /// Reads a split: embeddings, or what the model encodes.
    fn read<'t>(&self, trained: Option<&'t Trained>, split: &str, cx: &mut Cx<'_>) -> Result<(Pool, Sides<'t>)> {
        match trained {
            Some(trained) => {
                EncodedSides::read(trained, split, cx).map(|(pool, encoded)| (pool, Sides::Encoded(encoded)))
            }
            None => Embeddings::read(split, self.similarity, cx).map(|(pool, vectors)| (pool, Sides::Vectors(vectors))),
        }
    }
}

/// Images and captions of a split, as scores are made of them.
enum Sides<'t> {
    Vectors(Embeddings),
    Encoded(EncodedSides<'t>),
}

impl Sides<'_> {
    /// Numbers of a vector.
    fn width(&self) -> Result<usize> {
        match self {
            Self::Vectors(vectors) => Ok(vectors.width),
            Self::Encoded(_) => Err(Error::internal("a bank beside the scores of a model")),
        }
    }

    /// Their scores, and of vectors those with the bank.
    fn source<'p>(
        &'p self,
        pool: &'p Pool,
        bank: Option<&'p VectorPair<'p>>,
        factory: &'p dyn SearchFactory,
        cx: &Cx<'_>,
    ) -> Box<dyn ScoreSource + 'p> {
        let threads = cx.threads();
        match self {
            Self::Vectors(Embeddings { width, images, captions }) => {
                Box::new(VectorSource { images, captions, width: *width, bank, factory })
            }
            Self::Encoded(sides) => Box::new(ModelSource { sides, pool, threads, cancel: cx.cancel().clone() }),
        }
    }
}
