//! Settings of a relevance in addition to the queries' own matches.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check_distinct;
use pairloom_stage::{Problem, StageInput, TableRef};
use pairloom_tables as tables;

/// Relevance of items to queries: graded by φ of images and captions, or binary by human ratings or by judgements.
/// Exactly one of the three tables.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RelevanceSource {
    /// Name in results: `spice`, `cxc`, `eccv`.
    pub name: String,
    /// Graded relevance: a `caption_similarity` with φ of every image with every caption of the split.
    pub similarity: Option<TableRef>,
    /// Binary relevance: pairs with a human rating of at least `at_least`, or a mean rating if several people rated a pair.
    pub ratings: Option<TableRef>,
    /// Binary relevance: items that are judged for a query with a grade of at least `at_least`. The measures are means over the
    /// queries with such an item.
    pub qrels: Option<TableRef>,
    /// Numbers m: the m items with the largest φ are relevant to a query, for Semantic Recall, NCS of the paper, mAP@R
    /// and R-precision. Each m is evaluated separately. Only with `similarity`; default `[5]`.
    pub neighbours: Option<Vec<usize>>,
    /// Lowest rating or grade of relevant pairs. Needed with `ratings`; 1 by default with `qrels`.
    pub at_least: Option<f64>,
}

/// Highest human rating of a pair.
const HIGHEST_RATING: f64 = 5.0;
/// Lowest grade of relevant items, as in `trec_eval`.
const RELEVANT_GRADE: f64 = 1.0;

impl RelevanceSource {
    /// Returns the numbers of neighbours, or the default.
    #[must_use]
    pub fn neighbours(&self) -> &[usize] {
        self.neighbours.as_deref().unwrap_or(&[5])
    }

    /// Returns the lowest rating or grade of relevant pairs, or the default for grades.
    #[must_use]
    pub fn at_least(&self) -> f64 {
        self.at_least.unwrap_or(RELEVANT_GRADE)
    }

    /// Inputs of the relevance number `number` of a stage: one, if the settings are valid.
    pub(super) fn inputs(&self, number: usize) -> impl Iterator<Item = StageInput> {
        let tables = [
            ("similarity", &self.similarity, tables::caption_similarity::table()),
            ("ratings", &self.ratings, tables::ratings::table()),
            ("qrels", &self.qrels, tables::qrels::table()),
        ];
        tables.into_iter().filter_map(move |(setting, from, table)| {
            Some(StageInput::table(relevance_input(number, setting), from.as_ref()?, &table))
        })
    }

    /// Problems of the settings, which are at `at`.
    pub(super) fn check(&self, at: &str) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut problem = |setting: &str, message: String, hint: &str| {
            let setting = if setting.is_empty() { at.to_owned() } else { format!("{at}.{setting}") };
            problems.push(Problem::new(setting, message).hint(hint));
        };
        if self.name.trim().is_empty() {
            problem("name", "got an empty name".to_owned(), "the name identifies it in results");
        }
        match (&self.similarity, &self.ratings, &self.qrels) {
            (Some(_), None, None) => {
                if self.at_least.is_some() {
                    problem(
                        "at_least",
                        "belongs to `ratings` and `qrels`".to_owned(),
                        "with `similarity`, `neighbours` sets what is relevant",
                    );
                }
                check_distinct(self.neighbours(), |message| problem("neighbours", message, "leave it out for `[5]`"));
            }
            (None, ratings, qrels) if ratings.is_some() != qrels.is_some() => {
                if self.neighbours.is_some() {
                    problem(
                        "neighbours",
                        "belongs to `similarity`".to_owned(),
                        "with `ratings` and `qrels`, `at_least` sets what is relevant",
                    );
                }
                match self.at_least {
                    Some(got) if !got.is_finite() => {
                        problem(
                            "at_least",
                            format!("got {got}, wanted the lowest value of relevant pairs"),
                            "a number",
                        );
                    }
                    None if ratings.is_some() => {
                        let message = "`at_least` is missing, wanted the lowest rating of relevant pairs".to_owned();
                        problem("", message, "Crisscrossed Captions counts pairs from 3.0 of 5 on");
                    }
                    _ => {}
                }
            }
            (None, None, None) => {
                problem("", "names no table".to_owned(), "set `similarity`, `ratings` or `qrels`");
            }
            _ => problem("", "names several tables".to_owned(), "use several relevances, one for each table"),
        }
        if let Some(got) = self.at_least.filter(|got| self.ratings.is_some() && *got > HIGHEST_RATING) {
            let message = format!("got {got}; ratings of Crisscrossed Captions are 0 to {HIGHEST_RATING}");
            problems.push(Problem::warning(format!("{at}.at_least"), message));
        }
        problems
    }
}

/// Name of an input of relevance number `number`.
#[must_use]
pub fn relevance_input(number: usize, setting: &str) -> String {
    format!("relevance.{number}.{setting}")
}
