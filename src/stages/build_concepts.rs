//! `build_concepts`: `captions` → `concepts`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use arrow::array::{Int64Array, StringArray};
use az::SaturatingAs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use pairloom_base::error::{Error, Result};
use pairloom_kernels::text::Tokenizer;
use pairloom_language::lexicon::Lexicon;
use pairloom_language::tagger;
use pairloom_language::tagger::PosTag;
use pairloom_stage::{Problem, RunnableStage, Stage, StageContext, StageInput, StageOutput, TableRef};
use pairloom_tables::{self as tables, VectorColumn, concepts};

/// Builds the concepts of CVSE: the most frequent nouns, adjectives and verbs of the training captions, and how many
/// captions hold two of them.
///
/// Words are tagged and lemmatised with WordNet. A caption holds a concept if one of its words names it; a word names the
/// concept as which it occurs most often. The published lists are not reproducible, because their scripts were never
/// released. Memory: four bytes a word of the training captions, and eight for each pair of concepts.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BuildConcepts {
    /// Captions. Those of the splits `train` and `restval` count.
    pub captions: TableRef,
    /// Number of nouns. Fewer if there are fewer.
    #[serde(default = "default_objects")]
    pub objects: usize,
    /// Number of adjectives.
    #[serde(default = "default_properties")]
    pub properties: usize,
    /// Number of verbs.
    #[serde(default = "default_motions")]
    pub motions: usize,
}

fn default_objects() -> usize {
    210
}

fn default_properties() -> usize {
    60
}

fn default_motions() -> usize {
    30
}

/// Largest number of concepts. The table of their pairs then has 64 MiB.
const MAX_CONCEPTS: usize = 4096;

/// Category of a concept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum ConceptCategory {
    Object,
    Property,
    Motion,
}

impl ConceptCategory {
    fn of(tag: PosTag) -> Option<Self> {
        match tag {
            PosTag::Noun | PosTag::Plural => Some(Self::Object),
            PosTag::Adjective => Some(Self::Property),
            PosTag::Verb | PosTag::ThirdPerson | PosTag::Gerund | PosTag::Past => Some(Self::Motion),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Property => "property",
            Self::Motion => "motion",
        }
    }
}

impl Stage for BuildConcepts {
    fn kind(&self) -> &'static str {
        "build_concepts"
    }

    fn version(&self) -> u32 {
        2
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!(self)
    }

    fn inputs(&self) -> Vec<StageInput> {
        vec![StageInput::table("captions", &self.captions, &tables::captions::table())]
    }

    fn outputs(&self) -> Vec<StageOutput> {
        vec![StageOutput::table("concepts", concepts::table().schema(), MAX_CONCEPTS)]
    }

    fn check(&self) -> Vec<Problem> {
        let count = self.objects.saturating_add(self.properties).saturating_add(self.motions);
        let wrong = !(1..=MAX_CONCEPTS).contains(&count);
        let message = || format!("got {count} concepts in all, expected 1 to {MAX_CONCEPTS}");
        wrong.then(|| Problem::new("objects", message())).into_iter().collect()
    }
}

impl RunnableStage for BuildConcepts {
    fn run(&self, cx: &mut StageContext<'_>) -> Result<()> {
        let mut counts = CaptionWords::default();
        let mut done = 0u64;
        while let Some(batch) = cx.read_next("captions")? {
            let (splits, texts) = (tables::text_column(&batch, "split")?, tables::text_column(&batch, "text")?);
            for row in (0..batch.num_rows()).filter(|&row| matches!(splits.value(row), "train" | "restval")) {
                cx.check_cancelled()?;
                counts.push(texts.value(row));
            }
            done += batch.num_rows() as u64;
            cx.progress(done, None, "captions");
        }
        if counts.captions.is_empty() {
            let message = format!("no caption of split `train` or `restval` in `{}`", self.captions);
            return Err(Error::data(message).hint("concepts are those of the training captions"));
        }
        let found = counts.most_frequent(|category| match category {
            ConceptCategory::Object => self.objects,
            ConceptCategory::Property => self.properties,
            ConceptCategory::Motion => self.motions,
        });
        if found.is_empty() {
            return Err(Error::data(format!("no noun, adjective or verb in the captions of `{}`", self.captions)));
        }
        let together = counts.count_together(&found);
        let count = found.len();
        let columns = concepts::TableColumns {
            concept_id: Int64Array::from_iter_values((0..count).map(SaturatingAs::saturating_as::<i64>)),
            lemma: found.iter().map(|concept| Some(concept.lemma.as_str())).collect(),
            category: found.iter().map(|concept| Some(concept.category.name())).collect(),
            words: StringArray::from_iter_values(found.iter().map(|concept| concept.words.join(" "))),
            n_captions: (0..count).map(|i| together[i * count + i].saturating_as::<i64>()).collect::<Vec<_>>().into(),
            co_occurrences: VectorColumn::new(counts_as_floats(&together), count)?,
        };
        cx.write("concepts", columns.into_batch()?)
    }
}

