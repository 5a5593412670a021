//! The SQL of a session: what a parsed query may have. The rest is refused, with its place and the form to write instead.
//!
//! A query has joins, groups, windows, common table expressions, set operations, and subqueries that depend on no outer row:
//! in `FROM`, in place of a value, and behind `IN` and `EXISTS`. One kind of subquery may read the row beside it: the nearest
//! rows, `LATERAL (SELECT … ORDER BY distance LIMIT k)`.
//!
//! The walk is a list of what is allowed. A structure of the parser is taken apart field by field, so that a new field does
//! not compile before somebody has decided; a new kind of expression or table is refused. Operators, types and the number of
//! arguments are DataFusion's to refuse, which it does.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::common::TableReference;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result as SqlResult;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr as PlanExpr, LogicalPlan};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Cte, DuplicateTreatment, Expr, Function, FunctionArgumentClause, FunctionArgumentList,
    FunctionArguments, GroupByExpr, Join, JoinConstraint, JoinOperator, LimitClause, ObjectName, ObjectNamePart,
    OrderBy, OrderByExpr, OrderByKind, Query, Select, SelectFlavor, SelectItem, SetExpr, SetOperator, SetQuantifier,
    Spanned, Statement, TableAlias, TableFactor, TableFunctionArgs, TableWithJoins, Visit, Visitor,
    WildcardAdditionalOptions, WindowType, With,
};
use datafusion::sql::sqlparser::tokenizer::Location;

use crate::errors::error_at;
use crate::names::last_place_of;
use pairloom_base::error::{Error, Result};
use pairloom_base::suggest::closest_name;

/// Refuses a query that is not of this SQL.
///
/// # Errors
/// It has another construct, or a function that does not exist.
pub(super) fn check_statement(statement: &Statement, state: &SessionState, sql: &str) -> Result<()> {
    check(statement, state, sql, true)
}

/// Refuses a condition on the columns of a table that is not of this SQL.
///
/// # Errors
/// It has another construct, a function that does not exist, or a subquery.
pub(super) fn check_condition(condition: &Expr, state: &SessionState, text: &str) -> Result<()> {
    check(condition, state, text, false)
}

fn check(part: &impl Visit, state: &SessionState, sql: &str, takes_queries: bool) -> Result<()> {
    let place = Location { line: 1, column: 1 };
    let conditions = HashSet::new();
    match part.visit(&mut AllowedForms { state, sql, place, conditions, depth: 0, is_lateral: false, takes_queries }) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Refuses subqueries that depend on a row of the query around them. Names are known in the plan only.
///
/// # Errors
/// There is one that is no lateral subquery of `FROM`.
pub(super) fn check_correlation(plan: &LogicalPlan, sql: &str) -> Result<()> {
    let mut outer = None;
    let walked: SqlResult<TreeNodeRecursion> = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                let subquery = match part {
                    PlanExpr::Exists(exists) => &exists.subquery,
                    PlanExpr::InSubquery(within) => &within.subquery,
                    PlanExpr::ScalarSubquery(subquery) => subquery,
                    _ => return Ok(TreeNodeRecursion::Continue),
                };
                outer = subquery.outer_ref_columns.first().cloned();
                Ok(if outer.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })
    });
    walked.map_err(|error| Error::internal(format!("SQL: {error}")))?;
    let Some(PlanExpr::OuterReferenceColumn(_, column)) = outer else { return Ok(()) };
    let table = column.relation.as_ref().map(TableReference::table);
    let place = table.and_then(|table| last_place_of(table, &column.name, sql)).unwrap_or_default();
    let message = format!("a subquery that reads `{}` of the query around it is not supported", column.flat_name());
    let hint = "join the tables: `a LEFT JOIN (SELECT x, count(*) AS n FROM b GROUP BY x) b ON b.x = a.x`, with `coalesce(n, 0)`; \
                `LEFT SEMI JOIN` and `LEFT ANTI JOIN` are `EXISTS` and `NOT EXISTS`";
    Err(error_at(&message, "", sql, place.0, place.1).hint(hint))
}

