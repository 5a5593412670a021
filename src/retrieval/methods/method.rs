//! Trait of ranking methods, the types of its interface, the statistical methods of
//! [`kernels::hubness`](pairloom_kernels::hubness), and parameters as text: `k = 10`.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::ranking::{DirectionCorrections, Ranker, RankingRequest, Rankings};
use pairloom_base::error::{Problem, Result};
use pairloom_kernels::hubness::distance::Distance;
use pairloom_kernels::hubness::method::{ParameterProblems, StatisticalMethod};
use pairloom_search::SearchProgress;

#[cfg(test)]
use super::reference_scores::ReferenceScores;
#[cfg(test)]
use pairloom_kernels::hubness::method::DenseScores;

/// Scores that a method learns from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LearnsFrom {
    /// No scores except those of the query itself.
    Nothing,
    /// Scores of the bank.
    QueryBank,
    /// Scores of all test queries.
    TestQueries,
}

impl LearnsFrom {
    /// The bank, or the test.
    pub(super) fn from_bank(bank: bool) -> Self {
        if bank { Self::QueryBank } else { Self::TestQueries }
    }
}

/// Context that the settings of a method are checked in.
#[derive(Debug, Clone, Copy)]
pub struct MethodContext {
    /// True if there is a bank.
    pub query_bank: bool,
    /// True if the bank has items too, beside its queries.
    pub bank_items: bool,
    /// True if there are scores of the bank's images with its captions.
    pub bank_pairs: bool,
    /// True if there is a validation split.
    pub has_validation_split: bool,
    /// True if there are scores of the bank with the validation split.
    pub bank_of_validation: bool,
    /// Kind of the scores.
    pub score_kind: ScoreKind,
}

impl MethodContext {
    /// Problem of a method that reads the items of a bank, if there are none.
    pub(super) fn bank_items_problem(self, at: &str) -> Option<Problem> {
        let lacks_items = self.query_bank && !self.bank_items;
        lacks_items.then(|| Problem::new(at, "learns from the items of a bank too, and there are none"))
    }
}

/// Kind of scores that a method corrects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScoreKind {
    /// Cosines of unit vectors.
    Cosine,
    /// Order similarities of vectors.
    Order,
    /// Stored scores of images with captions, without vectors.
    Model,
    /// Scores of images with captions that a model computes image by image, whenever a method asks for them.
    Streamed,
}

impl ScoreKind {
    /// Reason why a method that compares items with items cannot use such scores, if it cannot.
    pub(super) fn between_items_refusal(self) -> Option<&'static str> {
        let message = "compares items with items, and these scores compare images with captions only";
        (self != Self::Cosine).then_some(message)
    }

    /// Conversion of such scores into distances.
    pub(super) fn distance(self) -> Distance {
        match self {
            Self::Cosine => Distance::Cosine,
            Self::Order => Distance::Order,
            Self::Model | Self::Streamed => Distance::OneMinusScore,
        }
    }
}

/// Ranking method, implemented by the struct of its settings.
///
/// Most methods only provide corrections of scores; a matching implements `rank` itself.
pub(crate) trait RankingMethod {
    /// Scores that it learns from.
    fn learns_from(&self) -> LearnsFrom;

    /// Computes the corrections of scores. With `comparable`, corrected scores of different queries must be comparable.
    fn corrections(
        &self,
        ranker: &Ranker<'_>,
        comparable: bool,
        progress: &mut dyn SearchProgress,
    ) -> Result<DirectionCorrections>;

    /// Ranks all queries of both directions, by corrected scores unless a method overrides this.
    fn rank(
        &self,
        ranker: &Ranker<'_>,
        request: &RankingRequest<'_>,
        progress: &mut dyn SearchProgress,
    ) -> Result<[Rankings; 2]> {
        let corrections = self.corrections(ranker, false, progress)?;
        ranker.rank_corrected(&corrections, request, progress)
    }

    /// Problems of its parameters: the name of the setting, and a message.
    fn problems(&self) -> ParameterProblems {
        ParameterProblems::new()
    }

    /// Problems of methods nested in this one, whose path in the pipeline file is `at`.
    fn nested_problems(&self, _at: &str, _context: MethodContext) -> Vec<Problem> {
        Vec::new()
    }

    /// Settings that have no effect with the current values of the others, and so are left out of labels.
    fn unused_settings(&self) -> &'static [&'static str] {
        &[]
    }

    /// Reason why the method cannot use such scores, if it cannot.
    fn refusal(&self, _scores: ScoreKind) -> Option<&'static str> {
        None
    }

    /// True if it corrects distances.
    fn needs_distances(&self) -> bool {
        false
    }

    /// Returns true if corrected scores of different queries are comparable, so that a matching can be computed from
    /// them.
    fn compares_queries(&self) -> bool {
        false
    }

    /// Returns true if results depend on the query bank, so that labels name it.
    fn uses_query_bank(&self) -> bool {
        self.learns_from() == LearnsFrom::QueryBank
    }

    /// Corrected scores by the definition, on matrices in f64; comparable across queries if the method says so. `None`
    /// if the method corrects no scores.
    #[cfg(test)]
    fn reference_scores(&self, reference: &ReferenceScores<'_>) -> Option<DenseScores>;
}