/// Counts of captions as f32, exact up to 2²⁴.
fn counts_as_floats(counts: &[u32]) -> Vec<f32> {
    #[expect(clippy::cast_precision_loss, reason = "data sets have fewer than 2^24 captions")]
    counts.iter().map(|&count| count as f32).collect()
}

/// Words of the training captions, and what they were tagged as.
#[derive(Default)]
struct CaptionWords {
    /// Number of each word.
    numbers: BTreeMap<String, u32>,
    /// Words of each caption.
    captions: Vec<Vec<u32>>,
    /// Number of occurrences of a word as a lemma of a category.
    lemmas: BTreeMap<(u32, ConceptCategory, String), u32>,
    /// Number of captions with a lemma of a category.
    frequencies: BTreeMap<(ConceptCategory, String), u32>,
}

/// Lemma that is a concept.
struct FrequentLemma {
    lemma: String,
    category: ConceptCategory,
    /// Words that name it, in alphabetical order.
    words: Vec<String>,
}

impl CaptionWords {
    fn number(&mut self, word: &str) -> u32 {
        if let Some(&number) = self.numbers.get(word) {
            return number;
        }
        let number = self.numbers.len().saturating_as::<u32>();
        self.numbers.insert(word.to_owned(), number);
        number
    }

    fn push(&mut self, caption: &str) {
        let words = Tokenizer::Treebank.tokenize(caption, true);
        let mut seen = BTreeSet::new();
        for tagged in tagger::tag(Lexicon::wordnet(), &words) {
            let Some(category) = ConceptCategory::of(tagged.tag) else { continue };
            let word = self.number(&tagged.text);
            *self.lemmas.entry((word, category, tagged.lemma.clone())).or_default() += 1;
            seen.insert((category, tagged.lemma));
        }
        for lemma in seen {
            *self.frequencies.entry(lemma).or_default() += 1;
        }
        let numbers = words.iter().map(|word| self.number(word)).collect();
        self.captions.push(numbers);
    }

    /// Most frequent lemmas of each category, at most `limit`, by descending frequency and then in the order of the
    /// alphabet. A word names one of them, the one that it most often is; a lemma without a word is left out.
    fn most_frequent(&self, limit: impl Fn(ConceptCategory) -> usize) -> Vec<FrequentLemma> {
        let mut chosen: Vec<(ConceptCategory, &str)> = Vec::new();
        for category in [ConceptCategory::Object, ConceptCategory::Property, ConceptCategory::Motion] {
            let by_frequency = self.frequencies.iter().filter(|((own, _), _)| *own == category);
            let mut by_frequency: Vec<(&str, u32)> = by_frequency.map(|((_, lemma), &n)| (lemma.as_str(), n)).collect();
            by_frequency.sort_by_key(|&(lemma, n)| (Reverse(n), lemma));
            chosen.extend(by_frequency.into_iter().take(limit(category)).map(|(lemma, _)| (category, lemma)));
        }
        let places: HashMap<(ConceptCategory, &str), usize> =
            chosen.iter().enumerate().map(|(place, &key)| (key, place)).collect();
        // Concept that each word names: that of most of its occurrences, and of equal ones the first.
        let mut named: HashMap<u32, (u32, usize)> = HashMap::new();
        for ((word, category, lemma), &n) in &self.lemmas {
            let Some(&place) = places.get(&(*category, lemma.as_str())) else { continue };
            let best = named.entry(*word).or_insert((n, place));
            if (n, Reverse(place)) > (best.0, Reverse(best.1)) {
                *best = (n, place);
            }
        }
        let mut words: Vec<Vec<String>> = vec![Vec::new(); chosen.len()];
        for (word, number) in &self.numbers {
            if let Some(&(_, place)) = named.get(number) {
                words[place].push(word.clone());
            }
        }
        let all = chosen.into_iter().zip(words).filter(|(_, words)| !words.is_empty());
        all.map(|((category, lemma), words)| FrequentLemma { lemma: lemma.to_owned(), category, words }).collect()
    }

