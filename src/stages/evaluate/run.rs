//! The work of `evaluate`: reads a split, and hands it to the retrieval.

use super::bank::BankVectors;
use super::callbacks::StageCallbacks;
use super::pool::Pool;
use super::rated;
use super::settings::{Evaluate, input};
use crate::error::Result;
use crate::model::search::Searcher;
use crate::retrieval::{Detail, Evaluation, Graded, Method, Validation, VectorPair, evaluate};
use crate::search::MINIMUM_COST;
use crate::stage::{Cx, Run};

impl Run for Evaluate {
    fn run(&self, cx: &mut Cx<'_>) -> Result<()> {
        self.evaluate(cx, MINIMUM_COST)
    }
}

impl Evaluate {
    /// The work; `minimum_cost` is how many multiply-adds a search must have to be kept.
    pub(super) fn evaluate(&self, cx: &mut Cx<'_>, minimum_cost: u64) -> Result<()> {
        let searcher = Searcher::new(cx.device(), self.similarity, cx.threads())?;
        let pool = Pool::read(cx, &self.split, self.similarity)?;
        let bank =
            self.bank.as_ref().map(|bank| BankVectors::read(bank, pool.width, self.similarity, cx)).transpose()?;
        let bank = match &bank {
            Some(bank) => Some(VectorPair::new(&bank.images, &bank.captions, pool.width, " of the bank")?),
            None => None,
        };
        let protocols = self.protocols.iter().map(|protocol| protocol.pools(&self.dataset, pool.images.ids.len()));
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
            Some(split) => Some((split, Pool::read(cx, split, self.similarity)?)),
            None => None,
        };
        let scores = pool.scores(bank.as_ref(), &searcher);
        let of_other = other.as_ref().map(|(name, pool)| (*name, pool, pool.scores(bank.as_ref(), &searcher)));
        let validation =
            of_other.as_ref().map(|(name, pool, scores)| Validation { name, collection: pool.collection(scores) });
        let evaluation = Evaluation {
            collection: pool.collection(&scores),
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
}
