//! Checks of combinations of settings of `train`, and warnings of implausible ones.

use super::{Train, WarmUp};
use crate::family::ScoreRange;
use crate::loss::{BatchSpec, LossSettings};
use crate::precision::{MatmulPrecision, ProductBackend};
use crate::setting_problems::{MARGINS, UsualRange, check_plausible};
use crate::similarity::EmbeddingSimilarity;
use crate::stages::image_vectors_problem;
use pairloom_base::error::{Error, Result};
use pairloom_stage::Problem;

/// Setting of a model whose batch normalisation does not bind the samples of a batch to each other.
const RANK_HINT: &str = "`batch_norm = \"frozen\"`";

impl Train {
    /// Problems of settings that depend on each other.
    pub(super) fn combination_problems(&self) -> Vec<Problem> {
        [self.model_problems(), self.image_problems(), self.objective_problems()].concat()
    }

    /// Problems of the model, and settings that its family does not support.
    fn model_problems(&self) -> Vec<Problem> {
        let wrong = self.model.problems().into_iter();
        let mut problems: Vec<Problem> = wrong.map(|problem| problem.under("model")).collect();
        let capabilities = self.model.capabilities();
        let requirements = [
            (
                "memory_bank",
                self.memory_bank.is_some(),
                capabilities.similarity.is_some(),
                "similarity of one vector per item",
            ),
            ("finetune", self.finetune.is_some(), capabilities.finetuning, "image network"),
            ("precision", self.precision == MatmulPrecision::Mixed, capabilities.mixed_precision, "mixed precision"),
            (
                "word_vectors",
                self.word_vectors.is_some(),
                capabilities.word_vectors_parameter.is_some(),
                "word vectors",
            ),
        ];
        for (setting, .., what) in
            requirements.into_iter().filter(|(_, is_set, is_supported, _)| *is_set && !is_supported)
        {
            let problem = Problem::new(setting, format!("a model of `{}` has no {what}", self.model.name()));
            problems.push(match setting {
                "memory_bank" => problem.hint(
                    "remove it, as `hal` also compares a pair with its batch alone; models of `vse`, `vsrn`, `cvse` and \
                     `vse_infinity` have one",
                ),
                _ => problem,
            });
        }
        if self.product_backend != ProductBackend::Auto && self.precision != MatmulPrecision::Mixed {
            let problem = Problem::new("product_backend", "unused with `precision = \"f32\"`");
            problems.push(problem.hint("leave it out, or set `precision = \"mixed\"`"));
        }
        let name = self.model.name();
        match (&self.concepts, capabilities.concepts) {
            (None, true) => {
                let message = format!("a model of `{name}` needs `concepts`, which is not set");
                problems.push(Problem::new("concepts", message).hint(
                    "add a stage `build_concepts` with `captions = \"pairs.captions\"`, and its table: `concepts = \"words.concepts\"`",
                ));
            }
            (Some(_), false) => {
                problems.push(Problem::new("concepts", format!("a model of `{name}` has no concepts")));
            }
            _ => {}
        }
        if let Some(message) = self.rank_problem(self.ranks) {
            problems.push(Problem::new("ranks", message).hint(RANK_HINT));
        }
        problems
    }

    /// Message if this model is not trained by so many ranks.
    fn rank_problem(&self, ranks: usize) -> Option<String> {
        let network_reason = self.finetune.as_ref().and_then(|finetune| finetune.batch_norm.single_rank_reason());
        let reason = self.model.capabilities().single_rank_reason.or(network_reason).filter(|_| ranks > 1)?;
        Some(format!("got {ranks}, but a model of `{}` is trained by 1: {reason}", self.model.name()))
    }

    /// Refuses ranks that another program started, if the model is trained by one.
    pub fn check_world_size(&self, world_size: usize) -> Result<()> {
        let refused = |message| Err(Error::usage(format!("ranks: {message}")).hint(RANK_HINT));
        self.rank_problem(world_size).map_or(Ok(()), refused)
    }