    /// Number of captions with two concepts, and on the diagonal with one, row-major.
    fn count_together(&self, concepts: &[FrequentLemma]) -> Vec<u32> {
        let mut concept_of_word: HashMap<u32, usize> = HashMap::new();
        for (place, concept) in concepts.iter().enumerate() {
            concept_of_word.extend(concept.words.iter().map(|word| (self.numbers[word], place)));
        }
        let mut together = vec![0; concepts.len() * concepts.len()];
        for words in &self.captions {
            let held: BTreeSet<usize> = words.iter().filter_map(|word| concept_of_word.get(word).copied()).collect();
            for &i in &held {
                for &j in &held {
                    together[i * concepts.len() + j] += 1;
                }
            }
        }
        together
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, RecordBatch};
    use arrow::datatypes::Int64Type;

    use super::*;
    use pairloom_stage_testing::InMemoryHost;

    fn captions(texts: &[(&str, &str)]) -> RecordBatch {
        let ids: Vec<i64> = (0..).take(texts.len()).collect();
        let columns = tables::captions::TableColumns {
            caption_id: ids.clone().into(),
            image_id: ids.into(),
            split: texts.iter().map(|(split, _)| Some(*split)).collect(),
            text: texts.iter().map(|(_, text)| Some(*text)).collect(),
        };
        columns.into_batch().expect("captions")
    }

    fn stage(more: &str) -> BuildConcepts {
        toml::from_str(&format!("captions = \"x.captions\"\n{more}")).expect("settings")
    }

    fn run(stage: &BuildConcepts, texts: &[(&str, &str)]) -> Result<RecordBatch> {
        let mut host = InMemoryHost::default();
        host.input_tables.insert("captions".to_owned(), vec![captions(texts)]);
        host.run(stage)?;
        Ok(host.output("concepts"))
    }

    /// By hand: `dog` and `dogs` are one noun, in 3 captions; `grass` is in 2, both with a dog. The caption of split `test`
    /// does not count.
    #[test]
    fn concepts_are_frequent_lemmas_with_their_words() {
        let texts = [
            ("train", "A red dog runs on the grass ."),
            ("restval", "Two dogs running on the grass ."),
            ("train", "A dog runs ."),
            ("test", "A cat sits on a cat ."),
        ];
        let found = run(&stage("objects = 2\nproperties = 5\nmotions = 1"), &texts).expect("concepts");
        let text = |name: &str| -> Vec<String> {
            found[name].as_string::<i32>().iter().map(|text| text.expect("no null").to_owned()).collect()
        };
        assert_eq!(text("lemma"), ["dog", "grass", "red", "run"]);
        assert_eq!(text("category"), ["object", "object", "property", "motion"]);
        assert_eq!(text("words"), ["dog dogs", "grass", "red", "running runs"]);
        assert_eq!(found["n_captions"].as_primitive::<Int64Type>().values(), &[3, 2, 1, 3]);
        let together = tables::vector_column(&found, "co_occurrences").expect("counts").0;
        let expected = [[3.0, 2.0, 1.0, 3.0], [2.0, 2.0, 1.0, 2.0], [1.0, 1.0, 1.0, 1.0], [3.0, 2.0, 1.0, 3.0]];
        assert_eq!(together, expected.concat());
    }

    #[test]
    fn captions_without_concepts_are_errors() {
        let error = run(&stage(""), &[("test", "a dog")]).expect_err("no training caption").to_string();
        assert_eq!(error, "no caption of split `train` or `restval` in `x.captions`");
        let error = run(&stage(""), &[("train", "of the and")]).expect_err("no noun").to_string();
        assert_eq!(error, "no noun, adjective or verb in the captions of `x.captions`");
        let problems = stage("objects = 5000").check();
        assert_eq!(problems[0].message, "got 5090 concepts in all, expected 1 to 4096");
    }
}
