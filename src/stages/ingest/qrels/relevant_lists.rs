//! JSON objects that map each query to the list of its relevant items.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::Path;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use pairloom_base::error::{Result, ValidationErrors};
use pairloom_formats::json;
use pairloom_formats::trec::Judgement;
use pairloom_storage::image_names::shown_name;

/// Description of a valid file, for error messages.
const EXPECTED_FORMAT: &str = "a list of relevant items for each query, `{\"42\": [16, 23]}`";

/// Judgements in the order of the file, with its mistakes.
///
/// They are checked while the file is parsed, which keeps whole numbers only: a [`Value`] for each wrong item would take
/// 70 times as much memory as the file. There are at most `MOST` queries and items.
struct RelevantLists<const MOST: usize> {
    judgements: Vec<Judgement>,
    mistakes: ValidationErrors,
}

/// Reads the file at `path`, with at most `MOST` queries and items. Every listed item has the grade 1.
///
/// # Errors
/// The file is not such an object, or has more; a query or an item is not a whole number, or occurs twice. The error names
/// the query.
pub(super) fn read<const MOST: usize>(path: &Path, check: impl Fn() -> Result<()>) -> Result<Vec<Judgement>> {
    let RelevantLists::<MOST> { judgements, mistakes } = json::read_while(path, EXPECTED_FORMAT, check)?;
    mistakes.of_file(path).into_result()?;
    Ok(judgements)
}

impl<'de, const MOST: usize> Deserialize<'de> for RelevantLists<MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(RelevantListsVisitor)
    }
}

struct RelevantListsVisitor<const MOST: usize>;

impl<'de, const MOST: usize> Visitor<'de> for RelevantListsVisitor<MOST> {
    type Value = RelevantLists<MOST>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<RelevantLists<MOST>, M::Error> {
        let mut lists = RelevantLists { judgements: Vec::new(), mistakes: ValidationErrors::in_table("") };
        // Key of each query in the file; empty for the usual form of its number.
        let mut queries: HashMap<i64, Box<str>> = HashMap::new();
        while let Some(key) = map.next_key::<String>()? {
            let shown = shown_name(&key);
            let Ok(query) = key.trim().parse::<i64>() else {
                lists.mistakes.add(format_args!("query `{shown}`"), "wanted a whole number");
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let kept = if key == query.to_string() { "" } else { &key };
            if let Some(first) = queries.insert(query, kept.into()) {
                let number = query.to_string();
                let first: &str = if first.is_empty() { &number } else { &first };
                let same = if first == key { String::new() } else { format!(", before as `{}`", shown_name(first)) };
                lists.mistakes.add(format_args!("query `{shown}`"), format_args!("it appears twice{same}"));
            }
            let most = MOST.saturating_sub(queries.len());
            let RelevantLists { judgements, mistakes } = &mut lists;
            map.next_value_seed(ListOfQuery { query, shown, judgements, mistakes, most })?;
            if judgements.len() > most {
                return Err(M::Error::custom(format_args!("more than {MOST} queries and items")));
            }
        }
        Ok(lists)
    }
}

/// Reader of the value of a query, a list of items.
struct ListOfQuery<'l> {
    query: i64,
    /// Query in messages.
    shown: Cow<'l, str>,
    judgements: &'l mut Vec<Judgement>,
    mistakes: &'l mut ValidationErrors,
    /// Number of judgements with those of this list after which the others are left out.
    most: usize,
}

impl ListOfQuery<'_> {
    fn add_mistake(self, found: &str) {
        let place = format!("query `{}`", self.shown);
        self.mistakes.add(place, format_args!("it has {found}, wanted a list of items"));
    }
}

impl<'de> DeserializeSeed<'de> for ListOfQuery<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ListOfQuery<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut items: S) -> Result<(), S::Error> {
        let Self { query, shown, judgements, mistakes, most } = self;
        let mut seen = HashSet::new();
        let mut index = 0_u64;
        while let Some(item) = items.next_element()? {
            match item {
                ListedItem::Id(item) if judgements.len() <= most && !seen.insert(item) => {
                    mistakes.add(format_args!("query `{shown}`"), format_args!("item {item} appears twice"));
                }
                ListedItem::Id(_) if judgements.len() > most => {}
                ListedItem::Id(item) => judgements.push(Judgement { query, item, grade: 1.0 }),
                wrong => mistakes.add(
                    format_args!("query `{shown}`"),
                    format_args!("item {index} (from 0) is {wrong}, wanted a whole number"),
                ),
            }
            index += 1;
        }
        Ok(())
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<(), M::Error> {
        IgnoredAny.visit_map(map)?;
        self.add_mistake("an object");
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.add_mistake("null");
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        self.add_mistake("a truth value");
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        self.add_mistake("a number");
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        self.add_mistake("a number");
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        self.add_mistake("a number");
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        self.add_mistake("a text");
        Ok(())
    }
}

/// Item of a list: a whole number, or a value of another type.
enum ListedItem {
    Id(i64),
    /// Value without items: null, a truth value, another number, or a text.
    Scalar(Value),
    Collection(&'static str),
}

impl fmt::Display for ListedItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => write!(f, "{id}"),
            Self::Scalar(value) => f.write_str(&shown_name(&value.to_string())),
            Self::Collection(kind) => f.write_str(kind),
        }
    }
}

impl<'de> Deserialize<'de> for ListedItem {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ListedItemVisitor)
    }
}

struct ListedItemVisitor;

impl<'de> Visitor<'de> for ListedItemVisitor {
    type Value = ListedItem;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number")
    }

    fn visit_i64<E>(self, value: i64) -> Result<ListedItem, E> {
        Ok(ListedItem::Id(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<ListedItem, E> {
        Ok(i64::try_from(value).map_or_else(|_| ListedItem::Scalar(value.into()), ListedItem::Id))
    }

    fn visit_f64<E>(self, value: f64) -> Result<ListedItem, E> {
        Ok(ListedItem::Scalar(value.into()))
    }

    fn visit_unit<E>(self) -> Result<ListedItem, E> {
        Ok(ListedItem::Scalar(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<ListedItem, E> {
        Ok(ListedItem::Scalar(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<ListedItem, E> {
        Ok(ListedItem::Scalar(value.into()))
    }

    fn visit_seq<S: SeqAccess<'de>>(self, items: S) -> Result<ListedItem, S::Error> {
        IgnoredAny.visit_seq(items)?;
        Ok(ListedItem::Collection("a list"))
    }

    fn visit_map<M: MapAccess<'de>>(self, fields: M) -> Result<ListedItem, M::Error> {
        IgnoredAny.visit_map(fields)?;
        Ok(ListedItem::Collection("an object"))
    }
}
