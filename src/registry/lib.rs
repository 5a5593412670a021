//! The list of all stages, one line each, and what they check of each other's settings.
//!
//! [`AnyStage`] is a stage of any kind, as plain data. It runs those that need no tensors; `pairloom_neural::run_stage` runs all.

mod agreement;
mod writers;

use arrow::array::RecordBatch;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::agreement::ModelUse;
use pairloom_base::error::{Error, Result};
use pairloom_report as report;
use pairloom_spec as spec;
use pairloom_spec::family::Capabilities;
use pairloom_spec::input_spec::ImageInput;
use pairloom_spec::stages::image_vectors;
use pairloom_stage::{
    CopiedRows, FileKeys, Problem, RowKey, RunnableStage, Stage, StageContext, StageInput, StageOutput, TableRef,
};
use pairloom_stages as stages;

macro_rules! needs_tensors {
    (data) => {
        false
    };
    (tensors) => {
        true
    };
}

macro_rules! run_without_tensors {
    (data, $stage:ident, $cx:ident) => {
        $stage.run($cx)
    };
    (tensors, $stage:ident, $cx:ident) => {
        Err(Error::internal(format!(
            "got a stage `{}`, which computes with tensors, expected one of data",
            $stage.kind()
        )))
    };
}

/// Defines [`AnyStage`]. Before each stage is what it computes with: `data` alone, or `tensors`.
macro_rules! stages {
    ($($(#[$about:meta])* $what:ident $name:ident($settings:ty)),* $(,)?) => {
        /// Settings of a stage of any kind, as written in a pipeline file: `[stage.NAME.KIND]`.
        #[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum AnyStage {
            $($(#[$about])* $name($settings)),*
        }

        impl AnyStage {
            fn as_stage(&self) -> &dyn Stage {
                match self { $(Self::$name(stage) => stage),* }
            }
        }

        impl AnyStage {
            /// True for a stage that computes with tensors, which only a program with libtorch runs.
            #[must_use]
            pub fn needs_tensors(&self) -> bool {
                match self { $(Self::$name(_) => needs_tensors!($what)),* }
            }

            /// Runs a stage that computes without tensors.
            ///
            /// # Errors
            /// Any error of the stage, or an internal one if [`AnyStage::needs_tensors`].
            pub fn run_without_tensors(&self, cx: &mut StageContext<'_>) -> Result<()> {
                match self { $(Self::$name(stage) => run_without_tensors!($what, stage, cx)),* }
            }
        }
    };
}

stages! {
    /// Reads a data set: images and captions.
    data Ingest(stages::ingest::Ingest),
    /// Scores captions by their similarity to the captions of images.
    data ScoreCaptions(stages::score_captions::ScoreCaptions),
    /// Builds a vocabulary of concepts from captions.
    data BuildConcepts(stages::build_concepts::BuildConcepts),
    /// Computes feature vectors of images with an image network.
    tensors Extract(spec::stages::extract::Extract),
    /// Imports the regions of a detector.
    data ImportRegions(stages::import_regions::ImportRegions),
    /// Imports vectors of images from columns of tables, or from arrays with a row for each image.
    data ImportFeatures(stages::import_features::ImportFeatures),
    /// Imports vectors of images from npy files, one for each image.
    data ImportArrays(stages::import_arrays::ImportArrays),
    /// Trains a joint embedding of images and captions.
    tensors Train(spec::stages::train::Train),
    /// Imports a published model.
    tensors ImportModel(spec::stages::import_model::ImportModel),
    /// Embeds images and captions with a trained model.
    tensors Embed(spec::stages::embed::Embed),
    /// Scores all images of a split with all its captions.
    tensors ScorePairs(spec::stages::score_pairs::ScorePairs),
    /// Combines the scores or the vectors of several models.
    data Ensemble(stages::ensemble::Ensemble),
    /// Computes the attention between words and regions.
    tensors ComputeAttention(spec::stages::compute_attention::ComputeAttention),
    /// Ranks embeddings and measures retrieval.
    tensors Evaluate(spec::stages::evaluate::Evaluate),
    /// Tests whether two evaluations differ by more than chance.
    data TestSignificance(stages::test_significance::TestSignificance),
    /// Correlates scores with human ratings.
    data Correlate(stages::correlate::Correlate),
    /// Writes results as a Markdown page and an HTML page.
    data Report(report::Report),
}

impl Stage for AnyStage {
    fn kind(&self) -> &'static str {
        self.as_stage().kind()
    }
    fn version(&self) -> u32 {
        self.as_stage().version()
    }
    fn settings(&self) -> serde_json::Value {
        self.as_stage().settings()
    }
    fn inputs(&self) -> Vec<StageInput> {
        self.as_stage().inputs()
    }
    fn outputs(&self) -> Vec<StageOutput> {
        self.as_stage().outputs()
    }
    fn check_writers<'s>(&'s self, writer: &dyn Fn(&TableRef) -> Option<&'s Self>) -> Vec<Problem> {
        let evaluate_of = |from: &TableRef| match writer(from)? {
            Self::Evaluate(evaluate) => Some(evaluate),
            _ => None,
        };
        let evaluate = match self {
            Self::Evaluate(evaluate) => evaluate,
            Self::Report(report) => {
                let ingest_of = |from: &TableRef| match writer(from)? {
                    Self::Ingest(ingest) => Some(ingest),
                    _ => None,
                };
                let missing = agreement::missing_ncs(report, &evaluate_of);
                return missing.into_iter().chain(agreement::missing_printed(report, &ingest_of)).collect();
            }
            Self::Embed(embed) => {
                let images = image_vectors(embed.features.as_ref(), embed.regions.as_ref());
                return unfit(ModelUse::Embed, &embed.model, images, writer);
            }
            Self::ScorePairs(scoring) => {
                let images = image_vectors(scoring.features.as_ref(), scoring.regions.as_ref());
                return unfit(ModelUse::Score, &scoring.model, images, writer);
            }
            Self::Train(train) => {
                let given = train.init_from.as_ref().and_then(|from| capabilities_of(from, writer));
                return given.and_then(|(name, _)| train.initial_family_problem(name)).into_iter().collect();
            }
            Self::ComputeAttention(stage) => {
                return unfit(ModelUse::Attend, &stage.model, Some((&stage.regions, ImageInput::Regions)), writer);
            }
            _ => return Vec::new(),
        };
        let scoring = evaluate.scores.as_ref().and_then(|from| match writer(from)? {
            Self::ScorePairs(scoring) => Some(&scoring.model),
            _ => None,
        });
        let scored_by = scoring.and_then(|model| capabilities_of(model, writer));
        let summed = scored_by.iter().flat_map(|(name, model)| agreement::scores_above_one(evaluate, (name, model)));
        let embed_of = |from: &TableRef| match writer(from)? {
            Self::Embed(embed) => Some(embed),
            _ => None,
        };
        let train_of = |from: &TableRef| match writer(from)? {
            Self::Train(train) => Some(train),
            _ => None,
        };
        let disagreements = agreement::disagreements(evaluate, &embed_of, &train_of);
        let images = image_vectors(evaluate.features.as_ref(), evaluate.regions.as_ref());
        let unfit = evaluate.model.iter().flat_map(|model| unfit(ModelUse::Score, model, images, writer));
        disagreements.into_iter().chain(summed).chain(unfit).collect()
    }
    fn writers(output: &str) -> Option<&'static str> {
        writers::writers(output)
    }
    fn check(&self) -> Vec<Problem> {
        self.as_stage().check()
    }
    fn copied_rows(&self) -> Option<CopiedRows> {
        self.as_stage().copied_rows()
    }
    fn item_keys(&self, rows: &RecordBatch, files: &FileKeys) -> Result<Vec<Option<RowKey>>> {
        self.as_stage().item_keys(rows, files)
    }
}

