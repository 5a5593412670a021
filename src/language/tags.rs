//! Parts of speech of words in a caption, and the closed classes: words whose part of speech no dictionary has to tell.

/// Part of speech of a word where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tag {
    /// `the`.
    Determiner,
    /// `his`.
    Possessive,
    /// `'s` of an owner.
    Owner,
    /// `it`.
    Pronoun,
    /// `two`.
    Number,
    /// `red`, and participles before a noun.
    Adjective,
    /// `slowly`.
    Adverb,
    /// `dog`.
    Noun,
    /// `dogs`.
    Plural,
    /// `sit`, not after a singular subject.
    Verb,
    /// `sits`.
    Third,
    /// `sitting`.
    Ing,
    /// `parked`.
    Past,
    /// `is`.
    Be,
    /// `can`, `do`, `not`: what stands before a verb and says nothing about the scene.
    Auxiliary,
    /// `to`.
    To,
    /// `on`, `in front of`.
    Preposition,
    /// `and`.
    Conjunction,
    /// `,`.
    Comma,
    /// `which`, `while`.
    Relative,
    /// `there` of `there is`.
    There,
    /// `.`.
    End,
}

impl Tag {
    /// Whether such a word can only stand in a noun phrase behind it or be its end.
    #[must_use]
    pub fn opens_noun_phrase(self) -> bool {
        matches!(self, Self::Determiner | Self::Possessive | Self::Owner | Self::Number | Self::Adjective)
    }
}

/// Prepositions of several words. Of those that begin alike the longer one is first.
pub const PHRASES: &[&[&str]] = &[
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

/// Colours, as SPICE's sub-score of colours counts them.
pub const COLORS: &str = "\
    amber aqua azure beige black blue bronze brown burgundy charcoal cream crimson cyan gold golden gray green \
    grey indigo ivory lavender lilac magenta maroon mauve navy ochre olive orange peach pink purple red rose \
    scarlet silver tan teal turquoise violet white yellow";

/// Whether `word` is in `list`, whose words spaces divide.
#[must_use]
pub fn among(list: &str, word: &str) -> bool {
    list.split(' ').any(|known| known == word)
}

/// The tag of a word of a closed class.
#[must_use]
pub fn closed(word: &str) -> Option<Tag> {
    Some(match word {
        "a" | "an" | "the" | "this" | "these" | "those" | "some" | "any" | "each" | "every" | "all" | "both" | "no"
        | "another" | "either" | "neither" | "whatever" => Tag::Determiner,
        "his" | "its" | "their" | "my" | "your" | "our" | "whose" | "her" => Tag::Possessive,
        "'s" | "'" | "’s" | "´s" => Tag::Owner,
        "he" | "she" | "it" | "they" | "them" | "him" | "i" | "we" | "you" | "us" | "me" | "himself" | "herself"
        | "itself" | "themselves" => Tag::Pronoun,
        "one" | "two" | "three" | "four" | "five" | "six" | "seven" | "eight" | "nine" | "ten" | "eleven"
        | "twelve" | "thirteen" | "fourteen" | "fifteen" | "sixteen" | "twenty" | "thirty" | "forty" | "fifty"
        | "hundred" | "thousand" => Tag::Number,
        "many" | "several" | "few" | "more" | "most" | "other" | "such" | "own" | "same" | "multiple" | "various" => {
            Tag::Adjective
        }
        "is" | "are" | "was" | "were" | "be" | "been" | "being" | "am" | "'re" | "'m" => Tag::Be,
        "can" | "could" | "will" | "would" | "may" | "might" | "must" | "should" | "do" | "does" | "did" | "'ll"
        | "n't" | "not" | "never" | "ca" => Tag::Auxiliary,
        "to" => Tag::To,
        "in" | "on" | "at" | "by" | "with" | "from" | "of" | "under" | "above" | "over" | "near" | "behind"
        | "beside" | "besides" | "between" | "inbetween" | "through" | "into" | "onto" | "against" | "along"
        | "across" | "around" | "inside" | "outside" | "beneath" | "below" | "underneath" | "among" | "amongst"
        | "atop" | "for" | "during" | "about" | "without" | "within" | "toward" | "towards" | "upon" | "after"
        | "before" | "off" | "up" | "down" | "past" | "like" | "than" | "via" | "alongside" | "throughout"
        | "beyond" | "out" | "amid" | "w/" | "till" | "until" | "round" | "aboard" | "opposite" | "except" | "per" => {
            Tag::Preposition
        }
        "and" | "or" | "but" | "&" | "nor" => Tag::Conjunction,
        "," | ";" | ":" | "-" | "--" | "(" | ")" | "/" | "``" | "''" | "\"" | "…" | "..." => Tag::Comma,
        "." | "!" | "?" => Tag::End,
        "who" | "which" | "what" | "where" | "when" | "while" | "because" | "if" | "as" | "that" | "whom" | "so"
        | "how" | "why" => Tag::Relative,
        "very" | "just" | "only" | "too" | "also" | "there" | "here" | "together" | "away" | "back" | "forward"
        | "almost" | "mostly" | "partially" | "partly" | "still" | "then" | "now" | "even" | "probably" | "well"
        | "really" | "quite" | "upside" | "yet" | "again" | "apart" | "sideways" => Tag::Adverb,
        _ if word.bytes().any(|b| b.is_ascii_digit())
            && word.bytes().all(|b| b.is_ascii_digit() || b",.:/%$".contains(&b)) =>
        {
            Tag::Number
        }
        _ if !word.chars().any(char::is_alphanumeric) => Tag::Comma,
        _ => return None,
    })
}
