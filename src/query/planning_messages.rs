//! Messages of DataFusion about columns that are not grouped, functions and their arguments, tables, expressions that are not
//! planned, and texts that are no numbers.
//!
//! Their errors have no fields, so the names are read from the text.

use crate::state::{CATALOG, FILES};
use pairloom_base::suggest::closest_name;

/// Start of a message about an expression that is not planned.
const UNPLANNED: &str = "This feature is not implemented: Physical plan does not support logical expression ";

/// Message about a column that is neither grouped nor in an aggregate function.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GroupMessage {
    /// Name of the column, without its table.
    pub(super) column: String,
    /// Clause that has the column: `SELECT`, `HAVING`, `ORDER BY`.
    pub(super) clause: String,
}

impl GroupMessage {
    pub(super) fn parse(message: &str) -> Option<Self> {
        let clause = between(message, "Column in ", " must be in GROUP BY")?;
        let column = between(message, ", column \"", "\" must appear in the GROUP BY")?;
        let is_path = column.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '"'));
        let last = column.rsplit('.').next().filter(|_| is_path).unwrap_or(column);
        Some(Self { column: last.to_owned(), clause: clause.to_owned() })
    }
}

/// Message about a function that has no form with these types of arguments.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SignatureMessage {
    /// Name of the function.
    pub(super) function: String,
    /// Types of the arguments.
    pub(super) arguments: String,
}

impl SignatureMessage {
    pub(super) fn parse(message: &str) -> Option<Self> {
        let call = between(message, "No function matches the given name and argument types '", "'.")?;
        let (function, arguments) = call.split_once('(')?;
        let arguments = arguments.strip_suffix(')')?.replace("non-null ", "");
        Some(Self { function: function.to_owned(), arguments })
    }
}

/// Message of a function of ours about its arguments.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ArgumentMessage {
    /// Name of the function.
    pub(super) function: String,
    /// The function's own words.
    pub(super) text: String,
}

impl ArgumentMessage {
    pub(super) fn parse(message: &str) -> Option<Self> {
        let function = between(message, "Function '", "' user-defined coercion failed with: Error during planning: ")?;
        let (_, text) = message.split_once("user-defined coercion failed with: Error during planning: ")?;
        let text = text.split(" No function matches").next()?.trim_end_matches(['.', ' ', '\n']);
        // Those of DataFusion speak of its inner types.
        text.starts_with('`').then(|| Self { function: function.to_owned(), text: text.to_owned() })
    }
}

/// Message about a function that does not exist.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FunctionMessage {
    /// Name of the function.
    pub(super) function: String,
    /// Name of the nearest function, if one is near.
    pub(super) near: Option<String>,
}

impl FunctionMessage {
    pub(super) fn parse(message: &str) -> Option<Self> {
        let function = between(message, "Invalid function '", "'")?;
        // The nearest name can be quite another word.
        let near = between(message, "Did you mean '", "'").and_then(|near| closest_name(function, [near]));
        Some(Self { function: function.to_owned(), near: near.map(str::to_owned) })
    }
}

/// Message about a table that was not looked up before the query was planned.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TableMessage {
    /// Name of the table, as a query writes it.
    pub(super) table: String,
}

impl TableMessage {
    pub(super) fn parse(message: &str) -> Option<Self> {
        let full = between(message, "table '", "' not found")?;
        let table = full.strip_prefix(CATALOG).and_then(|rest| rest.strip_prefix('.')).unwrap_or(full);
        let table = table.strip_prefix(FILES).and_then(|rest| rest.strip_prefix('.')).unwrap_or(table);
        Some(Self { table: table.to_owned() })
    }
}

/// Message about a text that cannot be converted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ConversionMessage {
    /// Text, as the query or the data has it.
    pub(super) text: String,
    /// Type that was wanted.
    pub(super) data_type: String,
}

impl ConversionMessage {
    pub(super) fn parse(message: &str) -> Option<Self> {
        let (_, rest) = message.split_once("Cast error: Cannot cast string '")?;
        let (text, rest) = rest.rsplit_once("' to value of ")?;
        let (data_type, _) = rest.split_once(" type")?;
        Some(Self { text: text.to_owned(), data_type: data_type.to_owned() })
    }
}

/// Message about an expression that is not planned.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnplannedMessage {
    /// DataFusion's name of the expression.
    pub(super) expression: String,
}

impl UnplannedMessage {
    pub(super) fn parse(message: &str) -> Option<Self> {
        let (expression, _) = message.strip_prefix(UNPLANNED)?.split_once('(')?;
        Some(Self { expression: expression.to_owned() })
    }
}

/// Text between two marks.
fn between<'t>(text: &'t str, start: &str, end: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(start)?;
    Some(rest.split_once(end)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_from_messages() {
        let got = GroupMessage::parse(
            "Error during planning: Column in HAVING must be in GROUP BY or an aggregate function: While expanding \
             wildcard, column \"test.summary.method\" must appear in the GROUP BY clause or must be part of an \
             aggregate function, currently only \"avg(test.summary.rsum)\" appears in the SELECT clause satisfies this",
        );
        assert_eq!(got, Some(GroupMessage { column: "method".to_owned(), clause: "HAVING".to_owned() }));
        let got = SignatureMessage::parse(
            "Function 'f' failed with: No function matches the given name and argument types \
             'f(FixedSizeList(256 x non-null Float32), Int64)'. You might need to add explicit type casts.",
        );
        let arguments = "FixedSizeList(256 x Float32), Int64".to_owned();
        assert_eq!(got, Some(SignatureMessage { function: "f".to_owned(), arguments }));
        let got = FunctionMessage::parse(
            "Error during planning: Invalid function 'cosin_distance'.\nDid you mean 'cosine_distance'?",
        );
        let near = Some("cosine_distance".to_owned());
        assert_eq!(got, Some(FunctionMessage { function: "cosin_distance".to_owned(), near }));
        let got = TableMessage::parse("Error during planning: table 'pairloom.files.nope' not found");
        assert_eq!(got, Some(TableMessage { table: "nope".to_owned() }));
        let got = TableMessage::parse("Error during planning: table 'pairloom.test.nope' not found");
        assert_eq!(got, Some(TableMessage { table: "test.nope".to_owned() }));
        let got = ConversionMessage::parse("Arrow error: Cast error: Cannot cast string 'a'b' to value of Int64 type");
        assert_eq!(got, Some(ConversionMessage { text: "a'b".to_owned(), data_type: "Int64".to_owned() }));
        let got = UnplannedMessage::parse(&format!("{UNPLANNED}Exists(Exists {{ subquery: <subquery> }})"));
        assert_eq!(got, Some(UnplannedMessage { expression: "Exists".to_owned() }));
    }
}