/// Problems of a stage whose `model` does not fit it. Without the stage that writes the model there are none.
fn unfit<'s>(
    applied: ModelUse,
    model: &TableRef,
    images: Option<(&TableRef, ImageInput)>,
    writer: &dyn Fn(&TableRef) -> Option<&'s AnyStage>,
) -> Vec<Problem> {
    let known = capabilities_of(model, writer);
    let input = images.map(|(_, input)| input);
    let problems = |(name, capabilities)| agreement::unfit_model(applied, input, (name, &capabilities));
    let trained_on = || match writer(model)? {
        AnyStage::Train(train) => image_vectors(train.features.as_ref(), train.regions.as_ref()),
        _ => None,
    };
    let other_width = images.zip(trained_on()).and_then(|(images, trained_on)| {
        let widths = [extracted_width(images.0, writer)?, extracted_width(trained_on.0, writer)?];
        agreement::other_width(images, trained_on.0, widths)
    });
    known.map(problems).into_iter().flatten().chain(other_width).collect()
}

/// Width of the vectors of a table that `extract` writes.
fn extracted_width<'s>(from: &TableRef, writer: &dyn Fn(&TableRef) -> Option<&'s AnyStage>) -> Option<usize> {
    match writer(from)? {
        AnyStage::Extract(extract) => extract.width(),
        _ => None,
    }
}

