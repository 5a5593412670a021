//! Settings of different stages that have to agree, such as the similarity of a training and of its evaluation.

use pairloom_report::Report;
use pairloom_retrieval::Method;
use pairloom_spec::family::{Capabilities, ScoreRange};
use pairloom_spec::input_spec::ImageInput;
use pairloom_spec::similarity::{EmbeddingSimilarity, OrderPenalty};
use pairloom_spec::stages::embed::Embed;
use pairloom_spec::stages::evaluate::Evaluate;
use pairloom_spec::stages::train::Train;
use pairloom_stage::{Problem, TableRef};
use pairloom_stages::ingest::Ingest;

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

/// Problems of methods of an evaluation that scale distances 1 − s, where the scores of a model of the family `name` can
/// be above 1.
pub(super) fn scores_above_one(evaluate: &Evaluate, (name, capabilities): (&str, &Capabilities)) -> Vec<Problem> {
    let methods = evaluate.methods.iter().enumerate();
    let refused =
        methods.filter(|(_, method)| capabilities.score_range != ScoreRange::UpToOne && method.scales_distances());
    let problem = |(number, method): (usize, &Method)| {
        let message =
            format!("`{}` scales the distances 1 − s, and this model of `{name}` has scores above 1", method.name());
        Problem::new(format!("methods.{number}"), message).hint("leave it out, or train with `aggregation = \"mean\"`")
    };
    refused.map(problem).collect()
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

/// Problem of a stage that applies a model to vectors of another width than those of its training. `widths` are that of the
/// vectors and that of the training.
pub(super) fn other_width(
    (from, input): (&TableRef, ImageInput),
    trained_on: &TableRef,
    [got, wanted]: [usize; 2],
) -> Option<Problem> {
    let message =
        format!("`{from}` has vectors of {got} values, and the model is trained on `{trained_on}` with {wanted}");
    let hint = "extract them with the network of the training";
    (got != wanted).then(|| Problem::new(input.name(), message).hint(hint))
}

/// Use of a model by a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ModelUse {
    /// Vectors of images and captions.
    Embed,
    /// Scores of pairs.
    Score,
    /// Attention between words and regions.
    Attend,
}

/// Problems of a stage that applies a model of the family `name` to images of a kind, which the model does not support.
pub(super) fn unfit_model(
    applied: ModelUse,
    images: Option<ImageInput>,
    (name, capabilities): (&str, &Capabilities),
) -> Vec<Problem> {
    let mut problems = Vec::new();
    if applied == ModelUse::Embed && capabilities.similarity.is_none() {
        let message =
            format!("a model of `{name}` has no vector of an image and of a caption that its score follows from");
        problems.push(Problem::new("model", message).hint("`score_pairs`, and `evaluate` with its `scores`"));
    }
    if applied == ModelUse::Attend && !capabilities.word_attention {
        let message = format!("a model of `{name}` has no attention between words and regions");
        problems.push(Problem::new("model", message).hint("models of `scan` and `sgraf` have one"));
    }
    if let Some(got) = images.filter(|&got| got != capabilities.image_input) {
        let (got, wanted) = (got.name(), capabilities.image_input.name());
        let message = format!("a model of `{name}` reads `{wanted}` of images");
        problems.push(Problem::new(got, message).hint(format!("set `{wanted}` in place of `{got}`")));
    }
    problems
}

/// Problem of a report of NCS whose evaluations do not measure it. `evaluate_of` finds the stage that writes a table.
pub(super) fn missing_ncs<'s>(
    report: &'s Report,
    evaluate_of: &dyn Fn(&TableRef) -> Option<&'s Evaluate>,
) -> Option<Problem> {
    let relevances_of = |metrics: &TableRef| {
        let graded = evaluate_of(metrics)?.relevance.iter().filter(|relevance| relevance.similarity.is_some());
        Some(graded.map(|relevance| relevance.name.as_str()).collect())
    };
    report.sweep.as_ref()?.check_ncs(&relevances_of)
}

