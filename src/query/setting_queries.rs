//! Checks of `settings['stage.setting']` in queries over all runs: a name that no run has or that has no brackets, and
//! numbers that are ordered or compared as texts.
//!
//! The values of the map are texts. DataFusion answers an unknown key with NULL. It compares the values as numbers with a
//! number, as in `settings['fit.epochs'] > 10`, and as texts with a text, with another setting, and in `max` and `ORDER BY`:
//! `9` comes after `10`, and `0.001` is not equal to `'1e-3'`. A setting that a subquery gives a name of its own, as in
//! `SELECT max(e) FROM (SELECT settings['fit.epochs'] AS e …)`, is not checked.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName,
    ObjectNamePart, OrderByExpr, OrderByKind, Query, SelectItem, SetExpr, Spanned, Statement, Subscript, TableFactor,
    Value, Visit, Visitor, WindowType,
};
use datafusion::sql::sqlparser::tokenizer::Location;

use crate::errors::error_at;
use crate::names::nearest_names;
use pairloom_base::error::{Error, Result};

/// Checks the settings that a query names against those that its tables have. Without results, all names are right.
///
/// # Errors
/// No result has a setting of this name, or numbers are ordered or compared as text.
pub(super) fn check_settings(parsed: &Statement, known: &SettingKinds, sql: &str) -> Result<()> {
    if known.is_empty() {
        return Ok(());
    }
    let mut uses = SettingUses::default();
    let _ = parsed.visit(&mut uses);
    for (name, at) in &uses.named {
        if !known.contains_key(name) {
            return Err(unknown_setting(name, known, sql, *at));
        }
    }
    match uses.ordered.iter().find(|(name, ..)| known.get(name).is_some_and(|kind| kind.is_number())) {
        None => check_comparisons(parsed, known, sql),
        Some((name, by, at)) => {
            let message = format!("{by} compares the setting `{name}` as text");
            let hint = format!("compare numbers: `settings['{name}']::double`");
            Err(error_at(&message, ", in which `9` is after `10`", sql, at.line, at.column).hint(hint))
        }
    }
}

fn unknown_setting(name: &str, known: &SettingKinds, sql: &str, at: Location) -> Error {
    // The name may lack the stage, or parts in the middle: `fit.batch` for `fit.train.batch`.
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let same_end: Vec<&str> = known.keys().map(String::as_str).filter(|other| last(other) == last(name)).collect();
    let near = nearest_names(name, known.keys().map(String::as_str));
    let error = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        let are = if names.len() == 1 { "is" } else { "are" };
        let more = format!("; the nearest {are} {}", names.join(", "));
        error_at(&format!("no result has a setting `{name}`"), &more, sql, at.line, at.column)
    };
    match near.first() {
        Some((distance, best)) if *distance <= 1 + name.len() / 4 => {
            let names: Vec<&str> = near.iter().map(|(_, name)| *name).collect();
            error(&names).hint(format!("did you mean `{best}`?"))
        }
        _ if !same_end.is_empty() => {
            let first = same_end[0];
            error(&same_end[..same_end.len().min(5)]).hint(format!("did you mean `{first}`?"))
        }
        _ => error(&near.iter().map(|(_, name)| *name).collect::<Vec<_>>())
            .hint("`SELECT DISTINCT setting FROM store.settings` lists all, without the name of the stage"),
    }
}

/// Uses of settings in a statement.
#[derive(Default)]
struct SettingUses {
    /// Names, with their places.
    named: Vec<(String, Location)>,
    /// Names whose values are ordered, by a clause or function, with their places.
    ordered: Vec<(String, String, Location)>,
}

impl SettingUses {
    fn order(&mut self, expr: &Expr, by: &str) {
        if let Some((name, at)) = setting(expr) {
            self.ordered.push((name, by.to_owned(), at));
        }
    }

