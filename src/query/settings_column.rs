//! Column `settings` of tables over all runs in queries: the expressions that read it, and the forms of its values.

use std::collections::BTreeMap;

use datafusion::sql::sqlparser::ast::{AccessExpr, Expr, Ident, Spanned, Subscript, Value};
use datafusion::sql::sqlparser::tokenizer::Location;

/// Name of the column.
pub(super) const SETTINGS: &str = "settings";
/// Prefix of a column of the run if the table has a column of the same name.
pub(super) const RUN_PREFIX: &str = "run_";

/// Settings of the results of a table, by name.
pub(super) type SettingKinds = BTreeMap<String, SettingKind>;

/// Forms in which the values of a setting are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SettingKind {
    has_text: bool,
    has_whole_number: bool,
    has_fraction: bool,
}

impl SettingKind {
    /// Adds a value of the setting.
    pub(super) fn add(&mut self, value: Option<&str>) {
        match value {
            Some(value) if value.parse::<i128>().is_ok() => self.has_whole_number = true,
            Some(value) if value.parse::<f64>().is_ok() => self.has_fraction = true,
            _ => self.has_text = true,
        }
    }

    /// Returns true if all values are numbers.
    pub(super) fn is_number(self) -> bool {
        !self.has_text
    }

    /// Returns true if a value of this kind can be written as `text`.
    pub(super) fn can_be(self, text: &str) -> bool {
        let whole = text.parse::<i128>().is_ok_and(|number| number.to_string() == text);
        let fraction = text.parse().ok().and_then(serde_json::Number::from_f64);
        self.has_whole_number && whole || self.has_fraction && fraction.is_some_and(|number| number.to_string() == text)
    }
}

/// Name and place of the setting that an expression is.
pub(super) fn setting(expr: &Expr) -> Option<(String, Location)> {
    let (root, chain) = match expr {
        Expr::Nested(inner) => return setting(inner),
        Expr::CompoundFieldAccess { root, access_chain } => (root, access_chain),
        _ => return None,
    };
    let (column, subscript) = match (&**root, chain.as_slice()) {
        (Expr::CompoundIdentifier(parts), [AccessExpr::Subscript(subscript)]) => (parts.last()?, subscript),
        // `a.settings['x']` can be a chain of accesses.
        (Expr::Identifier(column), [AccessExpr::Subscript(subscript)])
        | (_, [.., AccessExpr::Dot(Expr::Identifier(column)), AccessExpr::Subscript(subscript)]) => (column, subscript),
        _ => return None,
    };
    if !is_settings(column) {
        return None;
    }
    match subscript {
        Subscript::Index { index: Expr::Value(value) } => match &value.value {
            Value::SingleQuotedString(name) => Some((name.clone(), value.span().start)),
            _ => None,
        },
        _ => None,
    }
}

/// Returns true for the name of the column with settings.
pub(super) fn is_settings(column: &Ident) -> bool {
    let name = column.value.to_lowercase();
    name.strip_prefix(RUN_PREFIX).unwrap_or(&name) == SETTINGS
}

/// Text and place of a literal in single quotes.
pub(super) fn text(expr: &Expr) -> Option<(String, Location)> {
    match expr {
        Expr::Nested(inner) => text(inner),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some((text.clone(), value.span().start)),
            _ => None,
        },
        _ => None,
    }
}
