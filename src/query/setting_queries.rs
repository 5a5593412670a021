//! Checks of `settings['stage.setting']` in queries over all runs: a name that no run has, and an order of numbers as
//! text.
//!
//! DataFusion answers an unknown key of a map with NULL, and `max` and `ORDER BY` compare the texts of the map: `9` comes
//! after `10`. Comparisons with a number, as in `settings['fit.epochs'] > 10`, are those of numbers.
//! The file `setting_comparisons.rs` checks those with a text. A setting that a subquery gives a name of its own, as in
//! `SELECT max(e) FROM (SELECT settings['fit.epochs'] AS e …)`, is not checked.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, OrderByExpr, OrderByKind, Query, SelectItem,
    SetExpr, Value, Visit, Visitor, WindowType,
};
use datafusion::sql::sqlparser::tokenizer::Location;

use crate::errors::error_at;
use crate::names::nearest_names;
use crate::setting_comparisons::check_comparisons;
use crate::settings_column::{SettingKinds, setting};
use pairloom_base::error::{Error, Result};

/// Checks the settings that a query names against those that its tables have. Without results, all names are right.
///
/// # Errors
/// No result has a setting of this name, or numbers are ordered or compared as text.
pub(super) fn check_settings(statement: &Statement, known: &SettingKinds, sql: &str) -> Result<()> {
    if known.is_empty() {
        return Ok(());
    }
    let Statement::Statement(parsed) = statement else { return Ok(()) };
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
