//! Settings of different stages that have to agree, such as the similarity of a training and of its evaluation.

use super::AnyStage;
use super::embed::Embed;
use super::evaluate::Evaluate;
use crate::model::similarity::{EmbeddingSimilarity, OrderPenalty};
use crate::stage::{Problem, TableRef};

/// Problems of a stage whose settings disagree with those of the stages that write its inputs.
pub(super) fn disagreements<'s>(
    stage: &'s AnyStage,
    writer: &dyn Fn(&TableRef) -> Option<&'s AnyStage>,
) -> Vec<Problem> {
    let AnyStage::Evaluate(evaluate) = stage else { return Vec::new() };
    let embed = |from: &Option<TableRef>| match writer(from.as_ref()?)? {
        AnyStage::Embed(embed) => Some(embed),
        _ => None,
    };
    let (images, captions) = (embed(&evaluate.images), embed(&evaluate.captions));
    let mut problems = Vec::new();
    if let (Some(images), Some(captions)) = (images, captions)
        && images.model != captions.model
    {
        let message = format!("embedded by `{}`, but `images` by `{}`", captions.model, images.model);
        problems.push(Problem::warning("captions", message).hint("scores compare vectors of one model"));
    }
    problems.extend(images.and_then(|embed| wrong_similarity(evaluate, embed, writer)));
    problems.extend(images.and_then(|embed| missing_split(evaluate, embed)));
    problems
}

/// Warning if embeddings are compared by another similarity than their model was trained with.
fn wrong_similarity<'s>(
    evaluate: &Evaluate,
    embed: &Embed,
    writer: &dyn Fn(&TableRef) -> Option<&'s AnyStage>,
) -> Option<Problem> {
    let AnyStage::Train(train) = writer(&embed.model)? else { return None };
    let trained = train.model.capabilities().similarity?;
    if trained == evaluate.similarity {
        return None;
    }
    let (got, wanted) = (similarity_text(evaluate.similarity), similarity_text(trained));
    let message = format!("got {got}, but `{}` was trained with {wanted}", embed.model);
    Some(Problem::warning("similarity", message).hint(format!("write `similarity = {wanted}`")))
}

/// Similarity as it is written in a pipeline file.
fn similarity_text(similarity: EmbeddingSimilarity) -> &'static str {
    match similarity {
        EmbeddingSimilarity::Cosine => "\"cosine\"",
        EmbeddingSimilarity::Order { form: OrderPenalty::Norm } => "\"order\"",
        EmbeddingSimilarity::Order { form: OrderPenalty::Squared } => "{ order = { form = \"squared\" } }",
    }
}

/// Problem of an evaluated split that is not embedded.
fn missing_split(evaluate: &Evaluate, embed: &Embed) -> Option<Problem> {
    let splits = [("split", Some(&evaluate.split)), ("validation_split", evaluate.validation_split.as_ref())];
    let is_embedded = |split: &String| embed.splits.is_empty() || embed.splits.contains(split);
    let (setting, split) = splits
        .into_iter()
        .find_map(|(setting, split)| split.filter(|split| !is_embedded(split)).map(|split| (setting, split)))?;
    let message = format!("got `{split}`, but `images` has the splits `{}` alone", embed.splits.join("`, `"));
    Some(Problem::new(setting, message).hint("add it to `splits` of `embed`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(text: &str) -> AnyStage {
        toml::from_str(text).expect("a stage")
    }

    fn problems(train: &str, embed: &str, evaluate: &str) -> Vec<String> {
        let data = "features = \"cnn.features\"\ncaptions = \"pairs.captions\"\n";
        let train = stage(&format!("[train]\n{data}epochs = 3\n{train}"));
        let embeds = ["fit", "other"].map(|model| stage(&format!("[embed]\n{data}model = \"{model}.model\"\n{embed}")));
        let evaluate = stage(&format!("[evaluate]\ndataset = \"x\"\n{evaluate}"));
        let writer = |from: &TableRef| match from.stage() {
            "fit" => Some(&train),
            "own" => Some(&embeds[0]),
            "others" => Some(&embeds[1]),
            _ => None,
        };
        let found = disagreements(&evaluate, &writer).into_iter();
        found.map(|problem| format!("{}: {}", problem.setting, problem.message)).collect()
    }

    #[test]
    fn an_evaluation_agrees_with_its_training() {
        let own = "images = \"own.image_embeddings\"\ncaptions = \"own.caption_embeddings\"\n";
        let order = "model.vse.similarity.order.form = \"norm\"";
        assert_eq!(problems("", "", own), [""; 0]);
        assert_eq!(problems(order, "", &format!("{own}similarity.order.form = \"norm\"")), [""; 0]);
        assert_eq!(
            problems(order, "", own),
            ["similarity: got \"cosine\", but `fit.model` was trained with \"order\""]
        );
        assert_eq!(
            problems("", "splits = [\"val\", \"train\"]", own),
            ["split: got `test`, but `images` has the splits `val`, `train` alone"]
        );
        let mixed = "images = \"own.image_embeddings\"\ncaptions = \"others.caption_embeddings\"\n";
        assert_eq!(problems("", "", mixed), ["captions: embedded by `other.model`, but `images` by `fit.model`"]);
    }
}
