//! φ as SPICE: captions → scene graphs → tuples → φ.

use std::collections::HashMap;

use arrow::array::{Float64Array, Int64Array, StringArray};

use super::{
    CAPTION_PART_ROWS, MeasureInfo, SCORE_PART_ROWS, ScoreCaptions, SelectedPairs, SpiceSettings, SplitCaptions,
    read_splits, write_similarities,
};
use pairloom_base::error::{Error, Result, TruncatedList};
use pairloom_base::runtime::CancelToken;
use pairloom_kernels::text::spice::{SceneGraph, Spice, SpiceBuilder, SpiceScores};
use pairloom_kernels::text::tokenizer::Tokenizer;
use pairloom_language::lexicon::Lexicon;
use pairloom_language::scene_graph;
use pairloom_language::tagger::count_known_words;
use pairloom_stage::StageContext;
use pairloom_tables::scene_graphs::{TextListColumn, TupleListColumn};
use pairloom_tables::{self as tables, Nullable, repeated};

/// Tokeniser of the parser.
const TOKENIZER: Tokenizer = Tokenizer::Treebank;

/// Reads captions, parses them or reads their graphs, and writes φ of the selected pairs.
pub(super) fn run(stage: &ScoreCaptions, settings: &SpiceSettings, cx: &mut StageContext<'_>) -> Result<()> {
    let [corpus] = read_splits(cx, [&stage.split])?;
    let rows = stage.selected_pairs(cx, &corpus)?;
    let missing_period = settings.missing_period;
    let (graphs, tokenizer) = if settings.graphs.is_some() {
        read_graphs(cx, &corpus, &missing_period.parser_name())?
    } else {
        let graphs = corpus.parallel_map(cx.resources(), |text| scene_graph::parse_as(text, missing_period))?;
        warn_of_unknown_words(cx, stage, &corpus)?;
        write_graphs(cx, stage, &corpus, &graphs, &missing_period.parser_name())?;
        (graphs, TOKENIZER.name().to_owned())
    };
    let Some(rows) = rows else { return Ok(()) };
    let empty = graphs.iter().filter(|graph| graph.is_empty()).count();
    if empty > 0 {
        let message =
            format!("{empty} of {} captions contain no object, so their φ is 0 with every image", graphs.len());
        cx.warn(format!("captions of split `{}`", stage.split), message);
    }
    let spice = build_spice(&corpus, &graphs, cx.cancel())?;
    if let SelectedPairs::Pairs(pairs) = &rows {
        write_scores(cx, &corpus, &spice, pairs, &tokenizer)?;
    }
    write_similarities(cx, &corpus, &spice, &rows, MeasureInfo { measure: stage.measure.name(), tokenizer: &tokenizer })
}

/// Minimum share of known words of captions in the language of the dictionary.
const MIN_KNOWN_SHARE: f64 = 0.75;

/// Warns if few words are in the dictionary of the parser, as in captions of another language than English.
#[expect(clippy::cast_precision_loss, reason = "a share for a threshold and a message")]
fn warn_of_unknown_words(cx: &mut StageContext<'_>, stage: &ScoreCaptions, corpus: &SplitCaptions) -> Result<()> {
    let counted = corpus
        .parallel_map(cx.resources(), |text| count_known_words(Lexicon::wordnet(), &TOKENIZER.tokenize(text, true)))?;
    let (words, known) = counted.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let share = known as f64 / words.max(1) as f64;
    if words > 0 && share < MIN_KNOWN_SHARE {
        let message = format!(
            "the dictionary of the parser, English WordNet, has {known} of {words} words ({:.0} %): φ of captions in \
             another language has no meaning; CIDEr-D needs no dictionary",
            100.0 * share
        );
        cx.warn(format!("captions of split `{}`", stage.split), message);
    }
    Ok(())
}

fn build_spice(corpus: &SplitCaptions, graphs: &[SceneGraph], cancel: &CancelToken) -> Result<Spice> {
    let words = Lexicon::wordnet();
    let mut builder = SpiceBuilder::default();
    for graph in graphs {
        cancel.check()?;
        builder.push(graph, words);
    }
    let references: Vec<Vec<usize>> =
        corpus.first_caption.windows(2).map(|ends| (ends[0]..ends[1]).collect()).collect();
    cancel.check()?;
    Ok(builder.build(&references))
}

