//! Instances of a stage that a pipeline repeats over the values of its matrix.
//!
//! Patterns of names, in which `*` stands for any characters, choose among them. A stage that is repeated over the axes `row` and `seed` has instances such as `fit@row=1.1,seed=3`.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Sign between the name of a stage and the coordinates of an instance.
pub const INSTANCE_SIGN: char = '@';

/// Returns true for a character of the name of an instance, or of one of its tables: `fit@row=1.1,seed=3.model`.
#[must_use]
pub fn is_instance_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_.@=,+*-".contains(c)
}

/// Coordinate of an instance: an axis of the matrix, and the instance's value on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Coordinate {
    /// Name of the axis.
    pub axis: String,
    /// Value: a text, a number, or a boolean.
    pub value: Value,
}

impl Coordinate {
    /// Text of the value: `1.1`, `3`, `0.05`.
    #[must_use]
    pub fn value_text(&self) -> String {
        value_text(&self.value)
    }
}

/// Text of a value of an axis.
#[must_use]
pub fn value_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Name of the instance of `stage` at these coordinates; `stage` itself if there are none.
#[must_use]
pub fn instance_name(stage: &str, coordinates: &[Coordinate]) -> String {
    let mut name = stage.to_owned();
    for (i, coordinate) in coordinates.iter().enumerate() {
        let sign = if i == 0 { INSTANCE_SIGN } else { ',' };
        let _ = write!(name, "{sign}{}={}", coordinate.axis, coordinate.value_text());
    }
    name
}

/// Name of the stage that an instance repeats: `fit` of `fit@seed=3`. A stage without coordinates is its own.
#[must_use]
pub fn stage_of_instance(name: &str) -> &str {
    name.split_once(INSTANCE_SIGN).map_or(name, |(stage, _)| stage)
}

/// Coordinates in the name of an instance, as axes and texts of values, in order: `row` and `1.1`, `seed` and `3` of
/// `fit@row=1.1,seed=3`. None for a stage that is not repeated.
pub fn coordinate_texts(name: &str) -> impl Iterator<Item = (&str, &str)> {
    let coordinates = name.split_once(INSTANCE_SIGN).map_or("", |(_, coordinates)| coordinates);
    coordinates.split(',').filter_map(|coordinate| coordinate.split_once('='))
}

/// Returns true if an instance has all coordinates that `name` names, in any order: `fit@row=1.1,seed=3` has those of
/// `fit@seed=3` and of `fit@*`, and all have those of `fit`. The names of the stages are not compared.
#[must_use]
pub fn has_coordinates(instance: &str, name: &str) -> bool {
    let named = name.split_once(INSTANCE_SIGN).map_or("", |(_, coordinates)| coordinates);
    let mut items = named.split(',').filter(|item| !item.is_empty() && *item != "*");
    items.all(|item| {
        item.split_once('=').is_some_and(|named| coordinate_texts(instance).any(|coordinate| coordinate == named))
    })
}

/// Returns true if two names have the same coordinates, in any order. The names of the stages are not compared.
#[must_use]
pub fn has_same_coordinates(one: &str, other: &str) -> bool {
    has_coordinates(one, other) && has_coordinates(other, one)
}

/// Names of some instances of a stage among `all` of them: that of the stage for all, `fit@row=1.1` for all with that
/// coordinate, otherwise each name.
#[must_use]
pub fn names_of_instances(some: &[&str], all: &[&str]) -> Vec<String> {
    let Some(first) = some.first() else { return Vec::new() };
    let stage = stage_of_instance(first);
    if some.len() == all.len() {
        // A single instance keeps its coordinates.
        return vec![if all.len() == 1 { (*first).to_owned() } else { stage.to_owned() }];
    }
    let shared = coordinate_texts(first).map(|(axis, value)| format!("{stage}{INSTANCE_SIGN}{axis}={value}"));
    let count = |names: &[&str], name: &str| names.iter().filter(|other| has_coordinates(other, name)).count();
    let mut exact = shared.filter(|name| count(some, name) == some.len() && count(all, name) == some.len());
    exact.next().map_or_else(|| some.iter().map(|name| (*name).to_owned()).collect(), |name| vec![name])
}

