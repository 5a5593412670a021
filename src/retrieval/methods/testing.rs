//! Sample settings of every method, for tests.

use schemars::schema_for;
use serde::Deserialize;
use serde_json::Value as Json;
use toml::{Table, Value};

use super::Method;
use super::method::{ListedMethod, MethodContext, ScoreKind};
use pairloom_kernels::hubness::method::MAX_INVERSE_TEMPERATURE;

/// Settings that [`Method::samples`] cannot derive from the defaults and the schema: activation sets that contain some
/// of the items, weights of different size, more iterations.
const ADDITIONAL_SAMPLES: [&str; 10] = [
    "qb_norm = { k = 1 }",
    "db_norm = { beta_queries = 8.0, dynamic = false }",
    "db_norm = { beta_queries = 8.0, dynamic = true }",
    "dual_softmax = { beta = 20.0 }",
    "sinkhorn = { tau = 0.1, iterations = 7, query_bank = false }",
    "sinkhorn = { tau = 0.1, iterations = 7, query_bank = true }",
    "dual_bank_sinkhorn = { tau = 0.1, iterations = 7 }",
    "localized_centering = { k = 2, gamma = 2.0 }",
    "relaxed_greedy = { lambda = 1.6, capacity = 'strict' }",
    "k_best_assignment = { k = 4 }",
];

impl MethodContext {
    /// Context with everything that a method can need.
    pub fn complete(score_kind: ScoreKind) -> Self {
        Self {
            query_bank: true,
            bank_items: true,
            bank_pairs: true,
            has_validation_split: true,
            bank_of_validation: true,
            score_kind,
        }
    }
}

impl Method {
    /// Every method with settings for a pool of twelve images. Flags and choices have all values, a method inside a
    /// method is each method that is allowed there, and numbers are small.
    pub fn samples() -> Vec<Self> {
        let small = |count: i64, float: fn(f64) -> f64| {
            move |_: &str, value: &Value| match value {
                Value::Integer(_) => vec![Value::Integer(count)],
                Value::Float(default) => vec![Value::Float(float(*default))],
                // The setting is a method itself.
                Value::Table(_) => Self::all().iter().map(value_of).collect(),
                other => vec![other.clone()],
            }
        };
        // With larger exponents, scores of a pool of twelve differ by rounding only.
        let near = |default: f64| default.clamp(0.1, 30.0);
        let all = Self::all();
        let made = all.iter().flat_map(|method| method.with(&small(3, near)));
        let ones = all.iter().flat_map(|method| method.with(&small(1, |_| 1.0)));
        let mut samples: Vec<Self> = Vec::new();
        for method in made.chain(ones).chain(ADDITIONAL_SAMPLES.map(|text| toml::from_str(text).expect("a method"))) {
            if !samples.contains(&method) {
                samples.push(method);
            }
        }
        samples
    }

    /// Every method with the most extreme settings that are valid, with `k` for counts.
    pub fn extremes(k: usize) -> Vec<Self> {
        let k = i64::try_from(k).expect("a count");
        let rising = [0.0, 1e-9, 1.0 / MAX_INVERSE_TEMPERATURE, 1.0, MAX_INVERSE_TEMPERATURE, 1e9, f64::INFINITY]
            .map(Value::Float);
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

    /// The method with all valid combinations of settings. Flags and choices take all their values; `values` returns
    /// the values of any other setting.
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

    /// The method with other settings, if they are valid.
    fn of(&self, settings: Table) -> Option<Self> {
        let table = Table::from_iter([(self.name().to_owned(), Value::Table(settings))]);
        let method = Self::deserialize(table).expect("a method");
        let context = MethodContext::complete(ScoreKind::Cosine);
        method.problems("methods.0", context).is_empty().then_some(method)
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

/// Values of a setting with several choices, by the schema.
fn choices(method: &str, setting: &str) -> Vec<Value> {
    let schema = schema_for!(Method).to_value();
    let settings =
        schema["oneOf"].as_array().expect("methods").iter().map(|one| &one["properties"][method]["properties"]);
    let found = settings.map(|all| &all[setting]).find(|schema| !schema.is_null()).expect("a setting");
    let found = found["$ref"].as_str().map_or(found, |at| schema.pointer(&at[1..]).expect("a definition"));
    let list = |value: &Json| value.as_array().cloned().unwrap_or_default();
    let one = |value: Json| [list(&value["enum"]), vec![value["const"].clone()]].concat();
    let all = list(&found["oneOf"]).into_iter().chain([found.clone()]).flat_map(one);
    all.filter_map(|value| value.as_str().map(|text| Value::String(text.to_owned()))).collect()
}
