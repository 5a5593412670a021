//! Model before the first step: random parameters, and those of a file, of another training, or of word vectors.

use std::collections::HashMap;

use bytes::Bytes;

use super::run::config;
use super::training_data::TrainingData;
use pairloom_base::error::{Error, Result};
use pairloom_formats::word_vectors;
use pairloom_model::device::device_of_rank;
use pairloom_model::family::concept_graph::{CONCEPT_VECTORS, set_concepts};
use pairloom_model::family::model::Model;
use pairloom_model::trained_model::ModelDescription;
use pairloom_model::training_state::TrainingState;
use pairloom_spec::stages::train::Train;
use pairloom_spec::stages::train::WORD_VECTORS_FILE;
use pairloom_spec::stages::train::{FinetuneSettings, InitialWeights};
use pairloom_stage::StageContext;
use pairloom_storage::bounded;

/// Creates the model with its initial parameters.
pub(super) fn create_training(
    stage: &Train,
    data: &TrainingData,
    initial: Option<(Bytes, Bytes)>,
    local_rank: usize,
    cx: &mut StageContext<'_>,
) -> Result<TrainingState> {
    let config = config(stage, data);
    let model = config.create(stage.seed, device_of_rank(cx.device(), local_rank)?)?;
    if let Some(FinetuneSettings { weights: InitialWeights::File(_), .. }) = &stage.finetune {
        let path = cx.source("finetune.weights.file")?;
        let bytes = bounded::read(&path, bounded::MAX_MODEL_BYTES)?;
        let weights = model.parameters().set_network_weights(config.input_spec(), &bytes);
        weights.map_err(|error| error.context(format!("weights `{}`", path.display())))?;
    }
    if let Some((description, parameters)) = initial {
        let warning = load_initial_parameters(stage, &description, &parameters, &*model, data)
            .map_err(|error| error.context("init_from"))?;
        if let Some(message) = warning {
            cx.warn("init_from", message);
        }
    }
    if let Some(concepts) = &data.concepts {
        set_concepts(model.parameters(), concepts, data.vocabulary.words())?;
    }
    if stage.word_vectors.is_some() {
        load_word_vectors(stage, &*model, data, cx)?;
    }
    Ok(TrainingState::new(config, model).with_learned_scalars(stage.objective().learned_scalars()))
}

/// Loads the parameters of the model in `init_from`. Returns a warning if it lacks some of this model.
fn load_initial_parameters(
    stage: &Train,
    description: &[u8],
    parameters: &[u8],
    model: &dyn Model,
    data: &TrainingData,
) -> Result<Option<String>> {
    let description = ModelDescription::read(description)?;
    let given = description.config.name();
    if let Some(problem) = stage.initial_family_problem(given) {
        return Err(Error::data(problem.message).hint(problem.hint.unwrap_or_default()));
    }
    if description.vocabulary != data.vocabulary.words() || description.tokenizer != stage.tokenizer {
        let (given, own) = (description.vocabulary.len(), data.vocabulary.words().len());
        let message = format!(
            "the model of `init_from` has {given} words, the training captions {own}, or other words or another tokenizer"
        );
        let hint = "train both on the same captions, with the same `tokenizer` and `min_count`";
        return Err(Error::data(message).hint(hint));
    }
    let copied = model.parameters().copy_matching(parameters).map_err(|error| {
        let hint = "set the widths of `model` as in the training of `init_from`";
        error.context(format!("the model is of `{given}` with other sizes")).hint(hint)
    })?;
    let all = model.parameters().own_tensors().len();
    let message = format!("the model of `{given}` has {copied} of the {all} parameters; the others begin at random");
    Ok((copied < all).then_some(message))
}

/// Loads the vectors of words and of concepts from a file. A concept has the vector of its lemma.
fn load_word_vectors(stage: &Train, model: &dyn Model, data: &TrainingData, cx: &mut StageContext<'_>) -> Result<()> {
    let path = cx.source(WORD_VECTORS_FILE)?;
    let name = stage.model.capabilities().word_vectors_parameter;
    let name = name.ok_or_else(|| Error::internal("a model without vectors of words"))?;
    let vocabulary = data.vocabulary.words();
    // The file may have gigabytes, so it is read once, for the vocabulary and the lemmas that are not in it.
    let mut words = vocabulary.to_vec();
    let mut index: HashMap<&str, usize> = vocabulary.iter().map(String::as_str).zip(0..).collect();
    let mut lemmas = Vec::new();
    for concept in data.concepts.iter().flatten() {
        lemmas.push(*index.entry(&concept.lemma).or_insert_with(|| {
            words.push(concept.lemma.clone());
            words.len() - 1
        }));
    }
    let width = model.parameters().get(name)?.size().get(1).and_then(|&width| usize::try_from(width).ok());
    let vectors = word_vectors::read(&path, &words, width.unwrap_or(0), &mut || cx.check_cancelled())?;
    model.parameters().set_rows(name, |word| vectors.get(word))?;
    let found = |words: &mut dyn Iterator<Item = usize>| words.filter(|&word| vectors.get(word).is_some()).count();
    let fixed = " and are not trained";
    let rest = if model.input_spec().words_frozen { fixed } else { "" };
    // `<pad>`, `<start>`, `<end>` and `<unk>` have no vector in a file.
    let wanted = vocabulary.len().saturating_sub(4);
    check_found(found(&mut (0..vocabulary.len())), wanted, ["words", "words of the vocabulary", rest], cx)?;
    if lemmas.is_empty() {
        return Ok(());
    }
    model.parameters().set_rows(CONCEPT_VECTORS, |concept| vectors.get(*lemmas.get(concept)?))?;
    check_found(found(&mut lemmas.iter().copied()), lemmas.len(), ["concepts", "concepts", fixed], cx)
}

/// Reports words, or concepts, whose vectors are not in the file of word vectors. `rest` ends the sentence about them.
///
/// # Errors
/// None of the `wanted` ones is in the file.
fn check_found(found: usize, wanted: usize, [what, all, rest]: [&str; 3], cx: &mut StageContext<'_>) -> Result<()> {
    if found == 0 {
        let message = format!("`{}` has none of the {wanted} {all}", cx.source(WORD_VECTORS_FILE)?.display());
        return Err(Error::data(message).hint("the file may be of another language, or of phrases"));
    }
    if found < wanted {
        let missing = wanted - found;
        let message =
            format!("{missing} of {wanted} {what} are not in the file: their initial vectors are random{rest}");
        cx.warn(WORD_VECTORS_FILE, message);
    }
    Ok(())
}