    /// Problem of a training that begins with a model of the family `given`.
    #[must_use]
    pub fn initial_family_problem(&self, given: &str) -> Option<Problem> {
        let own = self.model.name();
        let message = || format!("got a model of `{given}`, expected one of `{own}`, which is trained here");
        let hint = "a training begins with a model of its own family, or without `init_from`";
        (given != own).then(|| Problem::new("init_from", message()).hint(hint))
    }

    /// Problems of the settings of the images.
    fn image_problems(&self) -> Vec<Problem> {
        let expected = self.model.capabilities().image_input;
        let name = self.model.name();
        let mut problems = Vec::new();
        let tables = (self.features.as_ref(), self.regions.as_ref());
        match &self.finetune {
            None if tables == (None, None) && self.model.capabilities().finetuning => {
                let message = "no images: expected `features` or `finetune`";
                problems.push(Problem::new("features", message).hint("`features = \"cnn.features\"`"));
            }
            None => problems.extend(image_vectors_problem(tables, expected, "", name)),
            Some(_) if tables != (None, None) => {
                let other = self.image_input().name();
                let message = format!("set together with `{other}`: expected one of the two");
                problems.push(Problem::new("finetune", message));
            }
            Some(finetune) => {
                problems.extend(finetune.problems());
                if !self.mixed_with.is_empty() {
                    let message = "not with `finetune`: only data sets of features can be mixed";
                    problems.push(Problem::new("mixed_with", message));
                }
            }
        }
        for (i, set) in self.mixed_with.iter().enumerate().filter(|_| self.finetune.is_none()) {
            let tables = (set.features.as_ref(), set.regions.as_ref());
            problems.extend(image_vectors_problem(tables, expected, &format!("mixed_with.{i}."), name));
        }
        problems
    }

    /// Problems of the objective and of the settings that it needs.
    fn objective_problems(&self) -> Vec<Problem> {
        // A batch of fewer than 2 pairs is reported by `check`.
        let capabilities = self.model.capabilities();
        let never_positive = capabilities.similarity.is_some_and(EmbeddingSimilarity::is_never_positive);
        let sums = capabilities.score_range == ScoreRange::Sums;
        let batches = BatchSpec { pairs: self.batch_size.max(2), never_positive, sums };
        let mut problems = self.objective().problems(batches);
        problems.extend(self.memory_bank_problems());
        problems.extend(self.relevance_problems());
        problems.extend(self.warm_up_problems());
        if self.ranks == 0 || self.ranks > self.batch_size {
            let message = format!("got {}, expected 1 to {}, the pairs of a batch", self.ranks, self.batch_size);
            problems.push(Problem::new("ranks", message));
        }
        problems
    }

    /// Problems of the memory bank.
    fn memory_bank_problems(&self) -> Vec<Problem> {
        let Some(bank) = &self.memory_bank else { return Vec::new() };
        let mut problems = bank.problems();
        if !self.loss.uses_memory_bank() {
            let message = format!("`{}` uses no memory bank", self.loss.name());
            problems.push(Problem::new("memory_bank", message).hint("remove it, or train with `loss = { hal = {} }`"));
        }
        if bank.first_epoch >= u64::from(self.epochs) {
            let (got, epochs) = (bank.first_epoch, self.epochs);
            let message = format!("got {got}, expected less than {epochs}, the epochs of the training");
            problems.push(Problem::new("memory_bank.first_epoch", message).hint("epochs are counted from 0"));
        }
        if self.semantic_margin.as_ref().is_some_and(|margin| !margin.keep_triplet) {
            let message =
                "unused with `keep_triplet = false` in `semantic_margin`, which has no weights from a memory bank";
            problems.push(Problem::new("memory_bank", message).hint("remove it, or keep the loss"));
        }
        problems
    }

