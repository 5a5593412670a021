//! Stages whose settings disagree with those of the stages before them: found by the check, before anything runs.

use crate::AnyStage;
use pairloom_stage::{KnownFacts, Stage as _};

/// Images and captions of a stage that reads regions.
const REGIONS: &str = "regions = \"x.regions\"\ncaptions = \"x.captions\"";
/// Images and captions of a stage that reads features.
const FEATURES: &str = "features = \"x.features\"\ncaptions = \"x.captions\"";

fn read(text: &str) -> AnyStage {
    toml::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Problems of the inputs of `stage`, after the stages `before` with their names.
fn problems(before: &[(&str, &str)], stage: &str) -> Vec<String> {
    let mut known = KnownFacts::default();
    for (name, stage) in before {
        known.add(name, &read(stage));
    }
    let found = read(stage).check_inputs(&known).into_iter();
    found.map(|problem| format!("{}: {}", problem.setting, problem.message)).collect()
}

fn train(settings: &str) -> String {
    format!("[train]\nepochs = 1\n{settings}")
}

/// A stage that applies the model `fit.model`.
fn applied(kind: &str, data: &str) -> String {
    format!("[{kind}]\nmodel = \"fit.model\"\n{data}")
}

#[test]
fn a_model_has_what_a_stage_needs() {
    for (model, attends, embeds) in [
        ("scan = {}", true, false),
        ("sgraf = {}", true, false),
        ("sgraf = { module = \"saf\" }", true, false),
        ("vsrn = {}", false, true),
        ("cvse = {}", false, true),
        ("vse_infinity = {}", false, true),
    ] {
        let fit = train(&format!("{REGIONS}\nmodel = {{ {model} }}"));
        let found = |kind: &str, data: &str| problems(&[("fit", &fit)], &applied(kind, data));
        assert_eq!(found("compute_attention", REGIONS).is_empty(), attends, "{model}");
        assert_eq!(found("embed", REGIONS).is_empty(), embeds, "{model}");
        assert_eq!(found("score_pairs", REGIONS), [""; 0]);
        let family = &model[..model.find(' ').unwrap_or(0)];
        let expected = format!("features: a model of `{family}` reads `regions` of images");
        assert_eq!(found("score_pairs", FEATURES), [expected]);
    }
    let vse = train(FEATURES);
    assert_eq!(problems(&[("fit", &vse)], &applied("embed", FEATURES)), [""; 0]);
    let scan = train(&format!("{REGIONS}\nmodel = {{ scan = {{}} }}"));
    assert_eq!(
        problems(&[("fit", &scan)], &applied("embed", REGIONS)),
        ["model: a model of `scan` has no vector of an image and of a caption that its score follows from"]
    );
    // Nothing is known of a model of another stage.
    assert_eq!(problems(&[("other", &scan)], &applied("embed", REGIONS)), [""; 0]);
}

#[test]
fn an_imported_model_is_checked_by_its_family() {
    let import = "[import_model]\nweights = \"w\"\nvocabulary = \"v\"\nmodel = { vsrn = {} }";
    assert_eq!(
        problems(&[("fit", import)], &applied("compute_attention", REGIONS)),
        ["model: a model of `vsrn` has no attention between words and regions"]
    );
    assert_eq!(problems(&[("fit", import)], &applied("embed", REGIONS)), [""; 0]);
    let scan = train(&format!("{REGIONS}\nmodel = {{ scan = {{}} }}"));
    let tune = scan.replace("epochs", "init_from = \"fit.model\"\nepochs");
    assert_eq!(problems(&[("fit", &scan)], &tune), [""; 0]);
    let expected = "expected one of `scan`, which is trained here";
    assert_eq!(problems(&[("fit", import)], &tune), [format!("init_from: got a model of `vsrn`, {expected}")]);
}

/// A network has vectors of one width, so vectors of another network are found before the training.
#[test]
fn vectors_of_another_width_are_found() {
    let extract = |network: &str| {
        format!("[extract]\nimages = \"x.images\"\nnetwork = \"{network}\"\nweights = \"random\"\npooling.grid = 3")
    };
    let (squeezenet, resnet) = (extract("squeezenet1_0"), extract("resnet50"));
    let images = |from: &str| format!("regions = \"{from}.regions\"\ncaptions = \"x.captions\"\n");
    let fit = train(&format!("{}model = {{ scan = {{}} }}", images("small")));
    let before = [("small", &*squeezenet), ("large", &resnet), ("fit", &fit)];
    let found = |from: &str| problems(&before, &applied("score_pairs", &images(from)));
    assert_eq!(found("small"), [""; 0]);
    let message = "`large.regions` has vectors of 2048 values, and the model is trained on `small.regions` with 512";
    assert_eq!(found("large"), [format!("regions: {message}")]);
}

/// Scores of `mean` and `max` are at most 1, those of `sum` and `log_sum_exp` are not.
#[test]
fn methods_on_distances_are_refused_for_scores_above_one() {
    let scoring = applied("score_pairs", REGIONS);
    let evaluate = "[evaluate]\ndataset = \"x\"\nscores = \"pairwise.scores\"\ncaptions = \"pairwise.scored_captions\"\n\
                    methods = [{ nns = {} }, { local_scaling = {} }, { csls = {} }, { nicdm = {} }]";
    let found = |aggregation: &str| {
        let fit = train(&format!("{REGIONS}\nmodel.scan.aggregation = \"{aggregation}\""));
        problems(&[("fit", &fit), ("pairwise", &scoring)], evaluate)
    };
    for aggregation in ["mean", "max"] {
        assert_eq!(found(aggregation), [""; 0]);
    }
    let why = "scales the distances 1 − s, and this model of `scan` has scores above 1";
    for aggregation in ["sum", "log_sum_exp"] {
        let expected = [format!("methods.1: `local_scaling` {why}"), format!("methods.3: `nicdm` {why}")];
        assert_eq!(found(aggregation), expected);
    }
}

#[test]
fn an_evaluation_agrees_with_its_training() {
    let found = |model: &str, embed: &str, evaluate: &str| {
        let fit = train(&format!("{FEATURES}\n{model}"));
        let own = applied("embed", &format!("{FEATURES}\n{embed}"));
        let others = own.replace("fit", "other");
        let before = [("fit", &*fit), ("other", &fit), ("own", &own), ("others", &others)];
        problems(&before, &format!("[evaluate]\ndataset = \"x\"\n{evaluate}"))
    };
    let own = "images = \"own.image_embeddings\"\ncaptions = \"own.caption_embeddings\"\n";
    let order = "model.vse.similarity.order.form = \"norm\"";
    assert_eq!(found("", "", own), [""; 0]);
    assert_eq!(found(order, "", &format!("{own}similarity.order.form = \"norm\"")), [""; 0]);
    assert_eq!(found(order, "", own), ["similarity: got \"cosine\", but `fit.model` was trained with \"order\""]);
    assert_eq!(
        found("", "splits = [\"val\", \"train\"]", own),
        ["split: got `test`, but `images` has the splits `val`, `train` alone"]
    );
    let mixed = own.replace("own.caption", "others.caption");
    assert_eq!(found("", "", &mixed), ["captions: embedded by `other.model`, but `images` by `fit.model`"]);
}

/// The similarity of a published model is in its file, so that of default settings tells nothing.
#[test]
fn an_imported_model_can_have_any_similarity() {
    let import = "[import_model]\nweights = \"w\"\nvocabulary = \"v\"";
    let embed = applied("embed", FEATURES);
    let evaluate = "[evaluate]\ndataset = \"x\"\nimages = \"own.image_embeddings\"\n\
                    captions = \"own.caption_embeddings\"\nsimilarity.order.form = \"norm\"";
    assert_eq!(problems(&[("fit", import), ("own", &embed)], evaluate), [""; 0]);
}

/// Problems of a report on `test@row=1` and `test@row=2`, whose evaluations have these relevances with φ.
fn ncs_problems(sweep: &str, relevances: [&[&str]; 2]) -> Vec<String> {
    let tables = |table: &str| format!("[\"test@row=1.{table}\", \"test@row=2.{table}\"]");
    let (summaries, metrics) = (tables("summary"), tables("metrics"));
    let report =
        format!("[report]\ntitle = \"x\"\n[report.sweep]\nsummaries = {summaries}\nmetrics = {metrics}\n{sweep}");
    let [one, two] = relevances.map(|names| {
        let sources = names.iter().map(|name| format!("{{ name = \"{name}\", similarity = \"phi.{name}\" }}"));
        let rated = "{ name = \"cxc\", ratings = \"people.ratings\", at_least = 3.0 }".to_owned();
        let sources: Vec<String> = sources.chain([rated]).collect();
        format!("[evaluate]\ndataset = \"x\"\nrelevance = [{}]", sources.join(", "))
    });
    problems(&[("test@row=1", &one), ("test@row=2", &two)], &report)
}

#[test]
fn the_ncs_of_a_report_is_measured() {
    let (one, two): (&[&str], &[&str]) = (&["spice"], &["spice", "cider"]);
    assert_eq!(ncs_problems("", [one, one]), [""; 0]);
    assert_eq!(ncs_problems("relevance = \"cider\"", [two, two]), [""; 0]);
    assert_eq!(ncs_problems("relevance = \"cider\"", [two, &["cider"]]), [""; 0]);
    assert_eq!(
        ncs_problems("relevance = \"cider\"", [two, one]),
        ["sweep.relevance: `test@row=2.metrics` has no NCS by `cider`; it has NCS by `spice`"]
    );
    assert_eq!(
        ncs_problems("", [two, two]),
        ["sweep.relevance: `test@row=1.metrics` has NCS by `spice`, `cider`, expected one"]
    );
    assert_eq!(ncs_problems("", [&[], one]), [""; 0]);
    assert_eq!(ncs_problems("", [one, &[]]), ["sweep.metrics: `test@row=2.metrics` has no NCS"]);
    assert_eq!(
        ncs_problems("", [one, &["cider"]]),
        ["sweep.relevance: `test@row=2.metrics` has no NCS by `spice`; it has NCS by `cider`"]
    );
}

/// Problems, and their hints, of a report beside `data/published/hal-2020.tsv`, of a sweep with these rows.
fn printed_problems(paper: &str, rows: &[&str]) -> Vec<String> {
    let summaries: Vec<String> = rows.iter().map(|row| format!("\"test@row={row}.summary\"")).collect();
    let report = read(&format!(
        "[report]\ntitle = \"x\"\n[report.sweep]\nsummaries = [{}]\npublished = \"printed.published\"\n\
         paper = \"{paper}\"\ntable = [\"2\"]",
        summaries.join(", ")
    ));
    let file = test_data::root().join("data/published/hal-2020.tsv");
    let mut known = KnownFacts::default();
    known.add("printed", &read(&format!("[ingest]\npublished = \"{}\"", file.display())));
    let found = report.check_inputs(&known).into_iter();
    found
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
    let expected =
        "sweep.published: row `2.99` of the sweep is not printed in table 2 of `hal-2020` / its rows are `2.1`, ";
    assert!(found[0].starts_with(expected), "{found:#?}");
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
        let expected = format!(
            "sweep.published: no row of the sweep is printed in table 2 of `hal-2020`; the sweep has {own} / name rows as \
             the paper does: `2.1`, "
        );
        assert!(found.len() == 1 && found[0].starts_with(&expected), "{found:#?}");
    }
}
