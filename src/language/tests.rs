//! Tests of the parser: hand-written graphs of one caption for each construction, and unusual captions.

use super::scene_graph::parse;
use pairloom_kernels::text::spice::SceneGraph;

const GOLDEN: &[(&str, &[&str])] = &[
    ("a dog .", &["dog"]),
    ("two red fire hydrants", &["hydrant, is, two", "hydrant, is, red", "hydrant, is, fire"]),
    ("a red, white and blue kite", &["kite, is, red", "kite, is, white", "kite, is, blue"]),
    ("the horse is brown and small", &["horse, is, brown", "horse, is, small"]),
    ("a cup on the table", &["cup, on, table"]),
    ("a cup with a handle next to a spoon .", &["cup, with, handle", "cup, next to, spoon"]),
    ("the back of a truck", &["back, of, truck"]),
    ("The man's hat is black.", &["man, have, hat", "hat, is, black"]),
    ("a woman wears a scarf", &["woman, wear, scarf"]),
    ("a woman is wearing a scarf", &["woman, wear, scarf"]),
    ("a boy sits on a bench", &["boy, sit on, bench"]),
    ("a girl eating an apple .", &["girl, eat, apple"]),
    ("a girl eating an apple", &["girl", "apple"]),
    ("a car parked in front of a house", &["car, park in front of, house"]),
    ("a vase on top of a piano", &["vase, on, top", "vase, of, piano"]),
    ("horse standing in a meadow", &["standing, in, meadow", "standing, is, horse"]),
    ("the elephant has two tusks", &["elephant, have, tusk", "tusk, is, two"]),
    ("a fence made of wood", &["fence, make of, wood"]),
    ("the bread is covered with butter", &["bread", "butter"]),
    ("a dog barks", &["dog, is, bark"]),
    ("a dog and a cat are playing with a ball", &["dog, play with, ball", "cat, play with, ball"]),
    ("a plate of rice and beans", &["plate, of, rice", "plate, of, bean"]),
    ("there is a lamp on the desk", &["lamp, on, desk"]),
    ("this is a wet street", &["street, is, wet"]),
    ("a bus that is crossing a bridge", &["bus, cross, bridge"]),
    ("a pair of gloves on a shelf", &["glove, on, shelf", "glove, is, a"]),
    ("girl holding candy cane", &["cane, is, holding", "cane, is, girl", "cane, is, candy"]),
    ("boy riding a bike in the park", &["bike, in, park", "riding, is, boy"]),
    ("label on a jar", &["jar"]),
    ("the coat the woman is wearing", &["coat, is, wear"]),
    ("a bowl of apples on a shelf", &["bowl, of, apple", "apple, on, shelf"]),
    ("houses on side of river", &["house, on, side", "house, of, river"]),
    ("a trash can on a curb", &["can, on, curb", "can, is, trash"]),
    ("a number of boats .", &["boat, is, a"]),
    ("a man in a suit holding his phone .", &["man, in, suit", "man, have, phone", "man, hold, phone"]),
    ("a pizza with olives on it", &["pizza, with, olive", "olive, on, pizza"]),
    ("a man takes a picture with a camera", &["man, take, picture", "man, take with, camera"]),
    ("cars in a parking lot", &["car, in, lot", "lot, is, parking"]),
    ("A dog runs. A cat sleeps.", &["dog, is, run", "cat, is, sleep"]),
];

#[test]
fn every_construction_has_its_tuples() {
    let mut different = Vec::new();
    for (caption, expected) in GOLDEN {
        let got = tuples(&parse(caption));
        if got != *expected {
            different.push(format!("{caption}\n  got    {got:?}\n  expected {expected:?}"));
        }
    }
    assert!(different.is_empty(), "{} of {}:\n{}", different.len(), GOLDEN.len(), different.join("\n"));
}

#[test]
fn captions_without_objects_have_an_empty_graph() {
    for caption in ["", " ", ".", "...", "🙂", "the", "of the", "'s", "and , and", "\u{0}"] {
        assert_eq!(parse(caption), SceneGraph::default(), "{caption:?}");
    }
    assert_eq!(parse("dog").objects, ["dog"]);
    // A word in another script is unknown, and unknown words are nouns.
    assert_eq!(parse("كلب").objects, ["كلب"]);
    assert_eq!(parse("dog 🙂 🐕").objects, ["dog"]);
}

#[test]
fn parsing_time_is_linear_in_the_length() {
    for part in
        ["dog ", "a red dog and ", "in ", "man's ", "red , ", "sit on ", "is ", "very ", "it ", "dogs sit on it . "]
    {
        let graph = parse(&part.repeat(10_000));
        assert!(graph.objects.len() <= 20, "{part}: {:?}", graph.objects);
    }
    // All subjects times all objects would be 25 million relations.
    let list = |word: &str| (0..5_000).map(|i| format!("{word}{i}")).collect::<Vec<_>>().join(" and ");
    let graph = parse(&format!("{} hold {}", list("a"), list("b")));
    assert!(graph.objects.len() >= 9_000, "{}", graph.objects.len());
    assert!(graph.relations.len() <= 100_000, "{}", graph.relations.len());
}

proptest::proptest! {
    #[test]
    fn any_text_has_a_graph(caption in ".{0,80}") {
        assert_consistent(&caption);
    }

    #[test]
    fn any_words_have_a_graph(words in proptest::collection::vec(proptest::sample::select(WORDS), 0..30)) {
        assert_consistent(&words.join(" "));
    }
}

/// Words of every class.
const WORDS: &[&str] = &[
    "a",
    "his",
    "two",
    "red",
    "very",
    "dog",
    "dogs",
    "sits",
    "sit",
    "sitting",
    "parked",
    "playing",
    "is",
    "to",
    "on",
    "in front of",
    "and",
    ",",
    "that",
    "there",
    ".",
    "'s",
    "it",
    "of",
    "pair",
    "man",
    "not",
    "has",
    "building",
];

/// Checks that every element with an attribute or a relation is an object, and that there are no duplicates.
fn assert_consistent(caption: &str) {
    let graph = parse(caption);
    let objects = &graph.objects;
    let has = |object: &String| assert!(objects.contains(object), "{caption}: {object}");
    graph.attributes.iter().for_each(|(object, _)| has(object));
    graph.relations.iter().for_each(|(subject, _, object)| {
        has(subject);
        has(object);
    });
    assert_eq!(graph.clone().deduplicated(), graph);
}

/// The tuples of a graph as SPICE's parser prints them: relations and attributes, or objects if there are neither.
pub(super) fn tuples(graph: &SceneGraph) -> Vec<String> {
    let attributes = graph.attributes.iter().map(|(object, attribute)| format!("{object}, is, {attribute}"));
    let relations =
        graph.relations.iter().map(|(subject, relation, object)| format!("{subject}, {relation}, {object}"));
    let tuples: Vec<String> = relations.chain(attributes).collect();
    if tuples.is_empty() { graph.objects.clone() } else { tuples }
}
