//! Settings to test every method with, made of its default ones and of the schema: no file of a method names any.

use schemars::schema_for;
use serde::Deserialize;
use serde_json::Value as Json;
use toml::{Table, Value};

use super::Method;
use super::method::{Given, Listed, ScoreKind};
use crate::kernels::hubness::problems::LARGEST_BETA;

/// Settings that are not made by rule: activation sets of some items, weights of different size, more iterations.
const MORE: [&str; 10] = [
    "qb_norm = { k = 1 }",
    "db_norm = { beta_queries = 8.0, dynamic = false }",
    "db_norm = { beta_queries = 8.0, dynamic = true }",
    "dual_softmax = { beta = 20.0 }",
    "sinkhorn = { tau = 0.1, iterations = 7, bank = false }",
    "sinkhorn = { tau = 0.1, iterations = 7, bank = true }",
    "dual_bank_sinkhorn = { tau = 0.1, iterations = 7 }",
    "localized_centering = { k = 2, gamma = 2.0 }",
    "relaxed_greedy = { lambda = 1.6, strict = true }",
    "k_best_assignment = { k = 4 }",
];

impl Method {
    /// Settings of every method, small enough for a pool of twelve: all flags and choices, over each method that it may be
    /// over, with small numbers.
    pub(crate) fn samples() -> Vec<Self> {
        let small = |count: i64, float: fn(f64) -> f64| {
            move |_: &str, value: &Value| match value {
                Value::Integer(_) => vec![Value::Integer(count)],
                Value::Float(default) => vec![Value::Float(float(*default))],
                // A method.
                Value::Table(_) => Self::all().iter().map(value_of).collect(),
                other => vec![other.clone()],
            }
        };
        // In a pool of twelve larger exponents than these leave no difference but rounding.
        let near = |default: f64| default.clamp(0.1, 30.0);
        let all = Self::all();
        let made = all.iter().flat_map(|method| method.with(&small(3, near)));
        let ones = all.iter().flat_map(|method| method.with(&small(1, |_| 1.0)));
        let mut samples: Vec<Self> = Vec::new();
        for method in made.chain(ones).chain(MORE.map(|text| toml::from_str(text).expect("a method"))) {
            if !samples.contains(&method) {
                samples.push(method);
            }
        }
        samples
    }

    /// The most extreme settings of all methods that pass their checks, with `k` for counts.
    pub(crate) fn extremes(k: usize) -> Vec<Self> {
        let k = i64::try_from(k).expect("a count");
        let rising = [0.0, 1e-9, 1.0 / LARGEST_BETA, 1.0, LARGEST_BETA, 1e9, f64::INFINITY].map(Value::Float);
        let extreme = |method: &Self| {
            let values = |name: &str, value: &Value| match value {
                Value::Integer(_) if name == "k" => [1, k].map(Value::Integer).to_vec(),
                Value::Integer(_) => vec![Value::Integer(3)],
                Value::Float(_) => {
                    let fits = |value: &&Value| method.of(set(&method.settings(), name, value)).is_some();
                    let ends = [rising.iter().find(fits), rising.iter().rfind(fits)];
                    ends.into_iter().flatten().cloned().collect()
                }
                other => vec![other.clone()],
            };
            method.with(&values)
        };
        Self::all().iter().flat_map(extreme).collect()
    }

    /// The method with all combinations of values of its settings that work; of flags and choices all values.
    fn with(&self, values: &dyn Fn(&str, &Value) -> Vec<Value>) -> Vec<Self> {
        let mut combinations = vec![self.settings()];
        for (name, value) in self.settings() {
            let values = match value {
                Value::Boolean(_) => [false, true].map(Value::Boolean).to_vec(),
                Value::String(_) => choices(self.name(), &name),
                value => values(&name, &value),
            };
            let every = |settings: &Table| values.iter().map(|value| set(settings, &name, value)).collect::<Vec<_>>();
            combinations = combinations.iter().flat_map(every).collect();
        }
        combinations.into_iter().filter_map(|settings| self.of(settings)).collect()
    }

    fn settings(&self) -> Table {
        value_of(self)[self.name()].as_table().expect("settings").clone()
    }

    /// The method with other settings, if they work.
    fn of(&self, settings: Table) -> Option<Self> {
        let table = Table::from_iter([(self.name().to_owned(), Value::Table(settings))]);
        let method = Self::deserialize(table).expect("a method");
        let given = Given { bank: true, validation: true, scores: ScoreKind::Cosine };
        method.problems("methods.0", given).is_empty().then_some(method)
    }
}

fn value_of(method: &Method) -> Value {
    Value::try_from(method).expect("a table")
}

fn set(settings: &Table, name: &str, value: &Value) -> Table {
    let mut settings = settings.clone();
    settings.insert(name.to_owned(), value.clone());
    settings
}

/// The values of a setting that is a choice, by the schema.
fn choices(method: &str, setting: &str) -> Vec<Value> {
    let schema = schema_for!(Method).to_value();
    let settings =
        schema["oneOf"].as_array().expect("methods").iter().map(|one| &one["properties"][method]["properties"]);
    let of = settings.map(|all| &all[setting]).find(|of| !of.is_null()).expect("a setting");
    let of = of["$ref"].as_str().map_or(of, |at| schema.pointer(&at[1..]).expect("a definition"));
    let list = |of: &Json| of.as_array().cloned().unwrap_or_default();
    let one = |of: Json| [list(&of["enum"]), vec![of["const"].clone()]].concat();
    let all = list(&of["oneOf"]).into_iter().chain([of.clone()]).flat_map(one);
    all.filter_map(|value| value.as_str().map(|text| Value::String(text.to_owned()))).collect()
}