/// Family and capabilities of a model, if the stage that writes it is known.
fn capabilities_of<'s>(
    model: &TableRef,
    writer: &dyn Fn(&TableRef) -> Option<&'s AnyStage>,
) -> Option<(&'static str, Capabilities)> {
    match writer(model)? {
        AnyStage::Train(train) => Some((train.model.name(), train.model.capabilities())),
        AnyStage::ImportModel(import) => Some((import.model.name(), import.model.default_capabilities())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Problems of the stage `applied`, whose model the stage `writer` writes.
    fn problems(writer: &str, applied: &str) -> Vec<String> {
        let read = |text: &str| toml::from_str::<AnyStage>(text).expect("a stage");
        let (writer, applied) = (read(writer), read(applied));
        let found = applied.check_writers(&|from: &TableRef| (from.stage() == "fit").then_some(&writer));
        found.into_iter().map(|problem| format!("{}: {}", problem.setting, problem.message)).collect()
    }

    /// The family is known from the stage that trains or imports the model, before anything runs.
    #[test]
    fn a_model_that_a_stage_cannot_apply_is_found_by_the_check() {
        let train = "[train]\nregions = \"x.regions\"\ncaptions = \"x.captions\"\nepochs = 1\nmodel = { scan = {} }";
        let import = "[import_model]\nweights = \"w\"\nvocabulary = \"v\"\nmodel = { vsrn = {} }";
        let inputs =
            |images: &str| format!("model = \"fit.model\"\n{images} = \"x.{images}\"\ncaptions = \"x.captions\"");
        let stage = |kind: &str, images: &str| format!("[{kind}]\n{}", inputs(images));
        assert_eq!(
            problems(train, &stage("embed", "regions")),
            ["model: a model of `scan` has no vector of an image and of a caption that its score follows from"]
        );
        assert_eq!(problems(train, &stage("score_pairs", "regions")), [""; 0]);
        assert_eq!(
            problems(train, &stage("score_pairs", "features")),
            ["features: a model of `scan` reads `regions` of images"]
        );
        assert_eq!(
            problems(import, &stage("compute_attention", "regions")),
            ["model: a model of `vsrn` has no attention between words and regions"]
        );
        assert_eq!(problems(import, &stage("embed", "regions")), [""; 0]);
        assert_eq!(problems(train, &stage("compute_attention", "regions")), [""; 0]);
        let tune = train.replace("epochs", "init_from = \"fit.model\"\nepochs");
        assert_eq!(problems(train, &tune), [""; 0]);
        let wanted = "wanted one of `scan`, which is trained here";
        assert_eq!(problems(import, &tune), [format!("init_from: got a model of `vsrn`, {wanted}")]);
        let other = stage("embed", "regions").replace("fit.model", "other.model");
        assert_eq!(problems(train, &other), [""; 0]);
    }

    /// A network has vectors of one width, so vectors of another network are found before the training.
    #[test]
    fn vectors_of_another_width_are_found_by_the_check() {
        let read = |text: &str| toml::from_str::<AnyStage>(text).expect("a stage");
        let extract = |network: &str| {
            read(&format!(
                "[extract]\nimages = \"x.images\"\nnetwork = \"{network}\"\nweights = \"random\"\npooling.grid = 3"
            ))
        };
        let (squeezenet, resnet) = (extract("squeezenet1_0"), extract("resnet50"));
        let images = |from: &str| format!("regions = \"{from}.regions\"\ncaptions = \"x.captions\"\n");
        let train = read(&format!("[train]\n{}epochs = 1\nmodel = {{ scan = {{}} }}", images("small")));
        let problems = |from: &str| -> Vec<String> {
            let scoring = read(&format!("[score_pairs]\nmodel = \"fit.model\"\n{}", images(from)));
            let found = scoring.check_writers(&|from: &TableRef| match from.stage() {
                "fit" => Some(&train),
                "small" => Some(&squeezenet),
                "large" => Some(&resnet),
                _ => None,
            });
            found.into_iter().map(|problem| format!("{}: {}", problem.setting, problem.message)).collect()
        };
        assert_eq!(problems("small"), [""; 0]);
        let message =
            "`large.regions` has vectors of 2048 values, and the model is trained on `small.regions` with 512";
        assert_eq!(problems("large"), [format!("regions: {message}")]);
    }

    /// Scores of `mean` and `max` are at most 1, those of `sum` and `log_sum_exp` are not.
    #[test]
    fn methods_on_distances_are_refused_for_scores_above_one_by_the_check() {
        let read = |text: &str| toml::from_str::<AnyStage>(text).expect("a stage");
        let data = "regions = \"x.regions\"\ncaptions = \"x.captions\"\n";
        let scoring = read(&format!("[score_pairs]\nmodel = \"fit.model\"\n{data}"));
        let evaluate = read(
            "[evaluate]\ndataset = \"x\"\nscores = \"pairwise.scores\"\ncaptions = \"pairwise.scored_captions\"\n\
             methods = [{ nns = {} }, { local_scaling = {} }, { csls = {} }, { nicdm = {} }]",
        );
        let problems = |aggregation: &str| -> Vec<String> {
            let model = format!("model.scan.aggregation = \"{aggregation}\"");
            let train = read(&format!("[train]\n{data}epochs = 1\n{model}"));
            let found = evaluate.check_writers(&|from: &TableRef| match from.stage() {
                "pairwise" => Some(&scoring),
                _ => Some(&train),
            });
            found.into_iter().map(|problem| format!("{}: {}", problem.setting, problem.message)).collect()
        };
        for aggregation in ["mean", "max"] {
            assert_eq!(problems(aggregation), [""; 0]);
        }
        let why = "scales the distances 1 − s, and this model of `scan` has scores above 1";
        for aggregation in ["sum", "log_sum_exp"] {
            let wanted = [format!("methods.1: `local_scaling` {why}"), format!("methods.3: `nicdm` {why}")];
            assert_eq!(problems(aggregation), wanted);
        }
    }
}