/// List of all methods, for methods that have other methods in their settings.
pub(crate) trait ListedMethod: RankingMethod + Sized {
    /// All methods with their default settings.
    fn all() -> Vec<Self>;
    /// Name of the method in pipeline files.
    fn name(&self) -> &'static str;
    /// Problems of the settings of the method, whose path in the pipeline file is `at`.
    fn problems_at(&self, at: &str, context: MethodContext) -> Vec<Problem>;
}

impl<M: StatisticalMethod> RankingMethod for M {
    fn learns_from(&self) -> LearnsFrom {
        LearnsFrom::from_bank(self.is_inductive())
    }

    fn corrections(
        &self,
        ranker: &Ranker<'_>,
        comparable: bool,
        progress: &mut dyn SearchProgress,
    ) -> Result<DirectionCorrections> {
        ranker.statistical_corrections(self, comparable, progress)
    }

    fn problems(&self) -> ParameterProblems {
        StatisticalMethod::problems(self)
    }

    fn refusal(&self, scores: ScoreKind) -> Option<&'static str> {
        StatisticalMethod::refusal(self, scores.distance())
    }

    fn needs_distances(&self) -> bool {
        self.required_statistics().needs_distances
    }

    fn compares_queries(&self) -> bool {
        StatisticalMethod::compares_queries(self)
    }

    #[cfg(test)]
    fn reference_scores(&self, reference: &ReferenceScores<'_>) -> Option<DenseScores> {
        let others = reference.bank_if(self.is_inductive()).unwrap_or(&reference.test);
        Some(self.definition(&reference.test, others, reference.distance))
    }
}

/// Value of a setting.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
enum SettingValue {
    Flag(bool),
    Number(serde_json::Number),
    Text(String),
    Settings(OrderedSettings),
    List(Vec<SettingValue>),
    /// Infinity, which is `null` in JSON.
    Infinity,
}

/// Settings by name, in the order of their declaration.
#[derive(Debug, Clone, PartialEq)]
struct OrderedSettings(Vec<(String, SettingValue)>);

impl<'de> Deserialize<'de> for OrderedSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = OrderedSettings;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("settings by name")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<OrderedSettings, M::Error> {
                let mut all = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    all.push(entry);
                }
                Ok(OrderedSettings(all))
            }
        }

        deserializer.deserialize_map(Entries)
    }
}

/// Parameters of a method as texts such as `beta = 30`, in the order of its settings. A flag is named if it is set; an
/// option with several choices and a nested method are named if they are not the default.
pub(super) fn parameters<M: Serialize>(method: &M, default: &M, unused: &[&str]) -> Vec<String> {
    let read = |method: &M| -> Option<OrderedSettings> {
        let OrderedSettings(mut by_name) = serde_json::from_str(&serde_json::to_string(method).ok()?).ok()?;
        match by_name.pop() {
            Some((_, SettingValue::Settings(settings))) => Some(settings),
            _ => None,
        }
    };
    match (read(method), read(default)) {
        (Some(settings), Some(default)) => texts(&settings, &default, unused),
        _ => Vec::new(),
    }
}

/// Texts of settings, compared with the default.
fn texts(
    OrderedSettings(all): &OrderedSettings,
    OrderedSettings(default): &OrderedSettings,
    unused: &[&str],
) -> Vec<String> {
    let mut texts = Vec::new();
    // The caller adds the name of the query bank.
    for (name, setting) in all.iter().filter(|(name, _)| name != "query_bank" && !unused.contains(&name.as_str())) {
        let is_default = default.iter().any(|(other, value)| other == name && value == setting);
        match setting {
            SettingValue::Flag(true) => texts.push(name.clone()),
            SettingValue::Number(number) => match number.as_u64() {
                Some(count) => texts.push(format!("{name} = {count}")),
                None => texts.push(format!("{name} = {}", number.as_f64().unwrap_or(f64::NAN))),
            },
            SettingValue::Infinity => texts.push(format!("{name} = inf")),
            SettingValue::Text(text) if !is_default => texts.push(text.clone()),
            SettingValue::Settings(OrderedSettings(inner)) if !is_default => {
                if let Some((method, SettingValue::Settings(settings))) = inner.first() {
                    texts.push(format!("{name} {method}"));
                    texts.extend(self::texts(settings, &OrderedSettings(Vec::new()), &[]));
                }
            }
            SettingValue::Flag(false) | SettingValue::Text(_) | SettingValue::Settings(_) | SettingValue::List(_) => {}
        }
    }
    texts
}
