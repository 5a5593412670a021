//! φ as SPICE: captions to scene graphs, graphs to tuples, tuples to φ.

use std::collections::HashMap;

use arrow::array::{Float64Array, Int64Array, StringArray};

use super::corpus::{self, Corpus};
use super::rows::{self, Label, Rows};
use super::settings::{CAPTION_PART_ROWS, Compare, SCORE_PART_ROWS, SpiceSettings};
use crate::error::{Error, Result, TruncatedList};
use crate::kernels::text::spice::{SceneGraph, Scores, Spice, SpiceBuilder};
use crate::kernels::text::tokens::Tokenizer;
use crate::language::lexicon::Lexicon;
use crate::language::scene_graph;
use crate::stage::Cx;
use crate::tables::scene_graphs::{Texts, Tuples};
use crate::tables::{self, Optional, repeated};

/// How the parser cuts captions.
const TOKENIZER: Tokenizer = Tokenizer::Treebank;

/// Reads captions, parses them or reads their graphs, and writes φ of the pairs that the form asks for.
pub(super) fn run(stage: &Compare, settings: &SpiceSettings, cx: &mut Cx<'_>) -> Result<()> {
    let [corpus] = corpus::read(cx, [&stage.split])?;
    let rows = stage.rows(cx, &corpus)?;
    let unfinished = settings.unfinished;
    let (graphs, tokenizer) = if settings.graphs.is_some() {
        read_graphs(cx, &corpus, &unfinished.parser())?
    } else {
        let graphs = corpus.map_texts(cx.threads(), |text| scene_graph::parse_as(text, unfinished));
        write_graphs(cx, stage, &corpus, &graphs, &unfinished.parser())?;
        (graphs, TOKENIZER.name().to_owned())
    };
    let Some(rows) = rows else { return Ok(()) };
    let empty = graphs.iter().filter(|graph| graph.is_empty()).count();
    if empty > 0 {
        let message = format!("{empty} of {} captions name no object: φ is 0 with every image for them", graphs.len());
        cx.warn(format!("captions of split `{}`", stage.split), message);
    }
    let spice = spice(&corpus, &graphs);
    if let Rows::Pairs(pairs) = &rows {
        write_scores(cx, &corpus, &spice, pairs, &tokenizer)?;
    }
    rows::write(cx, &corpus, &spice, &rows, Label { measure: stage.measure.name(), tokenizer: &tokenizer })
}

fn spice(corpus: &Corpus, graphs: &[SceneGraph]) -> Spice {
    let words = Lexicon::wordnet();
    let mut builder = SpiceBuilder::default();
    for graph in graphs {
        builder.push(graph, words);
    }
    let references: Vec<Vec<usize>> =
        corpus.first_caption.windows(2).map(|ends| (ends[0]..ends[1]).collect()).collect();
    builder.build(&references)
}

fn write_graphs(cx: &mut Cx<'_>, stage: &Compare, corpus: &Corpus, graphs: &[SceneGraph], parser: &str) -> Result<()> {
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
        let columns = tables::scene_graphs::Columns {
            caption_id: corpus.caption_ids[range.clone()].to_vec().into(),
            image_id: Int64Array::from_iter_values(range.map(|caption| corpus.image_ids[image_of[caption]])),
            split: repeated(&stage.split, part.len()),
            objects: Texts::new(lengths(|graph| graph.objects.len()), objects)?,
            attributes: Tuples::new(
                lengths(|graph| graph.attributes.len()),
                [attribute(|(object, _)| object), attribute(|(_, attribute)| attribute)],
            )?,
            relations: Tuples::new(
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

/// The graphs of the captions of `corpus`, in its order, and the tokeniser that they name.
///
/// # Errors
/// A caption without a graph, or graphs of another parser than this program's, whose φ would not compare.
fn read_graphs(cx: &mut Cx<'_>, corpus: &Corpus, wanted: &str) -> Result<(Vec<SceneGraph>, String)> {
    const INPUT: &str = "measure.spice.graphs";
    let places: HashMap<i64, usize> = corpus.caption_ids.iter().enumerate().map(|(place, &id)| (id, place)).collect();
    let mut graphs: Vec<Option<SceneGraph>> = vec![None; corpus.caption_ids.len()];
    let mut tokenizer = TOKENIZER.name().to_owned();
    while let Some(batch) = cx.next(INPUT)? {
        let ids = tables::ids(&batch, "caption_id")?;
        let (parsers, tokenizers) = (tables::texts(&batch, "parser")?, tables::texts(&batch, "tokenizer")?);
        let rows = tables::scene_graphs::rows(&batch)?;
        for (row, graph) in rows.into_iter().enumerate() {
            let Some(&place) = places.get(&ids.value(row)) else { continue };
            if parsers.value(row) != wanted {
                let got = parsers.value(row);
                return Err(Error::data(format!(
                    "caption_id {} has a graph of `{got}`, wanted `{wanted}`",
                    ids.value(row)
                ))
                .hint("compare with graphs of one parser: leave `graphs` out, and captions are parsed here"));
            }
            tokenizers.value(row).clone_into(&mut tokenizer);
            let mut read = SceneGraph::default();
            graph.objects.iter().for_each(|object| read.object(object));
            graph.attributes.iter().for_each(|[object, attribute]| read.attribute(object, attribute));
            graph.relations.iter().for_each(|[subject, relation, object]| read.relation(subject, relation, object));
            graphs[place] = Some(read.unique());
        }
    }
    let missing = graphs.iter().zip(&corpus.caption_ids).filter(|(graph, _)| graph.is_none());
    let missing: TruncatedList = missing.map(|(_, id)| id).collect();
    if !missing.is_empty() {
        let (n, shown) = (missing.len(), missing.join(", "));
        return Err(Error::data(format!("{n} captions have no scene graph: caption_id {shown}"))
            .hint("the graphs must be of the split that is compared"));
    }
    Ok((graphs.into_iter().flatten().collect(), tokenizer))
}

fn write_scores(
    cx: &mut Cx<'_>,
    corpus: &Corpus,
    spice: &Spice,
    pairs: &[(usize, Vec<usize>)],
    tokenizer: &str,
) -> Result<()> {
    let pairs: Vec<(usize, usize)> =
        pairs.iter().flat_map(|(image, captions)| captions.iter().map(|&caption| (*image, caption))).collect();
    for part in pairs.chunks(SCORE_PART_ROWS) {
        cx.proceed()?;
        let scores: Vec<Scores> = part.iter().map(|&(image, caption)| spice.scores(image, caption)).collect();
        let known = |get: fn(&Scores) -> f64| Float64Array::from_iter_values(scores.iter().map(get));
        let part_of = |get: fn(&Scores) -> Option<f64>| Optional(scores.iter().map(get).collect());
        let columns = tables::spice_scores::Columns {
            image_id: Int64Array::from_iter_values(part.iter().map(|&(image, _)| corpus.image_ids[image])),
            caption_id: Int64Array::from_iter_values(part.iter().map(|&(_, caption)| corpus.caption_ids[caption])),
            f: known(|s| s.f),
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
