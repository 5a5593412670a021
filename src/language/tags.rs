//! Part-of-speech tags, and the closed word classes (function words), whose tags need no dictionary.

/// Part-of-speech tag of a word in its context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PosTag {
    /// Determiner: `the`.
    Determiner,
    /// Possessive determiner: `his`.
    Possessive,
    /// Possessive marker: `'s` after an owner.
    PossessiveMarker,
    /// Pronoun: `it`.
    Pronoun,
    /// Number: `two`.
    Number,
    /// Adjective: `red`; also a participle before a noun.
    Adjective,
    /// Adverb: `slowly`.
    Adverb,
    /// Noun in the singular: `dog`.
    Noun,
    /// Noun in the plural: `dogs`.
    Plural,
    /// Verb in the base form: `sit`.
    Verb,
    /// Verb in the third person singular: `sits`.
    ThirdPerson,
    /// Gerund or present participle: `sitting`.
    Gerund,
    /// Past tense or past participle: `parked`.
    Past,
    /// Form of `be`: `is`.
    Be,
    /// Auxiliary verb or negation: `can`, `do`, `not`.
    Auxiliary,
    /// The word `to`.
    To,
    /// Preposition: `on`, `in front of`.
    Preposition,
    /// Coordinating conjunction: `and`.
    Conjunction,
    /// Punctuation within a sentence: `,`.
    Comma,
    /// Relative pronoun or subordinating conjunction: `which`, `while`.
    Relative,
    /// Existential `there`: `there is`.
    Existential,
    /// End of a sentence: `.`.
    SentenceEnd,
}

impl PosTag {
    /// True if the next word is in the same noun phrase: after a determiner, a possessive, a number or an adjective.
    #[must_use]
    pub fn opens_noun_phrase(self) -> bool {
        matches!(self, Self::Determiner | Self::Possessive | Self::PossessiveMarker | Self::Number | Self::Adjective)
    }
}

/// Prepositions of several words. Among two with the same beginning, the longer one comes first.
pub const MULTIWORD_PREPOSITIONS: &[&[&str]] = &[
    &["in", "front", "of"],
    &["on", "top", "of"],
    &["in", "between"],
    &["outside", "of"],
    &["inside", "of"],
    &["next", "to"],
    &["close", "to"],
    &["out", "of"],
    &["such", "as"],
    &["because", "of"],
    &["instead", "of"],
    &["along", "with"],
    &["due", "to"],
    &["away", "from"],
    &["ahead", "of"],
];

/// Words for colours, as in SPICE's F-score of colours.
pub const COLORS: &str = "\
    amber aqua azure beige black blue bronze brown burgundy charcoal cream crimson cyan gold golden gray green \
    grey indigo ivory lavender lilac magenta maroon mauve navy ochre olive orange peach pink purple red rose \
    scarlet silver tan teal turquoise violet white yellow";

/// True if `word` is in `list`, which is separated by spaces.
#[must_use]
pub fn list_contains(list: &str, word: &str) -> bool {
    list.split(' ').any(|known| known == word)
}

/// The tag of a word of a closed class; `None` for other words.
#[must_use]
pub fn closed_class_tag(word: &str) -> Option<PosTag> {
    Some(match word {
        "a" | "an" | "the" | "this" | "these" | "those" | "some" | "any" | "each" | "every" | "all" | "both" | "no"
        | "another" | "either" | "neither" | "whatever" => PosTag::Determiner,
        "his" | "its" | "their" | "my" | "your" | "our" | "whose" | "her" => PosTag::Possessive,
        "'s" | "'" | "’s" | "´s" => PosTag::PossessiveMarker,
        "he" | "she" | "it" | "they" | "them" | "him" | "i" | "we" | "you" | "us" | "me" | "himself" | "herself"
        | "itself" | "themselves" => PosTag::Pronoun,
        "one" | "two" | "three" | "four" | "five" | "six" | "seven" | "eight" | "nine" | "ten" | "eleven"
        | "twelve" | "thirteen" | "fourteen" | "fifteen" | "sixteen" | "twenty" | "thirty" | "forty" | "fifty"
        | "hundred" | "thousand" => PosTag::Number,
        "many" | "several" | "few" | "more" | "most" | "other" | "such" | "own" | "same" | "multiple" | "various" => {
            PosTag::Adjective
        }
        "is" | "are" | "was" | "were" | "be" | "been" | "being" | "am" | "'re" | "'m" => PosTag::Be,
        "can" | "could" | "will" | "would" | "may" | "might" | "must" | "should" | "do" | "does" | "did" | "'ll"
        | "n't" | "not" | "never" | "ca" => PosTag::Auxiliary,
        "to" => PosTag::To,
        "in" | "on" | "at" | "by" | "with" | "from" | "of" | "under" | "above" | "over" | "near" | "behind"
        | "beside" | "besides" | "between" | "inbetween" | "through" | "into" | "onto" | "against" | "along"
        | "across" | "around" | "inside" | "outside" | "beneath" | "below" | "underneath" | "among" | "amongst"
        | "atop" | "for" | "during" | "about" | "without" | "within" | "toward" | "towards" | "upon" | "after"
        | "before" | "off" | "up" | "down" | "past" | "like" | "than" | "via" | "alongside" | "throughout"
        | "beyond" | "out" | "amid" | "w/" | "till" | "until" | "round" | "aboard" | "opposite" | "except" | "per" => {
            PosTag::Preposition
        }
        "and" | "or" | "but" | "&" | "nor" => PosTag::Conjunction,
        "," | ";" | ":" | "-" | "--" | "(" | ")" | "/" | "``" | "''" | "\"" | "…" | "..." => PosTag::Comma,
        "." | "!" | "?" => PosTag::SentenceEnd,
        "who" | "which" | "what" | "where" | "when" | "while" | "because" | "if" | "as" | "that" | "whom" | "so"
        | "how" | "why" => PosTag::Relative,
        "very" | "just" | "only" | "too" | "also" | "there" | "here" | "together" | "away" | "back" | "forward"
        | "almost" | "mostly" | "partially" | "partly" | "still" | "then" | "now" | "even" | "probably" | "well"
        | "really" | "quite" | "upside" | "yet" | "again" | "apart" | "sideways" => PosTag::Adverb,
        _ if word.bytes().any(|b| b.is_ascii_digit())
            && word.bytes().all(|b| b.is_ascii_digit() || b",.:/%$".contains(&b)) =>
        {
            PosTag::Number
        }
        _ if !word.chars().any(char::is_alphanumeric) => PosTag::Comma,
        _ => return None,
    })
}
