//! From a caption to its scene graph: objects, attributes and relations, after the rules of SPICE (Anderson et al., ECCV
//! 2016, section 3.1), which follow those of Schuster et al. (VL 2015).

use super::lemmas;
use super::lexicon::{Lexicon, Part};
use super::phrases::{Item, NounPhrase, items};
use super::tagger::{Word, tag};
use super::tags::Tag;
use crate::kernels::text::spice::SceneGraph;
use crate::kernels::text::treebank;

/// Name and version of these rules: graphs of different ones do not compare.
pub const NAME: &str = "rules-1";

/// The scene graph of `caption`.
#[must_use]
pub fn parse(caption: &str) -> SceneGraph {
    parse_words(&treebank(caption))
}

/// The scene graph of a caption that was cut into words in lower case.
#[must_use]
pub fn parse_words(words: &[String]) -> SceneGraph {
    let tagged = tag(Lexicon::wordnet(), words);
    let mut graph = SceneGraph::default();
    for sentence in tagged.split_inclusive(|word| word.tag == Tag::End) {
        sentence_graph(sentence, &mut graph);
    }
    graph
}

/// Nouns of quantity that stand for no thing: of `a pair of shoes` the graph has shoes.
const QUANTITIES: &[&str] = &["pair", "bunch", "lot", "couple"];

/// What shows the thing behind `of`: where a place follows, it is the place of that thing.
const DEPICTIONS: &[&str] =
    &["reflection", "image", "picture", "photo", "photograph", "silhouette", "shadow", "view", "painting", "group"];

/// Gerunds that are nouns in the Penn Treebank: after a bare noun, without a period, they are the head of a fragment.
const GERUND_NOUNS: &[&str] = &[
    "standing", "walking", "swimming", "driving", "playing", "balancing", "skateboarding", "grazing",
];

/// A verb whose objects may still come.
#[derive(Debug, Clone)]
struct Verb {
    lemma: String,
    /// With its particles.
    label: String,
    subjects: Vec<usize>,
    silent: bool,
    finite: bool,
    used: bool,
    object: bool,
}

/// How the last noun phrase was attached, for the one that `and` adds.
#[derive(Debug, Clone)]
enum Link {
    None,
    Subject,
    Relation(Vec<usize>, String, bool),
    Copula,
}

struct Parser<'g> {
    graph: &'g mut SceneGraph,
    nodes: Vec<NounPhrase>,
    /// Relations by node.
    subjects: Vec<usize>,
    verb: Option<Verb>,
    link: Link,
    last: Option<usize>,
    be: bool,
    preposition: Option<String>,
    /// Attribute that a quantity hands to the noun after `of`.
    quantity: Option<String>,
    fragment: bool,
    /// Whether the first noun may be a verb in the imperative.
    imperative: bool,
    gerund: bool,
    /// Whether a finite verb was seen.
    finite: bool,
}

fn sentence_graph(words: &[Word], graph: &mut SceneGraph) {
    let items = items(words);
    let ended = words.last().is_some_and(|word| word.tag == Tag::End);
    let mut parser = Parser {
        graph,
        nodes: Vec::new(),
        subjects: Vec::new(),
        verb: None,
        link: Link::None,
        last: None,
        be: false,
        preposition: None,
        quantity: None,
        fragment: !ended,
        imperative: !ended && imperative(words),
        finite: false,
        gerund: words.first().is_some_and(|word| word.tag == Tag::Adjective && word.text.ends_with("ing")),
    };
    for at in 0..items.len() {
        parser.item(&items, at, words);
    }
    parser.finish_verb();
}

/// Whether a parser trained on sentences takes the first word of a fragment for a verb: `sink in a bathroom`.
fn imperative(words: &[Word]) -> bool {
    let [first, second, ..] = words else { return false };
    let finite = words.iter().any(|word| matches!(word.tag, Tag::Be | Tag::Third | Tag::Verb | Tag::Ing | Tag::Past));
    let lexicon = Lexicon::wordnet();
    let verbs = lexicon.count(Part::Verb, &first.text).unwrap_or(0);
    let nouns = lexicon.count(Part::Noun, &first.text).unwrap_or(0);
    let gerund = first.text.ends_with("ing") && lemmas::verb(lexicon, &first.text).is_some();
    let verb = gerund || verbs > 0 && verbs * 3 >= nouns || first.text == "man";
    !finite
        && verb
        && (first.tag == Tag::Noun && second.tag == Tag::Preposition
            || first.tag == Tag::Adjective && gerund && second.tag == Tag::Noun)
}