/// Problems of a report beside printed rows that are not there. `ingest_of` finds the stage that writes a table.
pub(super) fn missing_printed<'s>(
    report: &'s Report,
    ingest_of: &dyn Fn(&TableRef) -> Option<&'s Ingest>,
) -> Vec<Problem> {
    let Some(sweep) = &report.sweep else { return Vec::new() };
    let names = sweep.published.as_ref().and_then(|from| ingest_of(from)?.printed_names());
    names.map_or_else(Vec::new, |names| sweep.check_printed(&names))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pairloom_spec::family::ModelSettings;

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

    #[test]
    fn a_model_has_what_a_stage_needs() {
        let problems = |settings: &str, applied, images| -> Vec<String> {
            let model: ModelSettings = toml::from_str(settings).expect("settings of a model");
            let found = unfit_model(applied, images, (model.name(), &model.capabilities())).into_iter();
            found.map(|problem| format!("{}: {}", problem.setting, problem.message)).collect()
        };
        let (regions, features) = (Some(ImageInput::Regions), Some(ImageInput::Features));
        for (model, attends, embeds) in [
            ("scan = {}", true, false),
            ("sgraf = {}", true, false),
            ("sgraf = { module = \"saf\" }", true, false),
            ("vsrn = {}", false, true),
            ("cvse = {}", false, true),
            ("vse_infinity = {}", false, true),
        ] {
            assert_eq!(problems(model, ModelUse::Attend, regions).is_empty(), attends, "{model}");
            assert_eq!(problems(model, ModelUse::Embed, regions).is_empty(), embeds, "{model}");
            assert_eq!(problems(model, ModelUse::Score, regions), [""; 0]);
            let wanted =
                format!("features: a model of `{}` reads `regions` of images", &model[..model.find(' ').unwrap_or(0)]);
            assert_eq!(problems(model, ModelUse::Score, features), [wanted]);
        }
        assert_eq!(problems("vse = {}", ModelUse::Embed, features), [""; 0]);
        assert_eq!(
            problems("vsrn = {}", ModelUse::Attend, regions),
            ["model: a model of `vsrn` has no attention between words and regions"]
        );
    }

    /// Problems of a report on `test@row=1` and `test@row=2`, whose evaluations have these relevances with φ.
    fn ncs_problem(sweep: &str, relevances: [&[&str]; 2]) -> Option<String> {
        let tables = |table: &str| format!("[\"test@row=1.{table}\", \"test@row=2.{table}\"]");
        let report = format!(
            "title = \"x\"\n[sweep]\nsummaries = {}\nmetrics = {}\n{sweep}",
            tables("summary"),
            tables("metrics")
        );
        let report: Report = toml::from_str(&report).expect("a report");
        let evaluates: [Evaluate; 2] = relevances.map(|names| {
            let sources = names.iter().map(|name| format!("{{ name = \"{name}\", similarity = \"phi.{name}\" }}"));
            let rated = "{ name = \"cxc\", ratings = \"people.ratings\", at_least = 3.0 }".to_owned();
            let sources: Vec<String> = sources.chain([rated]).collect();
            toml::from_str(&format!("dataset = \"x\"\nrelevance = [{}]", sources.join(", "))).expect("an evaluation")
        });
        let evaluate_of = |from: &TableRef| match from.stage() {
            "test@row=1" => Some(&evaluates[0]),
            "test@row=2" => Some(&evaluates[1]),
            _ => None,
        };
        missing_ncs(&report, &evaluate_of).map(|problem| format!("{}: {}", problem.setting, problem.message))
    }

    #[test]
    fn the_ncs_of_a_report_is_measured() {
        let (one, two): (&[&str], &[&str]) = (&["spice"], &["spice", "cider"]);
        let problem = |text: &str| Some(text.to_owned());
        assert_eq!(ncs_problem("", [one, one]), None);
        assert_eq!(ncs_problem("relevance = \"cider\"", [two, two]), None);
        assert_eq!(ncs_problem("relevance = \"cider\"", [two, &["cider"]]), None);
        assert_eq!(
            ncs_problem("relevance = \"cider\"", [two, one]),
            problem("sweep.relevance: `test@row=2.metrics` has no NCS by `cider`; it has NCS by `spice`")
        );
        assert_eq!(
            ncs_problem("", [two, two]),
            problem("sweep.relevance: `test@row=1.metrics` has NCS by `spice`, `cider`, wanted one")
        );
        assert_eq!(ncs_problem("", [&[], one]), None);
        assert_eq!(ncs_problem("", [one, &[]]), problem("sweep.metrics: `test@row=2.metrics` has no NCS"));
        assert_eq!(
            ncs_problem("", [one, &["cider"]]),
            problem("sweep.relevance: `test@row=2.metrics` has no NCS by `spice`; it has NCS by `cider`")
        );
    }

    /// Problems of a report beside `data/published/hal-2020.tsv`, of a sweep with these rows.
    fn printed_problems(paper: &str, rows: &[&str]) -> Vec<String> {
        let summaries: Vec<String> = rows.iter().map(|row| format!("\"test@row={row}.summary\"")).collect();
        let report = format!(
            "title = \"x\"\n[sweep]\nsummaries = [{}]\npublished = \"printed.published\"\npaper = \"{paper}\"\n\
             table = [\"2\"]",
            summaries.join(", ")
        );
        let report: Report = toml::from_str(&report).expect("a report");
        let file = test_data::root().join("data/published/hal-2020.tsv");
        let ingest: Ingest = toml::from_str(&format!("published = \"{}\"", file.display())).expect("an ingest");
        let ingest_of = |from: &TableRef| (from.stage() == "printed").then_some(&ingest);
        let problems = missing_printed(&report, &ingest_of).into_iter();
        problems
            .map(|problem| format!("{}: {} / {}", problem.setting, problem.message, problem.hint.unwrap_or_default()))
            .collect()
    }

    #[test]
    fn printed_rows_are_there() {
        assert_eq!(printed_problems("hal-2020", &["2.9", "2.12", "2.12-code", "own"]), [""; 0]);
        assert_eq!(
            printed_problems("hal-2021", &["2.9"]),
            ["sweep.paper: `printed.published` has no paper `hal-2021` / it has `hal-2020` with table 1, 2"]
        );
        let found = printed_problems("hal-2020", &["2.9", "2.99"]);
        assert_eq!(found.len(), 1, "{found:#?}");
        let wanted =
            "sweep.published: row `2.99` of the sweep is not printed in table 2 of `hal-2020` / its rows are `2.1`, ";
        assert!(found[0].starts_with(wanted), "{found:#?}");
        // A number beside a data set is a printed row of this data, and beside another axis any name.
        let rows = ["2.9,data=coco", "2.9,data=f30k", "2.99,data=coco", "2.99,size=64"];
        let found = printed_problems("hal-2020", &rows);
        assert!(found.len() == 1 && found[0].contains("row `2.99, coco` of the sweep is not printed"), "{found:#?}");
    }

    /// Rows of one's own, and values of a numeric axis, which are no names of printed rows.
    #[test]
    fn a_sweep_without_printed_rows_is_told_once() {
        for (rows, own) in [(&["mine", "theirs"], "`mine`, `theirs`"), (&["1", "2"], "`1`, `2`")] {
            let found = printed_problems("hal-2020", rows);
            let wanted = format!(
                "sweep.published: no row of the sweep is printed in table 2 of `hal-2020`; the sweep has {own} / name rows as \
                 the paper does: `2.1`, "
            );
            assert!(found.len() == 1 && found[0].starts_with(&wanted), "{found:#?}");
        }
    }
}