    /// Records settings in `ORDER BY`, named directly, by an alias, or by the position of a column.
    fn order_by(&mut self, expr: &OrderByExpr, items: &[SelectItem]) {
        let of_item = |item: &SelectItem| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr.clone()),
            _ => None,
        };
        let referred = match &expr.expr {
            Expr::Identifier(name) => items.iter().find_map(|item| match item {
                SelectItem::ExprWithAlias { expr, alias } if alias.value.eq_ignore_ascii_case(&name.value) => {
                    Some(expr.clone())
                }
                _ => None,
            }),
            Expr::Value(value) => match &value.value {
                Value::Number(number, _) => {
                    let position: Option<usize> = number.parse().ok();
                    position.and_then(|position| items.get(position.checked_sub(1)?)).and_then(of_item)
                }
                _ => None,
            },
            _ => None,
        };
        self.order(referred.as_ref().unwrap_or(&expr.expr), "`ORDER BY`");
    }
}

impl Visitor for SettingUses {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let items = match &*query.body {
            SetExpr::Select(select) => select.projection.as_slice(),
            _ => &[],
        };
        if let Some(OrderByKind::Expressions(orders)) = query.order_by.as_ref().map(|order| &order.kind) {
            for order in orders {
                self.order_by(order, items);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if matches!(expr, Expr::CompoundFieldAccess { .. }) {
            self.named.extend(setting(expr));
        }
        if let Expr::Function(call) = expr {
            let name = call.name.to_string().to_lowercase();
            if let ("min" | "max", Some(argument)) = (name.as_str(), only_argument(call)) {
                self.order(argument, &format!("`{name}`"));
            }
            if let Some(WindowType::WindowSpec(window)) = &call.over {
                for order in &window.order_by {
                    self.order_by(order, &[]);
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// The argument of a function of one argument.
fn only_argument(call: &Function) -> Option<&Expr> {
    let FunctionArguments::List(list) = &call.args else { return None };
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))] => Some(expr),
        _ => None,
    }
}

/// Checks the comparisons of settings in a query, and names of settings without brackets.
///
/// # Errors
/// Numbers are compared as text, or a setting is named as a column.
pub(super) fn check_comparisons(statement: &Statement, known: &SettingKinds, sql: &str) -> Result<()> {
    let mut tables = NamedTables::default();
    let _ = statement.visit(&mut tables);
    let mut checks = ComparisonChecks { known, tables: tables.0, sql };
    match statement.visit(&mut checks) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Names before a dot that are tables: aliases, names and schemas of the tables of a statement, in lower case.
#[derive(Default)]
struct NamedTables(BTreeSet<String>);

impl NamedTables {
    fn add(&mut self, name: &Ident) {
        self.0.insert(name.value.to_lowercase());
    }
}

impl Visitor for NamedTables {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        for table in query.with.iter().flat_map(|with| &with.cte_tables) {
            self.add(&table.alias.name);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        for part in &relation.0 {
            if let ObjectNamePart::Identifier(name) = part {
                self.add(name);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<()> {
        let (TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::UNNEST { alias: Some(alias), .. }) = table
        else {
            return ControlFlow::Continue(());
        };
        self.add(&alias.name);
        ControlFlow::Continue(())
    }
}

/// Visitor that ends at the first wrong use of a setting.
struct ComparisonChecks<'q> {
    known: &'q SettingKinds,
    tables: BTreeSet<String>,
    sql: &'q str,
}

impl Visitor for ComparisonChecks<'_> {
    type Break = Error;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Error> {
        match self.mistake(expr) {
            Some(error) => ControlFlow::Break(error),
            None => ControlFlow::Continue(()),
        }
    }
}

impl ComparisonChecks<'_> {
    fn mistake(&self, expr: &Expr) -> Option<Error> {
        match expr {
            Expr::CompoundIdentifier(parts) => self.dotted(parts),
            Expr::BinaryOp { left, op: BinaryOperator::Arrow | BinaryOperator::LongArrow, right } => {
                let column = match &**left {
                    Expr::Identifier(column) => column,
                    Expr::CompoundIdentifier(parts) => parts.last()?,
                    _ => return None,
                };
                // A comparison binds closer than the arrow.
                let key = if let Expr::BinaryOp { left, .. } = &**right { left } else { right };
                let (name, _) = text(key)?;
                (is_settings(column)).then(|| self.no_column(&expr.to_string(), &name, column.span.start))
            }
            Expr::BinaryOp { left, op, right } => {
                use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
                match op {
                    Lt | LtEq | Gt | GtEq => {
                        self.order(left, right, &op.to_string(), |left, right| format!("{left} {op} {right}"))
                    }
                    Eq | NotEq => self.equality(left, right).or_else(|| self.equality(right, left)),
                    _ => None,
                }
            }
            Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
                self.equality(left, right).or_else(|| self.equality(right, left))
            }
            Expr::Between { expr, negated, low, high } => {
                let not = if *negated { "NOT " } else { "" };
                let low_hint = |value: &str, low: &str| format!("{value} {not}BETWEEN {low} AND {}", unquoted(high));
                let high_hint = |value: &str, high: &str| format!("{value} {not}BETWEEN {} AND {high}", unquoted(low));
                let at_low = self.order(expr, low, "BETWEEN", low_hint);
                at_low.or_else(|| self.order(expr, high, "BETWEEN", high_hint))
            }
            Expr::InList { expr, list, .. } => list.iter().find_map(|item| self.equality(expr, item)),
            _ => None,
        }
    }

    /// Name and place of an expression that is a setting with numbers only.
    fn number(&self, expr: &Expr) -> Option<(String, Location)> {
        setting(expr).filter(|(name, _)| self.known.get(name).is_some_and(|kind| kind.is_number()))
    }

    /// Mistake of an order of a number and a text, or of two settings. `hint` writes the comparison of two sides.
    fn order(&self, left: &Expr, right: &Expr, by: &str, hint: impl Fn(&str, &str) -> String) -> Option<Error> {
        let (name, at) = self.number(left).or_else(|| self.number(right))?;
        let hint = if setting(left).is_some() && setting(right).is_some() {
            hint(&format!("{left}::double"), &format!("{right}::double"))
        } else {
            let (value, _) = text(left).or_else(|| text(right))?;
            let is_number = value.parse::<f64>().is_ok();
            let sides = [left, right].map(unquoted);
            if is_number { hint(&sides[0], &sides[1]) } else { format!("settings['{name}']::double") }
        };
        let message = format!("`{by}` compares the setting `{name}` as text");
        let error = error_at(&message, ", in which `9` is after `10`", self.sql, at.line, at.column);
        Some(error.hint(format!("compare numbers: `{hint}`")))
    }

    /// Mistake of a setting that is compared with a number as text, in a form that the setting never has.
    fn equality(&self, side: &Expr, other: &Expr) -> Option<Error> {
        let (name, _) = self.number(side)?;
        let (value, at) = text(other)?;
        let is_wrong = value.parse::<f64>().is_ok() && !self.known.get(&name)?.can_be(&value);
        let message = format!("the text `'{value}'`");
        let more = format!(" equals no value of the setting `{name}`, whose numbers are written in another form");
        is_wrong.then(|| {
            let error = error_at(&message, &more, self.sql, at.line, at.column);
            error.hint(format!("compare numbers, without quotes: `settings['{name}']::double = {value}`"))
        })
    }

    /// Mistake of a setting that is named with dots: `settings.fit.seed`, or `fit.seed`.
    fn dotted(&self, parts: &[Ident]) -> Option<Error> {
        let join = |parts: &[Ident]| parts.iter().map(|part| part.value.as_str()).collect::<Vec<_>>().join(".");
        let first = parts.first()?;
        let name = match parts.iter().position(is_settings) {
            Some(column) => join(&parts[column + 1..]),
            None if self.tables.contains(&first.value.to_lowercase()) => return None,
            None => join(parts),
        };
        self.known.contains_key(&name).then(|| self.no_column(&join(parts), &name, first.span.start))
    }

    fn no_column(&self, got: &str, name: &str, at: Location) -> Error {
        let error = error_at(&format!("`{got}` is no column"), "", self.sql, at.line, at.column);
        error.hint(format!("a setting is `settings['{name}']`"))
    }
}

/// Expression as the query writes it, a number in quotes without them.
fn unquoted(expr: &Expr) -> String {
    match text(expr) {
        Some((text, _)) if text.parse::<f64>().is_ok() => text,
        _ => expr.to_string(),
    }
}

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

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::{DFParser, Statement as ParsedStatement};

    use super::*;

    /// Message and hint of a condition, over settings `fit.epochs` (whole), `fit.clip` (fractions), `fit.loss` (text).
    fn check(condition: &str) -> Option<(String, String)> {
        let mut known = SettingKinds::new();
        for (name, value) in
            [("fit.epochs", "9"), ("fit.epochs", "10"), ("fit.clip", "2.0"), ("fit.clip", "0.001"), ("fit.loss", "max")]
        {
            known.entry(name.to_owned()).or_default().add(Some(value));
        }
        let sql = format!("SELECT 1 FROM all_runs.summary a JOIN store.settings ON true WHERE {condition}");
        let Some(ParsedStatement::Statement(statement)) = DFParser::parse_sql(&sql).unwrap().remove(0) else {
            panic!()
        };
        let error = check_comparisons(&statement, &known, &sql).err()?;
        Some((error.to_string(), error.hint_text().unwrap_or_default().to_owned()))
    }

    #[test]
    fn numbers_are_not_compared_as_text() {
        for (condition, hint) in [
            ("settings['fit.epochs'] > '10'", "compare numbers: `settings['fit.epochs'] > 10`"),
            ("'10' <= a.settings['fit.epochs']", "compare numbers: `10 <= a.settings['fit.epochs']`"),
            ("(settings['fit.epochs']) < 'x'", "compare numbers: `settings['fit.epochs']::double`"),
            (
                "settings['fit.epochs'] BETWEEN '10' AND '30'",
                "compare numbers: `settings['fit.epochs'] BETWEEN 10 AND 30`",
            ),
            (
                "settings['fit.epochs'] NOT BETWEEN 10 AND '30'",
                "compare numbers: `settings['fit.epochs'] NOT BETWEEN 10 AND 30`",
            ),
            (
                "settings['fit.epochs'] >= settings['fit.clip']",
                "compare numbers: `settings['fit.epochs']::double >= settings['fit.clip']::double`",
            ),
            ("settings['fit.clip'] = '1e-3'", "compare numbers, without quotes: `settings['fit.clip']::double = 1e-3`"),
            ("settings['fit.clip'] <> '2'", "compare numbers, without quotes: `settings['fit.clip']::double = 2`"),
            (
                "settings['fit.epochs'] IN ('9', '1e1')",
                "compare numbers, without quotes: `settings['fit.epochs']::double = 1e1`",
            ),
        ] {
            let (message, got) = check(condition).expect(condition);
            assert_eq!(got, hint, "{condition}: {message}");
        }
        let (message, _) = check("settings['fit.epochs'] > '10'").unwrap();
        assert!(
            message.starts_with("SQL: `>` compares the setting `fit.epochs` as text at line 1, column "),
            "{message}"
        );
        for right in [
            "settings['fit.epochs'] > 10",
            "settings['fit.epochs'] = '12'",
            "settings['fit.epochs'] IN ('1', '2')",
            "settings['fit.epochs'] BETWEEN 1 AND 3",
            "settings['fit.clip'] = '0.5'",
            "settings['fit.loss'] > 'a'",
            "settings['fit.loss'] = '1e-3'",
            "settings['fit.epochs']::double > settings['fit.clip']::double",
            "settings['fit.epochs'] = settings['fit.clip']",
        ] {
            assert_eq!(check(right), None);
        }
    }

    #[test]
    fn a_setting_is_no_column() {
        for wrong in
            ["settings.fit.epochs > 1", "fit.epochs > 1", "a.settings.fit.epochs > 1", "settings->'fit.epochs' = 'x'"]
        {
            let (message, hint) = check(wrong).expect(wrong);
            assert_eq!(hint, "a setting is `settings['fit.epochs']`", "{message}");
            assert!(message.contains("is no column at line 1, column "), "{message}");
        }
        for right in ["settings.value = '1'", "a.epochs = 1", "a.fit = 1"] {
            assert_eq!(check(right), None);
        }
    }
}
