//! Tests of SPICE: F-scores against values calculated by hand, and the methods of a similarity against each other.

use super::*;

/// Dictionary in which `couch` and `sofa` are synonyms, and `sofa` and `seat`, but not `couch` and `seat`.
struct ToyDictionary;

impl SpiceDictionary for ToyDictionary {
    fn synsets(&self, element: &str) -> Vec<u32> {
        match element {
            "couch" => vec![1],
            "sofa" => vec![1, 2],
            "seat" => vec![2],
            _ => Vec::new(),
        }
    }

    fn is_color(&self, attribute: &str) -> bool {
        ["red", "blue"].contains(&attribute)
    }

    fn is_count(&self, attribute: &str) -> bool {
        attribute == "two"
    }

    fn is_size(&self, attribute: &str) -> bool {
        attribute == "big"
    }
}

fn graph(objects: &[&str], attributes: &[(&str, &str)], relations: &[(&str, &str, &str)]) -> SceneGraph {
    let mut graph = SceneGraph::default();
    for object in objects {
        graph.add_object(object);
    }
    for (object, attribute) in attributes {
        graph.add_attribute(object, attribute);
    }
    for (subject, relation, object) in relations {
        graph.add_relation(subject, relation, object);
    }
    graph.deduplicated()
}

fn spice(graphs: &[SceneGraph], references: &[Vec<usize>]) -> Spice {
    let mut builder = SpiceBuilder::default();
    for graph in graphs {
        builder.push(graph, &ToyDictionary);
    }
    builder.build(references)
}

fn example() -> Spice {
    let graphs = [
        // Image 0: tuples dog, red dog, sofa, dog on sofa; two dogs and the couch, which merges with the sofa.
        graph(&[], &[("dog", "red")], &[("dog", "on", "sofa")]),
        graph(&["couch"], &[("dog", "two")], &[]),
        // Image 1.
        graph(&["cat"], &[("cat", "big")], &[]),
        // No image: tuples dog, blue dog, couch, dog on couch, cat.
        graph(&["cat"], &[("dog", "blue")], &[("dog", "on", "couch")]),
        SceneGraph::default(),
    ];
    spice(&graphs, &[vec![0, 1], vec![2], vec![]])
}

#[test]
fn scores_match_values_calculated_by_hand() {
    let spice = example();
    // R: dog, red dog, sofa, dog on sofa, two dogs. C: dog, blue dog, couch, dog on couch, cat. M: dog, couch, dog on
    // couch.
    let expected = SpiceScores {
        f_score: 2.0 * 3.0 / 10.0,
        precision: 3.0 / 5.0,
        recall: 3.0 / 5.0,
        object: Some(2.0 * 2.0 / 5.0),
        attribute: Some(0.0),
        relation: Some(1.0),
        color: Some(0.0),
        count: Some(0.0),
        size: None,
    };
    assert_eq!(spice.scores(0, 3), expected);
    // A caption that is one of the references.
    let own = spice.scores(0, 0);
    assert_eq!((own.f_score, own.precision, own.recall), (2.0 * 4.0 / 9.0, 1.0, 4.0 / 5.0));
    assert_eq!(spice.scores(1, 2).f_score, 1.0);
    assert_eq!(spice.scores(1, 2).size, Some(1.0));
}

#[test]
fn empty_graphs_have_score_zero_and_no_subset_scores() {
    let spice = example();
    let nothing = spice.scores(2, 4);
    assert_eq!((nothing.f_score, nothing.precision, nothing.recall, nothing.object), (0.0, 0.0, 0.0, None));
    assert_eq!(spice.scores(0, 4).f_score, 0.0);
    assert_eq!(spice.scores(2, 0).f_score, 0.0);
    assert_eq!(spice.scores(0, 4).object, Some(0.0));
}

/// Two tuples of a caption match the only tuple of the image; they count once.
#[test]
fn no_score_is_above_one() {
    let graphs = [graph(&["sofa"], &[], &[]), graph(&["couch", "seat"], &[], &[])];
    let spice = spice(&graphs, &[vec![0]]);
    let scores = spice.scores(0, 1);
    assert_eq!((scores.f_score, scores.precision, scores.recall), (2.0 / 3.0, 0.5, 1.0));
}

#[test]
fn row_block_and_top_captions_agree_with_pair() {
    let spice = example();
    let mut scratch = <Spice as CaptionSimilarity>::Scratch::default();
    assert_eq!((spice.image_count(), spice.caption_count()), (3, 5));
    for image in 0..spice.image_count() {
        let pairs: Vec<f64> = (0..5).map(|caption| spice.pair(image, caption)).collect();
        let mut row = [9.0; 5];
        spice.row(image, &mut scratch, &mut row);
        assert!(row.iter().zip(&pairs).all(|(row, pair)| (f64::from(*row) - pair).abs() < 1e-6), "{row:?} {pairs:?}");
        assert_eq!(spice.block(&[image], &[4, 0, 3]), [row[4], row[0], row[3]]);
        let mut best: Vec<(usize, f64)> = pairs.into_iter().enumerate().collect();
        best.sort_by(|a, b| b.1.total_cmp(&a.1));
        for m in 0..=6 {
            assert_eq!(spice.top_captions(image, m, &mut scratch), best[..m.min(5)]);
        }
    }
}
