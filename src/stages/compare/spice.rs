//! φ as SPICE: captions to scene graphs, graphs to tuples, tuples to φ.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray, StructArray};
use arrow::datatypes::{DataType, Field};

use super::corpus::{self, Corpus};
use super::rows::{self, Label, Rows};
use super::settings::{CAPTION_PART_ROWS, Compare, SCORE_PART_ROWS, SpiceSettings};
use crate::error::{Error, Result};
use crate::kernels::text::spice::{SceneGraph, Scores, Spice, SpiceBuilder};
use crate::kernels::text::tokens::Tokenizer;
use crate::language::lexicon::Lexicon;
use crate::language::scene_graph::{self, Unfinished};
use crate::stage::Cx;
use crate::tables;

/// How the parser cuts captions.
const TOKENIZER: Tokenizer = Tokenizer::Treebank;

/// Reads captions, parses them or reads their graphs, and writes φ of the pairs that the form asks for.
pub(super) fn run(stage: &Compare, settings: &SpiceSettings, cx: &mut Cx<'_>) -> Result<()> {
    let [corpus] = corpus::read(cx, [&stage.split])?;
    let rows = stage.rows(cx, &corpus)?;
    let unfinished = Unfinished::from(settings.unfinished);
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
    let schema = tables::scene_graphs::table().schema();
    let image_of = corpus.image_of();
    for start in (0..graphs.len()).step_by(CAPTION_PART_ROWS) {
        let range = start..graphs.len().min(start + CAPTION_PART_ROWS);
        let part = &graphs[range.clone()];
        let text = |values: Vec<&str>| Arc::new(StringArray::from(values)) as ArrayRef;
        let tuples = |name: &str, columns: Vec<(&str, Vec<&str>)>, lengths: Vec<usize>| {
            let field = |name: &str| Arc::new(Field::new(name, DataType::Utf8, false));
            let columns: Vec<_> = columns.into_iter().map(|(name, values)| (field(name), text(values))).collect();
            tables::list(&schema, name, lengths, Arc::new(StructArray::from(columns)))
        };
        let objects = text(part.iter().flat_map(|graph| &graph.objects).map(String::as_str).collect());
        let objects = tables::list(&schema, "objects", part.iter().map(|graph| graph.objects.len()), objects)?;
        let attributes = || part.iter().flat_map(|graph| &graph.attributes);
        let attributes = tuples(
            "attributes",
            vec![
                ("object", attributes().map(|(object, _)| object.as_str()).collect()),
                ("attribute", attributes().map(|(_, attribute)| attribute.as_str()).collect()),
            ],
            part.iter().map(|graph| graph.attributes.len()).collect(),
        )?;
        let relations = || part.iter().flat_map(|graph| &graph.relations);
        let relations = tuples(
            "relations",
            vec![
                ("subject", relations().map(|(subject, _, _)| subject.as_str()).collect()),
                ("relation", relations().map(|(_, relation, _)| relation.as_str()).collect()),
                ("object", relations().map(|(_, _, object)| object.as_str()).collect()),
            ],
            part.iter().map(|graph| graph.relations.len()).collect(),
        )?;
        let repeat = |text: &str| Arc::new(StringArray::from(vec![text; part.len()])) as ArrayRef;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(corpus.caption_ids[range.clone()].to_vec())),
            Arc::new(Int64Array::from_iter_values(range.map(|caption| corpus.image_ids[image_of[caption]]))),
            repeat(&stage.split),
            objects,
            attributes,
            relations,
            repeat(parser),
            repeat(TOKENIZER.name()),
        ];
        cx.write("scene_graphs", tables::batch(&schema, columns)?)?;
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
    cx.rewind(INPUT)?;
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
    let missing: Vec<String> = missing.map(|(_, id)| id.to_string()).collect();
    if !missing.is_empty() {
        let shown = missing.iter().take(20).cloned().collect::<Vec<_>>().join(", ");
        return Err(Error::data(format!("{} captions have no scene graph: caption_id {shown}", missing.len()))
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
    let schema = tables::spice_scores::table().schema();
    let pairs: Vec<(usize, usize)> =
        pairs.iter().flat_map(|(image, captions)| captions.iter().map(|&caption| (*image, caption))).collect();
    for part in pairs.chunks(SCORE_PART_ROWS) {
        cx.proceed()?;
        let scores: Vec<Scores> = part.iter().map(|&(image, caption)| spice.scores(image, caption)).collect();
        let known =
            |get: fn(&Scores) -> f64| Arc::new(Float64Array::from_iter_values(scores.iter().map(get))) as ArrayRef;
        let part_of =
            |get: fn(&Scores) -> Option<f64>| Arc::new(scores.iter().map(get).collect::<Float64Array>()) as ArrayRef;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(part.iter().map(|&(image, _)| corpus.image_ids[image]))),
            Arc::new(Int64Array::from_iter_values(part.iter().map(|&(_, caption)| corpus.caption_ids[caption]))),
            known(|s| s.f),
            known(|s| s.precision),
            known(|s| s.recall),
            part_of(|s| s.object),
            part_of(|s| s.attribute),
            part_of(|s| s.relation),
            part_of(|s| s.color),
            part_of(|s| s.count),
            part_of(|s| s.size),
            Arc::new(StringArray::from(vec![tokenizer; part.len()])),
        ];
        cx.write("spice_scores", tables::batch(&schema, columns)?)?;
    }
    Ok(())
}
