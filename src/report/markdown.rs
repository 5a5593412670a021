//! Markdown rendering of a document, with its texts escaped, without plots and with the texts of images.

use super::document::{
    Card, CardItem, CardList, Cell, Document, PageBlock, PageColumn, PageColumnKind, PageTable, Section, SettingEntry,
    SettingsCard, Span,
};

/// Renders a page. Every block begins with an empty line.
pub(super) fn page(document: &Document) -> String {
    let sections: String = document.sections.iter().map(section).collect();
    format!("# {}\n{}{sections}", escaped(&document.title), blocks(&document.intro))
}

/// Renders a section; empty if it has plots only.
pub(super) fn section(section: &Section) -> String {
    let blocks = blocks(&section.blocks);
    if blocks.is_empty() { blocks } else { format!("\n## {}\n{blocks}", escaped(&section.title)) }
}

fn blocks(blocks: &[PageBlock]) -> String {
    blocks.iter().map(block).collect()
}

fn block(block: &PageBlock) -> String {
    match block {
        PageBlock::Intro(spans) => format!("\n{}\n", sentence(spans)),
        PageBlock::Numbers(numbers) => items(numbers, |(name, value)| format!("- {}: {}", escaped(name), cell(value))),
        PageBlock::Heading(text) => format!("\n### {}\n", escaped(text)),
        PageBlock::Table(table) => self::table(table),
        PageBlock::Note(text) => format!("\n{}\n", escaped(text)),
        PageBlock::Figures(_) | PageBlock::WideFigure(_) => String::new(),
        PageBlock::Drawings(drawings) => items(drawings, |drawing| {
            format!("- **{}**: {}", escaped(&drawing.text), escaped_within(&drawing.plain_text))
        }),
        PageBlock::Cards(cards) => cards.iter().map(card).collect(),
        PageBlock::Settings(cards) => cards.iter().map(settings_card).collect(),
    }
}

fn items<T>(items: &[T], line: impl Fn(&T) -> String) -> String {
    format!("\n{}", items.iter().map(|item| line(item) + "\n").collect::<String>())
}

fn sentence(spans: &[Span]) -> String {
    escaped(&spans.iter().map(Span::text).collect::<String>())
}

fn table(table: &PageTable) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let name = |column: &PageColumn| {
        let group = column.group.map_or_else(String::new, |group| format!("{} ", group.short));
        escaped_within(&(group + &column.name))
    };
    let rule = |column: &PageColumn| if column.kind == PageColumnKind::Text { "---|" } else { "---:|" };
    let names = line(table.columns.iter().map(name).collect());
    let rows: String = table.rows.iter().map(|row| line(row.cells.iter().map(cell).collect())).collect();
    format!("\n{names}|{}\n{rows}", table.columns.iter().map(rule).collect::<String>())
}

fn cell(cell: &Cell) -> String {
    let small = cell.small.as_ref().map_or_else(String::new, |small| format!(" ({})", escaped_within(small)));
    let deviation = cell.deviation.as_ref().map_or_else(String::new, |deviation| format!(" ± {deviation}"));
    let text = escaped_within(&cell.label.text);
    if cell.strong { format!("**{text}**{deviation}{small}") } else { text + &deviation + &small }
}

fn card(card: &Card) -> String {
    let lists: String = card.lists.iter().map(list).collect();
    format!("\n**{}**, {}:\n{lists}", escaped(&card.heading.text), sentence(&card.result))
}

/// Card as a list. The folded settings are its last item.
fn settings_card(card: &SettingsCard) -> String {
    let text = |entry: &SettingEntry| format!("{}: {}", escaped_within(&entry.name), escaped_within(&entry.value));
    let title = format!("\n**{}** ({})\n\n", escaped(&card.title), escaped_within(&card.remark));
    let open: String = card.open.iter().map(|entry| format!("- {}\n", text(entry))).collect();
    let folded: Vec<String> = card.folded.iter().map(text).collect();
    let folded = if folded.is_empty() {
        String::new()
    } else {
        format!("- {}: {}\n", escaped_within(card.folded_title), folded.join("; "))
    };
    title + &open + &folded
}

fn list(list: &CardList) -> String {
    let title = list.title.map_or_else(String::new, |title| format!("\n{}:\n", escaped(title)));
    let mark = |number: usize| if list.ordered { format!("{}.", number + 1) } else { "-".to_owned() };
    let lines = list.items.iter().enumerate().map(|(number, item)| format!("{} {}\n", mark(number), self::item(item)));
    format!("{title}\n{}", lines.collect::<String>())
}

fn item(item: &CardItem) -> String {
    let score = item.score.map_or_else(String::new, |score| format!(" ({score:.3})"));
    format!("{}{score}{}", escaped(&item.label.text), if item.is_match { " ✓" } else { "" })
}

/// Escapes a text at the start of a line, so that Markdown shows it literally and on one line.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = escaped_within(text);
    // List markers, as in `- item` and `1. item`, have a meaning at the start of a line only.
    let start = escaped.find(|c: char| !c.is_ascii_digit() && c != ' ').unwrap_or(0);
    if escaped[start..].starts_with(['-', '+', '.']) {
        escaped.insert(start, '\\');
    }
    escaped
}

/// Escapes a text within a line, such as a cell.
fn escaped_within(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        // The `@` of `R@10` is not that of an e-mail address.
        let after = || text[at + 1..].trim_start_matches(|c: char| c.is_ascii_digit());
        let cutoff = c == '@' && (after().is_empty() || after().starts_with([' ', ',']));
        let plain = cutoff || matches!(c, '.' | ',' | '-' | '+' | '\'' | '"' | '?' | ':' | ';' | '/' | '%');
        if c.is_ascii_punctuation() && !plain {
            escaped.push('\\');
        }
        escaped.push(if c.is_control() { ' ' } else { c });
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_markup_remains_in_an_escaped_text() {
        assert_eq!(escaped("a man, 3 dogs - well-fed. Really?"), "a man, 3 dogs - well-fed. Really?");
        assert_eq!(
            escaped("<b>|*x*_y_`z`[q](http://a)\n# h"),
            "\\<b\\>\\|\\*x\\*\\_y\\_\\`z\\`\\[q\\]\\(http://a\\) \\# h"
        );
        assert_eq!(escaped("- x"), "\\- x");
        assert_eq!(escaped("12. x"), "12\\. x");
        assert_eq!(escaped_within("-1.5 | R@10 a@1.b"), "-1.5 \\| R@10 a\\@1.b");
    }
}