impl Parser<'_> {
    fn item(&mut self, items: &[Item], at: usize, words: &[Word]) {
        let before = at.checked_sub(1).map(|at| &items[at]);
        let after = items.get(at + 1);
        match &items[at] {
            Item::Noun(phrase) => self.noun(phrase, items, at),
            Item::Pronoun => self.pronoun(items, at),
            Item::State(adjectives) => self.state(adjectives),
            Item::Verb(lemma, form) => {
                let text = words.iter().find(|word| word.lemma == *lemma && word.tag == *form).map_or("", |word| &word.text);
                self.verb(lemma, *form, text, items, at);
            }
            Item::Other(text, tag) => match tag {
                Tag::Be => {
                    self.verb.take_if(|verb| verb.lemma == "have" && !verb.used);
                    self.finish_verb();
                    self.be = true;
                    self.finite = true;
                    self.preposition = None;
                }
                Tag::Preposition if text == "of" && self.quantity.is_some() => {}
                Tag::Preposition => self.preposition(text),
                Tag::To => {
                    if !matches!(after, Some(Item::Verb(_, Tag::Verb))) {
                        self.preposition(text);
                    }
                }
                Tag::Conjunction | Tag::Comma => {
                    let clause = matches!(after, Some(Item::Noun(_)))
                        && matches!(items.get(at + 2), Some(Item::Verb(_, Tag::Third | Tag::Verb) | Item::Other(_, Tag::Be)));
                    if clause && self.verb.as_ref().is_some_and(|verb| verb.finite) || clause && self.be {
                        self.new_clause();
                    }
                    self.preposition = None;
                }
                Tag::Relative => {
                    if let Some(last) = self.last {
                        self.finish_verb();
                        self.subjects = vec![last];
                    }
                    self.be = false;
                    self.preposition = None;
                }
                Tag::There => self.new_clause(),
                _ => {}
            },
        }
        _ = before;
    }

    fn new_clause(&mut self) {
        self.finish_verb();
        self.subjects.clear();
        self.link = Link::None;
        self.last = None;
        self.be = false;
        self.preposition = None;
    }

    /// A finite verb without objects is an attribute of its subject.
    fn finish_verb(&mut self) {
        if let Some(verb) = self.verb.take()
            && verb.finite
            && !verb.used
            && !verb.silent
        {
            for subject in &verb.subjects {
                self.graph.attribute(&self.nodes[*subject].head, &verb.lemma);
            }
        }
    }

    fn relate(&mut self, subjects: &[usize], label: &str, object: usize) {
        for subject in subjects {
            let (subject, object) = (&self.nodes[*subject].head, &self.nodes[object].head);
            if subject != object {
                self.graph.relation(subject, label, object);
            }
        }
    }

    fn add(&mut self, phrase: &NounPhrase) -> usize {
        let owner = phrase.owner.as_ref().map(|owner| self.add(owner));
        self.graph.object(&phrase.head);
        let skipped = usize::from(self.imperative && self.gerund && self.nodes.is_empty());
        for modifier in phrase.modifiers.iter().skip(skipped) {
            self.graph.attribute(&phrase.head, modifier);
        }
        self.nodes.push(phrase.clone());
        let node = self.nodes.len() - 1;
        if let Some(owner) = owner {
            self.relate(&[owner], "have", node);
        } else if phrase.possessive && node > 0 {
            self.relate(&[self.subjects.first().copied().unwrap_or(0)], "have", node);
        }
        node
    }

    fn noun(&mut self, phrase: &NounPhrase, items: &[Item], at: usize) {
        let of_next = matches!(items.get(at + 1), Some(Item::Other(of, Tag::Preposition)) if of == "of");
        let plural = matches!(self.verb, Some(_)) && phrase.head == "lot";
        if of_next && (phrase.determined || plural) && QUANTITIES.contains(&phrase.head.as_str()) && matches!(items.get(at + 2), Some(Item::Noun(_))) {
            self.quantity = Some(if phrase.determined { "a".to_owned() } else { phrase.head.clone() });
            return;
        }
        let mut phrase = phrase.clone();
        phrase.modifiers.extend(self.quantity.take());
        let node = self.add(&phrase);
        self.attach(node, items, at);
        self.last = Some(node);
    }

    fn pronoun(&mut self, items: &[Item], at: usize) {
        // `it` is what the caption is about.
        if let Some(preposition) = self.preposition.take() {
            if !self.nodes.is_empty() {
                self.attach_preposition(0, &preposition, items, at);
            }
        } else if let Some(verb) = self.verb.as_mut().filter(|verb| !verb.object) {
            verb.used = true;
            let (subjects, label, silent) = (verb.subjects.clone(), verb.label.clone(), verb.silent);
            if !silent && !self.nodes.is_empty() {
                self.relate(&subjects, &label, 0);
            }
        } else {
            self.new_clause();
        }
    }

    fn state(&mut self, adjectives: &[String]) {
        if self.be {
            for subject in self.subjects.clone() {
                for adjective in adjectives {
                    self.graph.attribute(&self.nodes[subject].head.clone(), adjective);
                }
            }
        }
    }

    fn preposition(&mut self, text: &str) {
        match (&mut self.preposition, &mut self.verb) {
            // `down from` after a verb.
            (Some(known), Some(verb)) if !verb.object => {
                *known = format!("{known} {text}");
            }
            (known, _) => *known = Some(text.to_owned()),
        }
    }

    fn attach(&mut self, node: usize, items: &[Item], at: usize) {
        let listed = at > 0 && matches!(items[at - 1], Item::Other(_, Tag::Conjunction | Tag::Comma));
        if let Some(preposition) = self.preposition.take() {
            self.attach_preposition(node, &preposition, items, at);
            return;
        }
        if listed {
            match self.link.clone() {
                Link::Subject => {
                    self.subjects.push(node);
                    return;
                }
                Link::Relation(subjects, label, silent) => {
                    if !silent {
                        self.relate(&subjects, &label, node);
                    }
                    return;
                }
                Link::Copula | Link::None => {}
            }
        }
        if let Some(verb) = self.verb.as_mut().filter(|verb| !verb.object) {
            verb.object = true;
            verb.used = true;
            let (subjects, label, silent) = (verb.subjects.clone(), verb.label.clone(), verb.silent);
            if !silent {
                self.relate(&subjects, &label, node);
            }
            self.link = Link::Relation(subjects, label, silent);
            return;
        }
        if self.be && !self.subjects.is_empty() {
            self.be = false;
            for subject in self.subjects.clone() {
                let (subject, object) = (self.nodes[subject].head.clone(), self.nodes[node].head.clone());
                if subject != object {
                    self.graph.attribute(&subject, &object);
                }
            }
            self.link = Link::Copula;
            return;
        }
        self.finish_verb();
        self.be = false;
        self.subjects = vec![node];
        self.link = Link::Subject;
    }

    fn attach_preposition(&mut self, node: usize, preposition: &str, items: &[Item], at: usize) {
        // Behind a verb or its particle.
        let mut back = at - 1;
        while back > 0 && matches!(&items[back], Item::Other(_, Tag::Preposition | Tag::To)) {
            back -= 1;
        }
        let governor = &items[back];
        let (subjects, label, silent) = match (governor, &mut self.verb) {
            (Item::Verb(..), Some(verb)) => {
                verb.used = true;
                (verb.subjects.clone(), format!("{} {preposition}", verb.label), verb.silent)
            }
            (Item::Other(_, Tag::Be) | Item::State(_), _) if !self.subjects.is_empty() => {
                self.be = false;
                (self.subjects.clone(), preposition.to_owned(), matches!(governor, Item::State(_)))
            }
            (Item::Noun(_), Some(verb)) if preposition != "of" && verb.used && !verb.object && !verb.silent => {
                (verb.subjects.clone(), format!("{} {preposition}", verb.label), verb.silent)
            }
            (Item::Noun(_), Some(verb)) if verb.object && ["with", "at"].contains(&preposition) && verb.finite => {
                (verb.subjects.clone(), format!("{} {preposition}", verb.lemma), verb.silent)
            }
            (Item::Noun(_) | Item::Verb(..), verb) => match self.last {
                Some(last) => {
                    let last = match &self.link {
                        Link::Relation(whole, of, _)
                            if of == "of" && preposition != "of" && !whole.is_empty()
                                && !DEPICTIONS.contains(&self.nodes[whole[0]].head.as_str()) =>
                        {
                            whole[0]
                        }
                        Link::Subject => self.subjects[0],
                        Link::Relation(whole, place, _) if !matches!(preposition, "of" | "with") && place != "of" && whole.len() == 1 && verb.is_none() && whole[0] != node => whole[0],
                        _ => last,
                    };
                    let silent = verb.as_ref().is_some_and(|verb| verb.silent) && preposition != "of" && self.nodes[last].determined;
                    (vec![last], preposition.to_owned(), silent)
                }
                None => (Vec::new(), preposition.to_owned(), true),
            },
            _ => (Vec::new(), preposition.to_owned(), true),
        };
        let all = matches!(governor, Item::Verb(..));
        let subjects = subjects.into_iter().take(if all { usize::MAX } else { 1 }).collect::<Vec<_>>();
        if subjects.is_empty() && self.subjects.is_empty() {
            self.subjects = vec![node];
        }
        let imperative = node == 1 && self.imperative && matches!(governor, Item::Noun(_)) && preposition != "of";
        let silent = silent || imperative;
        if !silent && ["on top of", "in front of"].contains(&preposition) && matches!(governor, Item::Noun(_)) {
            // Only behind a verb is it one preposition.
            let (place, part) = if preposition == "on top of" { ("on", "top") } else { ("in", "front") };
            for subject in &subjects {
                let subject = self.nodes[*subject].head.clone();
                self.graph.relation(&subject, place, part);
            }
            self.relate(&subjects, "of", node);
        } else if !silent {
            self.relate(&subjects, &label, node);
        }
        self.link = Link::Relation(subjects, label, silent);
    }

    fn verb(&mut self, lemma: &str, form: Tag, text: &str, items: &[Item], at: usize) {
        let before = at.checked_sub(1).map(|at| &items[at]);
        let perfect = form == Tag::Past && matches!(before, Some(Item::Verb(have, _)) if have == "have");
        if perfect {
            // `have folded` is one verb.
            if let Some(verb) = &mut self.verb {
                lemma.clone_into(&mut verb.lemma);
                lemma.clone_into(&mut verb.label);
            }
            return;
        }
        let infinitive = matches!(before, Some(Item::Other(_, Tag::To)));
        let auxiliary = std::mem::take(&mut self.be);
        let participle = matches!(form, Tag::Ing | Tag::Past) && !auxiliary;
        let listed = matches!(before, Some(Item::Other(_, Tag::Conjunction | Tag::Comma)));
        let silent_before = self.verb.as_ref().is_some_and(|verb| verb.silent);
        let finite_before = self.verb.as_ref().is_some_and(|verb| verb.finite);
        let subjects_before = self.verb.as_ref().map(|verb| verb.subjects.clone());
        let first = self.verb.is_none();
        self.finish_verb();
        let bare = first && !self.finite && self.nodes.len() == self.subjects.len() && self.fragment && matches!(before, Some(Item::Noun(_)));
        let plural = self.subjects.first().is_some_and(|node| self.nodes[*node].plural);
        let of_place = matches!(items.get(at + 1), Some(Item::Other(place, Tag::Preposition)) if place != "down" && (text != "walking" || place == "on" || place == "in" && plural));
        let plural_place = matches!(items.get(at + 1), Some(Item::Other(place, Tag::Preposition)) if place != "down");
        // A noun and a gerund without a period are a fragment: Treebank parsers see no clause there.
        if participle && form == Tag::Ing && bare && of_place && GERUND_NOUNS.contains(&text) {

            let Some(subject) = self.subjects.first().copied() else { return };
            let mut phrase = self.nodes[subject].clone();
            if phrase.determined || phrase.plural {
                phrase.modifiers.clear();
            } else {
                self.graph.attributes.retain(|(object, _)| *object != phrase.head);
                let head = phrase.head.clone();
                phrase.modifiers.push(head);
            }
            phrase.head = text.to_owned();
            let node = self.add(&phrase);
            self.last = Some(node);
            self.subjects = vec![node];
            self.verb = None;
            return;
        }
        let subjects = if listed && subjects_before.is_some() {
            subjects_before.clone().unwrap_or_default()
        } else if participle && matches!(before, Some(Item::Noun(_))) {
            let of = matches!(&self.link, Link::Relation(_, label, _) if label == "of");
            match self.last {
                Some(last) if form == Tag::Past && !of || form == Tag::Ing && self.fragment && self.nodes.len() > 1 => vec![last],
                _ if !self.subjects.is_empty() => self.subjects.clone(),
                Some(last) => vec![last],
                None => Vec::new(),
            }
        } else {
            self.subjects.clone()
        };
        let object = match items.get(at + 1) {
            Some(Item::Noun(object)) if !object.determined && object.modifiers.is_empty() => Some(object.head.clone()),
            _ => None,
        };
        let playing = bare && form == Tag::Ing && ["playing", "swinging"].contains(&text) && object.is_some();
        if let (true, Some(object)) = (playing, &object) {
            self.graph.attribute(object, text);
        }
        let silent = infinitive || playing
            || participle && form == Tag::Ing && bare && !self.subjects.iter().any(|node| self.nodes[*node].listed || self.nodes[*node].is_crowd() && (plural_place || self.nodes[*node].numbered))
            || auxiliary && form == Tag::Past
            || (listed || infinitive) && silent_before;
        self.finite |= !participle && !infinitive;
        self.verb = Some(Verb {
            lemma: lemma.to_owned(),
            label: lemma.to_owned(),
            finite: !participle && !infinitive || listed && finite_before,
            subjects,
            silent,
            used: false,
            object: false,
        });
        self.preposition = None;
    }
}