    /// Problems of settings that need φ of captions.
    fn relevance_problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let is_needed = self.semantic_margin.is_some() || self.selection_metric.needs_relevance();
        match (&self.semantic_margin, &self.caption_ngrams) {
            (None, None) if is_needed => {
                let message = "NCS needs `caption_ngrams`, which is not set";
                problems.push(Problem::new("selection_metric", message).hint(
                    "add a stage `score_captions` with `split = \"train+val\"`, `measure = { cider_d = {} }`, `pairs = \"on_demand\"`",
                ));
            }
            (Some(_), None) => {
                let message = "semantic margins need `caption_ngrams`, which is not set";
                problems.push(Problem::new("semantic_margin", message).hint(
                    "add a stage `score_captions` with `split = \"train\"`, `measure = { cider_d = {} }`, `pairs = \"on_demand\"`",
                ));
            }
            (None, Some(_)) if !is_needed => {
                let message = "unused: neither `semantic_margin` nor `selection_metric` needs it";
                problems.push(Problem::new("caption_ngrams", message));
            }
            _ => {}
        }
        if self.semantic_margin.is_some() && !self.mixed_with.is_empty() {
            let message = "not with `mixed_with`: there is no φ of captions of different data sets";
            problems.push(Problem::new("semantic_margin", message));
        }
        problems
    }

    /// Problems of the warm-up.
    fn warm_up_problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let Some(WarmUp { epochs, margin }) = self.warm_up else { return problems };
        if epochs == 0 {
            problems.push(Problem::new("warm_up.epochs", "got 0, expected at least 1"));
        }
        if epochs >= self.epochs && self.epochs > 0 {
            let message = format!("got {epochs}, expected fewer than the {} epochs of the training", self.epochs);
            problems.push(Problem::new("warm_up.epochs", message).hint("the objective is used after the warm-up only"));
        }
        if !(margin.is_finite() && margin >= 0.0) {
            problems.push(Problem::new("warm_up.margin", format!("got {margin}, expected 0 or more")));
        }
        problems
    }
}

