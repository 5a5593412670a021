//! Settings of different stages that have to agree, such as the similarity of a training and of its evaluation.

use super::embed::Embed;
use super::evaluate::Evaluate;
use super::train::Train;
use crate::model::similarity::{EmbeddingSimilarity, OrderPenalty};
use crate::stage::{Problem, TableRef};

/// Problems of an evaluation whose settings disagree with those of the stages that write its inputs. `embed_of` and
/// `train_of` find the stage that writes a table or a model.
pub(super) fn disagreements<'s>(
    evaluate: &Evaluate,
    embed_of: &dyn Fn(&TableRef) -> Option<&'s Embed>,
    train_of: &dyn Fn(&TableRef) -> Option<&'s Train>,
) -> Vec<Problem> {
    let images = evaluate.images.as_ref().and_then(embed_of);
    let captions = evaluate.captions.as_ref().and_then(embed_of);
    let mut problems = Vec::new();
    if let (Some(images), Some(captions)) = (images, captions)
        && images.model != captions.model
    {
        let message = format!("embedded by `{}`, but `images` by `{}`", captions.model, images.model);
        problems.push(Problem::warning("captions", message).hint("scores compare vectors of one model"));
    }
    problems.extend(images.and_then(|embed| wrong_similarity(evaluate, embed, train_of(&embed.model)?)));
    problems.extend(images.and_then(|embed| missing_split(evaluate, embed)));
    problems
}

/// Warning if embeddings are compared by another similarity than their model was trained with.
fn wrong_similarity(evaluate: &Evaluate, embed: &Embed, train: &Train) -> Option<Problem> {
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

    fn problems(train: &str, embed: &str, evaluate: &str) -> Vec<String> {
        let data = "features = \"cnn.features\"\ncaptions = \"pairs.captions\"\n";
        let train: Train = toml::from_str(&format!("{data}epochs = 3\n{train}")).expect("a training");
        let embeds: [Embed; 2] = ["fit", "other"].map(|model| {
            toml::from_str(&format!("{data}model = \"{model}.model\"\n{embed}")).expect("settings of `embed`")
        });
        let evaluate: Evaluate = toml::from_str(&format!("dataset = \"x\"\n{evaluate}")).expect("an evaluation");
        let embed_of = |from: &TableRef| match from.stage() {
            "own" => Some(&embeds[0]),
            "others" => Some(&embeds[1]),
            _ => None,
        };
        let train_of = |from: &TableRef| (from.stage() == "fit").then_some(&train);
        let found = disagreements(&evaluate, &embed_of, &train_of).into_iter();
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