/// Sign that stands for any characters of a name.
const ANY: char = '*';

/// True if `name` matches a pattern in which `*` stands for any characters.
pub fn matches_glob(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once(ANY) else { return pattern == name };
    let Some(mut left) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split(ANY).collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_named_by_its_coordinates() {
        let at = |axis: &str, value: Value| Coordinate { axis: axis.to_owned(), value };
        let coordinates = [at("row", "1.1".into()), at("seed", 3.into()), at("margin", 0.05.into())];
        assert_eq!(instance_name("fit", &coordinates), "fit@row=1.1,seed=3,margin=0.05");
        assert_eq!(instance_name("fit", &[]), "fit");
        assert_eq!(stage_of_instance("fit@row=1.1,seed=3"), "fit");
        assert_eq!(stage_of_instance("fit"), "fit");
    }

    #[test]
    fn coordinates_are_named_in_any_order() {
        let instance = "fit@row=1.1,seed=3";
        for name in ["fit", "fit@*", "fit@seed=3", "fit@seed=3,row=1.1", "fit@row=1.1,seed=3"] {
            assert!(has_coordinates(instance, name), "{name}");
        }
        for name in ["fit@seed=4", "fit@sead=3", "fit@3", "fit@row=1.1,seed=3,margin=1"] {
            assert!(!has_coordinates(instance, name), "{name}");
        }
        assert!(has_same_coordinates(instance, "fit@seed=3,row=1.1"));
        assert!(!has_same_coordinates(instance, "fit@seed=3") && !has_same_coordinates(instance, "fit@*"));
    }

    #[test]
    fn some_instances_have_the_coordinate_that_they_alone_share() {
        let all = ["fit@row=a,seed=1", "fit@row=a,seed=2", "fit@row=b,seed=1", "fit@row=b,seed=2"];
        assert_eq!(names_of_instances(&all, &all), ["fit"]);
        assert_eq!(names_of_instances(&all[2..], &all), ["fit@row=b"]);
        assert_eq!(names_of_instances(&[all[0], all[2]], &all), ["fit@seed=1"]);
        assert_eq!(names_of_instances(&all[1..3], &all), all[1..3]);
        assert_eq!(names_of_instances(&all[..3], &all), all[..3]);
        assert_eq!(names_of_instances(&["fit"], &["fit"]), ["fit"]);
        assert_eq!(names_of_instances(&all[..1], &all[..1]), all[..1]);
    }

    #[test]
    fn coordinates_are_read_from_names() {
        let texts = |name: &'static str| coordinate_texts(name).collect::<Vec<_>>();
        assert_eq!(texts("fit@row=1.1,seed=3,margin=0.05"), [("row", "1.1"), ("seed", "3"), ("margin", "0.05")]);
        assert_eq!(texts("fit@seed=-1"), [("seed", "-1")]);
        assert_eq!((texts("fit"), texts("fit@"), texts("")), (vec![], vec![], vec![]));
        let coordinates = [("row", "a+b"), ("seed", "7")];
        let given: Vec<Coordinate> = coordinates
            .iter()
            .map(|(axis, value)| Coordinate { axis: (*axis).into(), value: (*value).into() })
            .collect();
        assert_eq!(coordinate_texts(&instance_name("fit", &given)).collect::<Vec<_>>(), coordinates);
    }

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, name, is_match) in [
            ("sgr", "sgr", true),
            ("sgr", "sgr_sam", false),
            ("sgr*", "sgr", true),
            ("*, coco", "2.9, coco", true),
            ("*, coco", "2.9, f30k", false),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "acb", false),
            ("ab*ba", "aba", false),
            ("*", "", true),
        ] {
            assert_eq!(matches_glob(pattern, name), is_match, "{pattern} {name}");
        }
    }
}