fn write_graphs(
    cx: &mut StageContext<'_>,
    stage: &ScoreCaptions,
    corpus: &SplitCaptions,
    graphs: &[SceneGraph],
    parser: &str,
) -> Result<()> {
    let image_of = corpus.image_of();
    for start in (0..graphs.len()).step_by(CAPTION_PART_ROWS) {
        let range = start..graphs.len().min(start + CAPTION_PART_ROWS);
        let part = &graphs[range.clone()];
        let lengths = |length: fn(&SceneGraph) -> usize| part.iter().map(length);
        let objects = part.iter().flat_map(|graph| &graph.objects).map(String::as_str);
        let attribute = |get: fn(&(String, String)) -> &str| {
            StringArray::from(part.iter().flat_map(|graph| &graph.attributes).map(get).collect::<Vec<_>>())
        };
        let relation = |get: fn(&(String, String, String)) -> &str| {
            StringArray::from(part.iter().flat_map(|graph| &graph.relations).map(get).collect::<Vec<_>>())
        };
        let columns = tables::scene_graphs::TableColumns {
            caption_id: corpus.caption_ids[range.clone()].to_vec().into(),
            image_id: Int64Array::from_iter_values(range.map(|caption| corpus.image_ids[image_of[caption]])),
            split: repeated(&stage.split, part.len()),
            objects: TextListColumn::new(lengths(|graph| graph.objects.len()), objects)?,
            attributes: TupleListColumn::new(
                lengths(|graph| graph.attributes.len()),
                [attribute(|(object, _)| object), attribute(|(_, attribute)| attribute)],
            )?,
            relations: TupleListColumn::new(
                lengths(|graph| graph.relations.len()),
                [
                    relation(|(subject, _, _)| subject),
                    relation(|(_, relation, _)| relation),
                    relation(|(_, _, object)| object),
                ],
            )?,
            parser: repeated(parser, part.len()),
            tokenizer: repeated(TOKENIZER.name(), part.len()),
        };
        cx.write("scene_graphs", columns.into_batch()?)?;
    }
    Ok(())
}

/// Reads the graphs of the captions of `corpus`, in its order, and the name of their tokeniser.
///
/// # Errors
/// A caption has no graph, or a graph is of another parser than `expected`: its φ would not be comparable.
fn read_graphs(cx: &mut StageContext<'_>, corpus: &SplitCaptions, expected: &str) -> Result<(Vec<SceneGraph>, String)> {
    const INPUT: &str = "measure.spice.graphs";
    let index_of: HashMap<i64, usize> = corpus.caption_ids.iter().enumerate().map(|(index, &id)| (id, index)).collect();
    let mut graphs: Vec<Option<SceneGraph>> = vec![None; corpus.caption_ids.len()];
    let mut tokenizer = TOKENIZER.name().to_owned();
    while let Some(batch) = cx.read_next(INPUT)? {
        let ids = tables::int_column(&batch, "caption_id")?;
        let (parsers, tokenizers) = (tables::text_column(&batch, "parser")?, tables::text_column(&batch, "tokenizer")?);
        let rows = tables::scene_graphs::rows(&batch)?;
        for (row, graph) in rows.into_iter().enumerate() {
            let Some(&index) = index_of.get(&ids.value(row)) else { continue };
            if parsers.value(row) != expected {
                let got = parsers.value(row);
                return Err(Error::data(format!(
                    "caption_id {} has a graph of `{got}`, expected `{expected}`",
                    ids.value(row)
                ))
                .hint(
                    "leave `graphs` out to parse the captions here; graphs of different parsers are not comparable",
                ));
            }
            tokenizers.value(row).clone_into(&mut tokenizer);
            let mut read = SceneGraph::default();
            graph.objects.iter().for_each(|object| read.add_object(object));
            graph.attributes.iter().for_each(|[object, attribute]| read.add_attribute(object, attribute));
            graph.relations.iter().for_each(|[subject, relation, object]| read.add_relation(subject, relation, object));
            graphs[index] = Some(read.deduplicated());
        }
    }
    let missing = graphs.iter().zip(&corpus.caption_ids).filter(|(graph, _)| graph.is_none());
    let missing: TruncatedList = missing.map(|(_, id)| id).collect();
    if !missing.is_empty() {
        let (n, shown) = (missing.len(), missing.join(", "));
        return Err(Error::data(format!("{n} captions have no scene graph: caption_id {shown}"))
            .hint("the graphs must be of the split that is scored"));
    }
    Ok((graphs.into_iter().flatten().collect(), tokenizer))
}

fn write_scores(
    cx: &mut StageContext<'_>,
    corpus: &SplitCaptions,
    spice: &Spice,
    pairs: &[(usize, Vec<usize>)],
    tokenizer: &str,
) -> Result<()> {
    let pairs: Vec<(usize, usize)> =
        pairs.iter().flat_map(|(image, captions)| captions.iter().map(|&caption| (*image, caption))).collect();
    for part in pairs.chunks(SCORE_PART_ROWS) {
        cx.check_cancelled()?;
        let scores: Vec<SpiceScores> = part.iter().map(|&(image, caption)| spice.scores(image, caption)).collect();
        let known = |get: fn(&SpiceScores) -> f64| Float64Array::from_iter_values(scores.iter().map(get));
        let part_of = |get: fn(&SpiceScores) -> Option<f64>| Nullable(scores.iter().map(get).collect());
        let columns = tables::spice_scores::TableColumns {
            image_id: Int64Array::from_iter_values(part.iter().map(|&(image, _)| corpus.image_ids[image])),
            caption_id: Int64Array::from_iter_values(part.iter().map(|&(_, caption)| corpus.caption_ids[caption])),
            f: known(|s| s.f_score),
            precision: known(|s| s.precision),
            recall: known(|s| s.recall),
            object: part_of(|s| s.object),
            attribute: part_of(|s| s.attribute),
            relation: part_of(|s| s.relation),
            color: part_of(|s| s.color),
            count: part_of(|s| s.count),
            size: part_of(|s| s.size),
            tokenizer: repeated(tokenizer, part.len()),
        };
        cx.write("spice_scores", columns.into_batch()?)?;
    }
    Ok(())
}