/// Visitor that ends at the first part that is not allowed.
struct AllowedForms<'s> {
    state: &'s SessionState,
    sql: &'s str,
    /// Last place that the parser knows. It knows none of some parts.
    place: Location,
    /// Addresses of `IN` and `EXISTS` with a subquery in places where they are computed.
    conditions: HashSet<*const Expr>,
    /// Number of queries around.
    depth: usize,
    /// True if the next query is a lateral one.
    is_lateral: bool,
    /// False for a condition on the columns of one table.
    takes_queries: bool,
}

/// Result of a check.
type Checked = ControlFlow<Error>;

impl AllowedForms<'_> {
    fn refuse(&self, what: &str, instead: &str) -> Checked {
        let message = format!("{what} is not supported");
        ControlFlow::Break(error_at(&message, "", self.sql, self.place.line, self.place.column).hint(instead))
    }

    /// Refuses the first of these parts that is there: whether it is, its name, and the form to write instead.
    fn without(&self, parts: &[(bool, &str, &str)]) -> Checked {
        match parts.iter().find(|(is_there, ..)| *is_there) {
            Some((_, what, instead)) => self.refuse(what, instead),
            None => ControlFlow::Continue(()),
        }
    }

    fn move_to(&mut self, place: Location) {
        if place.line > 0 {
            self.place = place;
        }
    }

    fn with(&self, with: &With) -> Checked {
        let With { with_token: _, recursive: _, cte_tables } = with;
        cte_tables.iter().try_for_each(|table| {
            let Cte { alias, query: _, from, materialized, closing_paren_token: _ } = table;
            self.alias(Some(alias))?;
            self.without(&[(from.is_some() || materialized.is_some(), "`MATERIALIZED`", "leave it out")])
        })
    }

    /// Checks the set operations of a query. The parser visits what they join.
    fn body(&self, body: &SetExpr) -> Checked {
        match body {
            SetExpr::Select(_) | SetExpr::Query(_) | SetExpr::Values(_) => ControlFlow::Continue(()),
            SetExpr::SetOperation { op, set_quantifier, left, right } => {
                use SetQuantifier::{All, AllByName, ByName, Distinct, DistinctByName, None};
                match (op, set_quantifier) {
                    (SetOperator::Union, All | Distinct | None | ByName | AllByName | DistinctByName)
                    | (SetOperator::Except | SetOperator::Intersect, Distinct | None) => {}
                    (SetOperator::Minus, _) => self.refuse("`MINUS`", "write `EXCEPT`")?,
                    // Repeated rows are not counted.
                    _ => self.refuse(
                        "`INTERSECT ALL` or `EXCEPT ALL`",
                        "leave out `ALL`, or count the rows of each side with `GROUP BY`",
                    )?,
                }
                self.body(left)?;
                self.body(right)
            }
            _ => self.refuse("a query of this form", "write `SELECT … FROM …`"),
        }
    }

    fn order(&self, order: &OrderBy) -> Checked {
        let OrderBy { kind, interpolate } = order;
        self.without(&[(interpolate.is_some(), "`INTERPOLATE`", "leave it out")])?;
        match kind {
            OrderByKind::All(_) => ControlFlow::Continue(()),
            OrderByKind::Expressions(terms) => self.terms(terms),
        }
    }

    fn terms(&self, terms: &[OrderByExpr]) -> Checked {
        terms.iter().try_for_each(|term| {
            let OrderByExpr { expr: _, options: _, with_fill } = term;
            self.without(&[(with_fill.is_some(), "`WITH FILL`", "leave it out")])
        })
    }

    fn item(&self, item: &SelectItem) -> Checked {
        match item {
            SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. } => ControlFlow::Continue(()),
            SelectItem::QualifiedWildcard(_, options) | SelectItem::Wildcard(options) => {
                let WildcardAdditionalOptions {
                    wildcard_token: _,
                    opt_ilike,
                    opt_exclude: _,
                    opt_except: _,
                    opt_replace: _,
                    opt_rename,
                    opt_alias,
                } = options;
                let is_other = opt_ilike.is_some() || opt_rename.is_some() || opt_alias.is_some();
                self.without(&[(is_other, "an option of `*` of this kind", "name the columns")])
            }
            SelectItem::ExprWithAliases { .. } => self.refuse("an expression with several names", "give it one name"),
        }
    }

    fn tables(&mut self, tables: &TableWithJoins) -> Checked {
        let TableWithJoins { relation: _, joins } = tables;
        joins.iter().try_for_each(|join| {
            let Join { relation, global, join_operator } = join;
            self.move_to(relation.span().start);
            self.without(&[(*global, "`GLOBAL JOIN`", "leave out `GLOBAL`")])?;
            self.join(join_operator)
        })
    }

    fn join(&self, operator: &JoinOperator) -> Checked {
        use JoinOperator::{
            CrossJoin, FullOuter, Inner, Join, Left, LeftAnti, LeftOuter, LeftSemi, Right, RightAnti, RightOuter,
            RightSemi,
        };
        match operator {
            // The common column would be that of one table, which may lack the row.
            Left(constraint)
            | LeftOuter(constraint)
            | Right(constraint)
            | RightOuter(constraint)
            | FullOuter(constraint) => self.without(&[(
                matches!(constraint, JoinConstraint::Using(_) | JoinConstraint::Natural),
                "`LEFT`, `RIGHT` or `FULL JOIN` with `USING` or `NATURAL`",
                "`a LEFT JOIN b ON a.x = b.x`; in a `FULL JOIN` the common column is `coalesce(a.x, b.x)`",
            )]),
            Join(_) | Inner(_) | CrossJoin(_) | LeftSemi(_) | RightSemi(_) | LeftAnti(_) | RightAnti(_) => {
                ControlFlow::Continue(())
            }
            _ => self.refuse(
                "a join of this kind",
                "there are `JOIN`, `LEFT`, `RIGHT`, `FULL`, `CROSS`, `LEFT SEMI` and `LEFT ANTI JOIN`",
            ),
        }
    }

    fn alias(&self, alias: Option<&TableAlias>) -> Checked {
        let Some(TableAlias { explicit: _, name: _, columns: _, at }) = alias else { return ControlFlow::Continue(()) };
        self.without(&[(at.is_some(), "`AT` behind a name", "leave it out")])
    }

    fn function(&self, function: &Function) -> Checked {
        let Function { name, uses_odbc_syntax: _, parameters, args, filter: _, null_treatment: _, over, within_group } =
            function;
        self.function_name(name, over.is_some())?;
        self.clauses_of_rows(function)?;
        self.without(&[(
            !matches!(parameters, FunctionArguments::None),
            "a function with two lists",
            "write one list",
        )])?;
        self.terms(within_group)?;
        if let Some(WindowType::WindowSpec(window)) = over {
            self.terms(&window.order_by)?;
        }
        match args {
            FunctionArguments::None => ControlFlow::Continue(()),
            FunctionArguments::Subquery(_) => {
                self.refuse("a subquery as the argument of a function", "join it in `FROM`")
            }
            FunctionArguments::List(FunctionArgumentList { duplicate_treatment: _, args: _, clauses }) => {
                clauses.iter().try_for_each(|clause| match clause {
                    FunctionArgumentClause::OrderBy(terms) => self.terms(terms),
                    FunctionArgumentClause::IgnoreOrRespectNulls(_) => ControlFlow::Continue(()),
                    other => self.refuse(&format!("`{other}` within a function"), "leave it out"),
                })
            }
        }
    }

    /// Refuses what is said about the rows of a function that has none: DataFusion leaves it out in silence.
    fn clauses_of_rows(&self, function: &Function) -> Checked {
        let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return ControlFlow::Continue(()) };
        let name = name.value.to_lowercase();
        let is_aggregate = self.state.aggregate_functions().contains_key(&name);
        let is_scalar = self.state.scalar_functions().contains_key(&name) || PLANNED.contains(&name.as_str());
        let (is_distinct, clauses) = match &function.args {
            FunctionArguments::List(list) => {
                (list.duplicate_treatment == Some(DuplicateTreatment::Distinct), list.clauses.as_slice())
            }
            _ => (false, [].as_slice()),
        };
        let is_ordered = clauses.iter().any(|clause| matches!(clause, FunctionArgumentClause::OrderBy(_)));
        let treats_nulls =
            clauses.iter().any(|clause| matches!(clause, FunctionArgumentClause::IgnoreOrRespectNulls(_)));
        let found = [
            (function.filter.is_some() && (is_scalar || !is_aggregate), "FILTER"),
            (is_distinct && (is_scalar || !is_aggregate), "DISTINCT"),
            (is_scalar && function.over.is_some(), "OVER"),
            (is_scalar && !function.within_group.is_empty(), "WITHIN GROUP"),
            (is_scalar && is_ordered, "ORDER BY"),
            (is_scalar && (treats_nulls || function.null_treatment.is_some()), "IGNORE NULLS"),
        ];
        match found.iter().find(|(is_there, _)| *is_there) {
            Some((_, clause)) => self.refuse(
                &format!("`{clause}` with `{name}`, which is no function of a group of rows,"),
                "leave it out, write `CASE WHEN … THEN … END`, or compute an aggregate such as `max(…)`",
            ),
            None => ControlFlow::Continue(()),
        }
    }

    /// Refuses a function that does not exist.
    fn function_name(&self, name: &ObjectName, is_window: bool) -> Checked {
        let [ObjectNamePart::Identifier(ident)] = name.0.as_slice() else {
            return self.refuse(&format!("the name `{name}` of a function"), "functions have no schema");
        };
        let name = if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() };
        let state = self.state;
        let is_known = state.scalar_functions().contains_key(&name)
            || state.aggregate_functions().contains_key(&name)
            || state.window_functions().contains_key(&name)
            || (!is_window && PLANNED.contains(&name.as_str()));
        if is_known {
            return ControlFlow::Continue(());
        }
        let known = state.scalar_functions().keys().chain(state.aggregate_functions().keys());
        let known = known.chain(state.window_functions().keys()).map(String::as_str);
        let place = ident.span.start;
        let error = error_at(&format!("there is no function `{name}`"), "", self.sql, place.line, place.column);
        ControlFlow::Break(match closest_name(&name, known) {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => error.hint("`SHOW FUNCTIONS` lists all"),
        })
    }

    /// Notes where a condition has `IN` and `EXISTS` with a subquery. They are joins, whose result is true or false. That is
    /// right where a missing condition is as good as a false one: for the condition, and below its `AND` and `OR`. `NOT IN` is
    /// missing beside a missing value. Its join knows that if it is the condition of all rows and compares a column.
    fn note_conditions(&mut self, condition: &Expr, is_of_all_rows: bool) {
        match condition {
            Expr::Nested(inner) => self.note_conditions(inner, is_of_all_rows),
            Expr::BinaryOp { left, op: op @ (BinaryOperator::And | BinaryOperator::Or), right } => {
                let is_of_all_rows = is_of_all_rows && *op == BinaryOperator::And;
                self.note_conditions(left, is_of_all_rows);
                self.note_conditions(right, is_of_all_rows);
            }
            Expr::InSubquery { expr, negated, .. } if !negated || (is_of_all_rows && names_column(expr)) => {
                self.conditions.insert(std::ptr::from_ref(condition));
            }
            Expr::Exists { .. } => {
                self.conditions.insert(std::ptr::from_ref(condition));
            }
            _ => {}
        }
    }

    fn subquery(&self) -> Checked {
        self.without(&[(
            !self.takes_queries,
            "a subquery in the condition of a table of `topk_join`",
            "write `LATERAL (SELECT … FROM b WHERE … ORDER BY cosine_distance(b.v, a.v) LIMIT k)`",
        )])
    }

    fn condition(&self, expr: &Expr) -> Checked {
        self.subquery()?;
        if self.conditions.contains(&std::ptr::from_ref(expr)) {
            return ControlFlow::Continue(());
        }
        match expr {
            Expr::Exists { .. } => self.refuse(
                "`EXISTS` outside of `WHERE`, `HAVING` and their `AND` and `OR`",
                "count the rows: `(SELECT count(*) FROM b) > 0`",
            ),
            Expr::InSubquery { negated: true, .. } => self.refuse(
                "`NOT IN` with a subquery that is no condition of its own, or compares no column",
                "write `a LEFT ANTI JOIN b ON a.x = b.x`, where no `x` is missing",
            ),
            _ => self.refuse(
                "`IN` with a subquery outside of `WHERE`, `HAVING` and their `AND` and `OR`",
                "write `a LEFT JOIN (SELECT DISTINCT x FROM b) b ON a.x = b.x`, and compare `b.x IS NOT NULL`",
            ),
        }
    }

    /// Refuses `IS DISTINCT FROM` before a condition, which the parser takes for its right side, and between columns, which
    /// DataFusion makes a key of a join whose other keys then treat missing values in the same way.
    fn distinct_from(&self, left: &Expr, right: &Expr) -> Checked {
        let is_condition = matches!(right, Expr::BinaryOp { op, .. } if is_comparison(op));
        self.without(&[
            (
                is_condition,
                "`IS DISTINCT FROM` before an operator",
                "put it in brackets: `(a IS DISTINCT FROM b) AND c`",
            ),
            (
                names_column(left) && names_column(right),
                "`IS DISTINCT FROM` between columns",
                "write `a.x = b.x OR (a.x IS NULL AND b.x IS NULL)`",
            ),
        ])
    }
}