impl Train {
    /// Warnings about implausible settings of the training itself.
    #[expect(clippy::cast_precision_loss, reason = "compared with bounds only")]
    pub(super) fn implausible(&self) -> Vec<Problem> {
        let rate = if self.finetune.is_some() {
            (1e-8..=1e-3, "usual is 1e-5 to 1e-4 for fine-tuning with Adam")
        } else {
            (1e-7..=0.1, "usual is 1e-5 to 1e-2 with Adam")
        };
        let mut ranges: Vec<(&str, f64, UsualRange)> = vec![
            ("learning_rate", self.learning_rate, rate),
            ("learning_rate_decay", self.learning_rate_decay, (0.0..=1.0, "usual is 0.1 to 1: above 1 the rate grows")),
            ("gradient_clip", self.gradient_clip, (1e-3..=f64::INFINITY, "usual is 0.5 to 10")),
            ("weight_decay", self.weight_decay, (0.0..=1.0, "usual is 0 to 0.1")),
            ("epochs", self.epochs.into(), (0.0..=1000.0, "usual is 10 to 100")),
            (
                "batch_size",
                self.batch_size as f64,
                (4.0..=32_768.0, "usual is 32 to 4096: each pair is compared with the others of its batch"),
            ),
            ("min_count", self.min_count as f64, (0.0..=100.0, "usual is 1 to 10: rarer words become `<unk>`")),
            ("checkpoints", self.checkpoints as f64, (0.0..=20.0, "usual is 2: each has the size of the model")),
        ];
        if let Some(warm_up) = self.warm_up {
            ranges.push(("warm_up.margin", warm_up.margin, MARGINS));
        }
        if let Some(bank) = &self.memory_bank {
            let temperatures = (0.1..=1000.0, "usual is 10 to 100");
            let margins = (-1.0..=1.0, "usual is 0 to 0.5, as scores are mostly below 1");
            ranges.extend([
                ("memory_bank.alpha", bank.weights.alpha, temperatures.clone()),
                ("memory_bank.beta", bank.weights.beta, temperatures),
                ("memory_bank.epsilon_positive", bank.weights.epsilon_positive, margins.clone()),
                ("memory_bank.epsilon_negative", bank.weights.epsilon_negative, margins),
            ]);
        }
        ranges.into_iter().filter_map(|(name, got, usual)| check_plausible(name, got, usual)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pairloom_stage::Stage;

    /// A launcher such as `torchrun` sets the number of ranks outside of the file, so `check` cannot know it.
    #[test]
    fn ranks_of_a_launcher_are_refused_where_batch_statistics_bind_the_pairs() {
        let stage = |model: &str| -> Train {
            toml::from_str(&format!(
                "regions = \"x.regions\"\ncaptions = \"x.captions\"\nepochs = 1\nmodel = {{ {model} }}"
            ))
            .expect("settings")
        };
        for model in ["sgraf = {}", "vsrn = {}", "cvse = {}", "vse_infinity = {}", "vsrn = { batch_norm = \"batch\" }"]
        {
            let train = stage(model);
            train.check_world_size(1).expect("one rank");
            let error = train.check_world_size(2).expect_err(model);
            let name = train.model.name();
            assert_eq!(
                error.to_string(),
                format!(
                    "ranks: got 2, but a model of `{name}` is trained by 1: each rank would normalise with the statistics \
                     of its own pairs"
                )
            );
            assert_eq!(error.hint_text(), Some("`batch_norm = \"frozen\"`"));
        }
        for model in ["scan = {}", "sgraf = { batch_norm = \"frozen\" }", "vsrn = { reasoning_layers = 0 }", "vse = {}"]
        {
            stage(model).check_world_size(3).expect(model);
        }
    }

    /// Settings of a small training of VSE, with the additional lines `more`.
    fn training(more: &str) -> Train {
        let inputs = "features = \"x.features\"\ncaptions = \"x.captions\"\nbatch_size = 16\nmin_count = 1";
        toml::from_str(&format!("{inputs}\nlearning_rate = 0.01\n{more}")).expect("settings of a training")
    }

    fn warnings(settings: &str) -> Vec<String> {
        let problems = training(settings).check().into_iter().filter(Problem::is_warning);
        problems.map(|problem| format!("{}: {}", problem.setting, problem.message)).collect()
    }

    #[test]
    fn implausible_settings_are_warnings_with_the_usual_values() {
        assert_eq!(warnings("epochs = 30"), [""; 0]);
        assert_eq!(
            warnings("epochs = 3000\nwarm_up = { epochs = 1, margin = 2.0 }\nloss = { max = { margin = 20.0 } }"),
            [
                "epochs: got 3000; usual is 10 to 100",
                "warm_up.margin: got 2; usual is 0.05 to 0.5, as scores are mostly below 1",
                "loss.max.margin: got 20; usual is 0.05 to 0.5, as scores are mostly below 1",
            ]
        );
        let joined = |settings: &str| warnings(&format!("epochs = 3\n{settings}")).join("; ");
        assert!(
            joined("loss = { info_nce = { temperature = 20.0 } }").starts_with("loss.info_nce.temperature: got 20")
        );
        assert!(
            joined("loss = { sigmoid = { temperature = 0.07 } }").contains("a divisor of 0.05 is a temperature of 20")
        );
        assert!(joined("loss = { hal = { epsilon = 3.0 } }").contains("loss.hal.epsilon: got 3"));
        assert!(joined("learning_rate_decay = 10.0").contains("above 1 the rate grows"));
    }

    /// A value that is refused is not warned about too.
    #[test]
    fn impossible_settings_are_errors_alone() {
        let problems = training("epochs = 3\nloss = { max = { margin = -1.0 } }\nlearning_rate_decay = -2.0").check();
        let shown: Vec<_> = problems.iter().map(|problem| (problem.setting.as_str(), problem.is_warning())).collect();
        assert_eq!(shown, [("learning_rate_decay", false), ("loss.max.margin", false)]);
    }
}
