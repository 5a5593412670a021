//! Checks of settings of `train` that depend on each other.

use super::Train;
use super::options::WarmUp;
use crate::model::encoder::Precision;
use crate::model::loss::{BatchSpec, LossFunction};
use crate::model::similarity::Similarity;
use crate::stage::Problem;

impl Train {
    /// Problems of parts of the settings that depend on each other.
    pub(super) fn problems_of_parts(&self) -> Vec<Problem> {
        [self.model_problems(), self.image_problems(), self.objective_problems()].concat()
    }

    /// Problems of the model, and settings that its family cannot follow.
    fn model_problems(&self) -> Vec<Problem> {
        let wrong = self.model.problems().into_iter();
        let mut problems: Vec<Problem> =
            wrong.map(|(setting, message)| Problem::new(format!("model.{setting}"), message)).collect();
        let can = self.model.capabilities();
        let asked = [
            ("bank", self.bank.is_some(), can.similarity.is_some(), "score that follows from one vector of each side"),
            ("pictures", self.pictures.is_some(), can.pictures, "network that reads pictures"),
            ("precision", self.precision == Precision::Mixed, can.mixed_precision, "products in mixed precision"),
            ("ranks", self.ranks > 1, can.ranks, "training on several ranks"),
            ("word_vectors", self.word_vectors.is_some(), can.word_vectors.is_some(), "vectors of words"),
        ];
        for (setting, .., what) in asked.into_iter().filter(|(_, asked, can, _)| *asked && !can) {
            problems.push(Problem::new(setting, format!("a model of `{}` has no {what}", self.model.name())));
        }
        problems
    }

    /// Problems of the settings that say where images come from.
    fn image_problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        match (&self.features, &self.pictures) {
            (None, None) => {
                let message = "no images: wanted `features`, or `pictures`";
                problems.push(Problem::new("features", message).hint("`features = \"cnn.features\"`"));
            }
            (Some(_), Some(_)) => {
                let message = "given beside `features`: wanted one of the two";
                problems.push(Problem::new("pictures", message));
            }
            (None, Some(pictures)) => {
                problems.extend(pictures.problems());
                if !self.mixed_with.is_empty() {
                    let message = "not with `pictures`: only data sets of features can be mixed";
                    problems.push(Problem::new("mixed_with", message));
                }
            }
            (Some(_), None) => {}
        }
        problems
    }

    /// Problems of the objective and of what it needs.
    fn objective_problems(&self) -> Vec<Problem> {
        // A batch without negatives is told of above.
        let never_positive = self.model.capabilities().similarity.is_some_and(Similarity::is_never_positive);
        let batches = BatchSpec { pairs: self.batch.max(2), never_positive };
        let wrong = self.objective().problems(batches).into_iter();
        let mut problems: Vec<Problem> = wrong.map(|(setting, message)| Problem::new(setting, message)).collect();
        problems.extend(self.bank_problems());
        problems.extend(self.relevance_problems());
        problems.extend(self.warm_up_problems());
        if self.ranks == 0 || self.ranks > self.batch {
            let message = format!("got {}, wanted 1 to {}, the pairs of a batch", self.ranks, self.batch);
            problems.push(Problem::new("ranks", message));
        }
        problems
    }

    /// Problems of the memory bank.
    fn bank_problems(&self) -> Vec<Problem> {
        let Some(bank) = &self.bank else { return Vec::new() };
        let mut problems = bank.problems();
        if !self.loss.uses_memory_bank() {
            let message = format!("`{}` uses no memory bank", self.loss.name());
            problems.push(Problem::new("bank", message).hint("leave it out, or train with `loss = { hal = {} }`"));
        }
        if bank.first_epoch >= u64::from(self.epochs) {
            let (got, epochs) = (bank.first_epoch, self.epochs);
            let message = format!("got {got}, wanted less than {epochs}, the epochs of the training");
            problems.push(Problem::new("bank.first_epoch", message).hint("epochs are counted from 0"));
        }
        if self.semantic_margin.as_ref().is_some_and(|margin| !margin.keep_triplet) {
            let message = "with `keep_triplet = false` in `semantic_margin` nothing asks for the weights of a bank";
            problems.push(Problem::new("bank", message).hint("leave it out, or keep the loss"));
        }
        problems
    }

    /// Problems of settings that need φ of captions.
    fn relevance_problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let wants = self.semantic_margin.is_some() || self.select.wants_relevance();
        match (&self.semantic_margin, &self.caption_ngrams) {
            (None, None) if wants => {
                let message = "NCS follows from captions as vectors, and `caption_ngrams` is not given";
                problems.push(Problem::new("select", message).hint(
                    "add a stage `compare` with `split = \"train+val\"`, `measure = { cider_d = {} }`, `form = \"on_demand\"`",
                ));
            }
            (Some(_), None) => {
                let message = "semantic margins follow from captions as vectors, and `caption_ngrams` is not given";
                problems.push(Problem::new("semantic_margin", message).hint(
                    "add a stage `compare` with `split = \"train\"`, `measure = { cider_d = {} }`, `form = \"on_demand\"`",
                ));
            }
            (None, Some(_)) if !wants => {
                let message = "nothing asks for φ of captions: there is no `semantic_margin`";
                problems.push(Problem::new("caption_ngrams", message));
            }
            _ => {}
        }
        if self.semantic_margin.is_some() && !self.mixed_with.is_empty() {
            let message = "not with `mixed_with`: captions of several data sets have no φ in common";
            problems.push(Problem::new("semantic_margin", message));
        }
        problems
    }

    /// Problems of the warm-up.
    fn warm_up_problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let Some(WarmUp { epochs, margin }) = self.warm_up else { return problems };
        if epochs == 0 {
            problems.push(Problem::new("warm_up.epochs", "got 0, wanted at least 1"));
        }
        if epochs >= self.epochs && self.epochs > 0 {
            let message = format!("got {epochs}, wanted fewer than the {} epochs of the training", self.epochs);
            problems.push(Problem::new("warm_up.epochs", message).hint("after it comes the objective"));
        }
        if !(margin.is_finite() && margin >= 0.0) {
            problems.push(Problem::new("warm_up.margin", format!("got {margin}, wanted 0 or more")));
        }
        problems
    }
}