/// Functions that DataFusion plans without an entry in its list.
const PLANNED: [&str; 2] = ["unnest", "grouping"];

/// True for what can stand behind `->`: every operator but a comparison binds closer.
fn is_json_key(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Value(_)
            | Expr::Identifier(_)
            | Expr::CompoundIdentifier(_)
            | Expr::Nested(_)
            | Expr::Cast { .. }
            | Expr::Function(_)
    )
}

/// True for an expression with a column of the query itself.
fn names_column(expr: &Expr) -> bool {
    struct Columns {
        queries: usize,
    }
    impl Visitor for Columns {
        type Break = ();

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.queries += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.queries -= 1;
            ControlFlow::Continue(())
        }

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Identifier(_) | Expr::CompoundIdentifier(_) if self.queries == 0 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    expr.visit(&mut Columns { queries: 0 }).is_break()
}

fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator::{And, Eq, Gt, GtEq, Lt, LtEq, NotEq, Or, Spaceship, Xor};
    matches!(op, And | Or | Xor | Eq | NotEq | Gt | GtEq | Lt | LtEq | Spaceship)
}

impl Visitor for AllowedForms<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &Query) -> Checked {
        let Query {
            with,
            body,
            order_by,
            limit_clause,
            fetch,
            locks,
            for_clause,
            settings,
            format_clause,
            pipe_operators,
        } = query;
        self.depth += 1;
        self.move_to(query.span().start);
        self.subquery()?;
        let is_lateral = std::mem::take(&mut self.is_lateral);
        with.iter().try_for_each(|with| self.with(with))?;
        self.body(body)?;
        order_by.iter().try_for_each(|order| self.order(order))?;
        if let Some(LimitClause::LimitOffset { limit, offset, limit_by }) = limit_clause {
            // The order of a subquery is lost before its rows are skipped.
            let is_unordered =
                self.depth > 1 && !is_lateral && order_by.is_some() && limit.is_none() && offset.is_some();
            self.without(&[
                (!limit_by.is_empty(), "`LIMIT … BY`", "number the rows with `row_number() OVER (PARTITION BY …)`"),
                (is_unordered, "`OFFSET` without `LIMIT` in a subquery", "add a `LIMIT`"),
            ])?;
        }
        self.without(&[
            (fetch.is_some(), "`FETCH`", "write `LIMIT k`"),
            (!locks.is_empty() || for_clause.is_some(), "`FOR` behind a query", "leave it out"),
            (settings.is_some() || format_clause.is_some(), "`SETTINGS` or `FORMAT` behind a query", "leave it out"),
            (!pipe_operators.is_empty(), "`|>`", "write `SELECT … FROM (SELECT …) t`"),
        ])
    }

    fn post_visit_query(&mut self, _: &Query) -> Checked {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> Checked {
        let Select {
            select_token,
            optimizer_hints: _,
            distinct: _,
            select_modifiers,
            top,
            top_before_distinct: _,
            projection,
            exclude,
            into,
            from,
            lateral_views,
            prewhere,
            selection,
            connect_by,
            group_by,
            cluster_by,
            distribute_by,
            sort_by,
            having,
            named_window: _,
            qualify,
            window_before_qualify: _,
            value_table_mode,
            flavor,
        } = select;
        self.move_to(select_token.0.span.start);
        if *flavor == SelectFlavor::FromFirstNoSelect {
            let from: Vec<String> = from.iter().map(ToString::to_string).collect();
            return self.refuse("a query without `SELECT`", &format!("write: `SELECT * FROM {}`", from.join(", ")));
        }
        let has_modifier = match group_by {
            GroupByExpr::All(modifiers) | GroupByExpr::Expressions(_, modifiers) => !modifiers.is_empty(),
        };
        self.without(&[
            (into.is_some(), "`SELECT … INTO`", "`pairloom sql QUERY --output FILE` writes the rows to a file"),
            (top.is_some(), "`TOP`", "write `LIMIT k`"),
            (select_modifiers.is_some() || value_table_mode.is_some(), "a word behind `SELECT`", "leave it out"),
            (exclude.is_some(), "`EXCLUDE` behind the columns", "write `SELECT * EXCLUDE (x)`"),
            (!lateral_views.is_empty(), "`LATERAL VIEW`", "write `SELECT unnest(list) …`"),
            (prewhere.is_some(), "`PREWHERE`", "write `WHERE`"),
            (!connect_by.is_empty(), "`CONNECT BY`", "write `WITH RECURSIVE`"),
            (has_modifier, "`GROUP BY … WITH`", "write `GROUP BY ROLLUP (…)`"),
            (
                !cluster_by.is_empty() || !distribute_by.is_empty() || !sort_by.is_empty(),
                "`CLUSTER`, `DISTRIBUTE` or `SORT BY`",
                "write `ORDER BY`",
            ),
        ])?;
        projection.iter().try_for_each(|item| self.item(item))?;
        from.iter().try_for_each(|tables| self.tables(tables))?;
        for condition in [selection, having, qualify].into_iter().flatten() {
            self.note_conditions(condition, true);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> Checked {
        self.move_to(table.span().start);
        match table {
            TableFactor::Table {
                name: _,
                alias,
                args,
                with_hints,
                version,
                with_ordinality,
                partitions,
                json_path,
                sample,
                index_hints,
            } => {
                self.alias(alias.as_ref())?;
                let has_settings = matches!(args, Some(TableFunctionArgs { args: _, settings: Some(_) }));
                self.without(&[
                    (sample.is_some(), "`TABLESAMPLE`", "`WHERE random() < 0.1` keeps a tenth"),
                    (*with_ordinality, "`WITH ORDINALITY`", "number the rows with `row_number() OVER ()`"),
                    (
                        has_settings
                            || version.is_some()
                            || json_path.is_some()
                            || !with_hints.is_empty()
                            || !partitions.is_empty()
                            || !index_hints.is_empty(),
                        "a part behind the name of a table of this kind",
                        "leave it out",
                    ),
                ])
            }
            TableFactor::Derived { lateral, subquery: _, alias, sample } => {
                self.is_lateral = *lateral;
                self.alias(alias.as_ref())?;
                self.without(&[(sample.is_some(), "`TABLESAMPLE`", "`WHERE random() < 0.1` keeps a tenth")])
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                self.alias(alias.as_ref())?;
                self.tables(table_with_joins)
            }
            TableFactor::UNNEST { alias, array_exprs: _, with_offset, with_offset_alias: _, with_ordinality } => {
                self.alias(alias.as_ref())?;
                let is_numbered = *with_offset || *with_ordinality;
                self.without(&[(
                    is_numbered,
                    "`UNNEST` with numbers",
                    "unnest `range(1, array_length(x) + 1)` beside it",
                )])
            }
            _ => self.refuse("a table of this form", "write a name, a subquery or a table function"),
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> Checked {
        self.move_to(expr.span().start);
        match expr {
            Expr::Identifier(_)
            | Expr::CompoundIdentifier(_)
            | Expr::CompoundFieldAccess { .. }
            | Expr::IsFalse(_)
            | Expr::IsNotFalse(_)
            | Expr::IsTrue(_)
            | Expr::IsNotTrue(_)
            | Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::IsUnknown(_)
            | Expr::IsNotUnknown(_)
            | Expr::InList { .. }
            | Expr::Between { .. }
            | Expr::Like { any: false, .. }
            | Expr::ILike { any: false, .. }
            | Expr::UnaryOp { .. }
            | Expr::Cast { array: false, format: None, .. }
            | Expr::AtTimeZone { .. }
            | Expr::Extract { .. }
            | Expr::Ceil { .. }
            | Expr::Floor { .. }
            | Expr::Position { .. }
            | Expr::Substring { .. }
            | Expr::Trim { .. }
            | Expr::Overlay { .. }
            | Expr::Nested(_)
            | Expr::Value(_)
            | Expr::TypedString(_)
            | Expr::Case { .. }
            | Expr::Subquery(_)
            | Expr::GroupingSets(_)
            | Expr::Cube(_)
            | Expr::Rollup(_)
            | Expr::Tuple(_)
            | Expr::Struct { .. }
            | Expr::Named { .. }
            | Expr::Dictionary(_)
            | Expr::Map(_)
            | Expr::Array(_)
            | Expr::Interval(_)
            | Expr::Wildcard(_)
            | Expr::QualifiedWildcard(..) => ControlFlow::Continue(()),
            Expr::Function(function) => self.function(function),
            Expr::BinaryOp { op, right, .. } => self.without(&[(
                matches!(op, BinaryOperator::Arrow | BinaryOperator::LongArrow) && !is_json_key(right),
                "`->` or `->>` before an operator, which binds closer,",
                "write brackets: `(settings->'epochs') > 1`",
            )]),
            Expr::InSubquery { .. } | Expr::Exists { .. } => self.condition(expr),
            Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => self.distinct_from(left, right),
            Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } => self.without(&[(
                matches!(**right, Expr::Subquery(_)),
                "`ANY` or `ALL` with a subquery",
                "write `x IN (SELECT …)`, or compare with an aggregate: `x > (SELECT max(y) FROM b)`",
            )]),
            other => self.refuse(&format!("`{other}`"), "`SHOW FUNCTIONS` lists the functions that there are"),
        }
    }
}
