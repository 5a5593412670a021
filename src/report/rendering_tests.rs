//! Tests of the HTML and Markdown renderings: both show the same cells, whatever their content.

use super::document::{
    Cell, ColumnGroup, Document, PageBlock, PageColumn, PageColumnKind, PageLabel, PageRow, PageTable, Section,
};
use super::testing::{host, pages, report};
use super::{html, markdown};

/// Rows of cells of all tables of an HTML page, with small print in brackets and images as their alternative texts.
fn cells_of_html(page: &str) -> Vec<Vec<String>> {
    let cell = |cell: &str| {
        let cell = cell.split_once('>').unwrap().1;
        let cell = cell.replace("<small>", " (").replace("</small>", ")");
        let cell = cell.split_once(" alt=\"").map_or(cell.as_str(), |(_, rest)| rest.split_once('"').unwrap().0);
        let cell = cell.split('<').next().unwrap();
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&amp;", "&")]
            .into_iter()
            .fold(cell.to_owned(), |cell, (entity, c)| cell.replace(entity, c))
    };
    let bodies = page.split("<tbody>").skip(1).map(|rest| rest.split("</tbody>").next().unwrap());
    let rows = bodies.flat_map(|body| body.split("<tr").skip(1));
    rows.map(|row| row.replace("<th", "<td").split("<td").skip(1).map(cell).collect()).collect()
}

/// Rows of cells of all tables of a Markdown page, without header rows.
fn cells_of_markdown(page: &str) -> Vec<Vec<String>> {
    let lines: Vec<&str> = page.lines().collect();
    let is_rule = |line: &str| line.starts_with("|--");
    let rows = lines
        .iter()
        .enumerate()
        .filter(|(number, line)| line.starts_with("| ") && !lines.get(number + 1).is_some_and(|below| is_rule(below)));
    let cell = |cell: &str| {
        let mut escaped = false;
        let keep = |c: &char| {
            escaped = *c == '\\' && !escaped;
            !escaped
        };
        cell.chars().filter(keep).collect()
    };
    rows.map(|(_, line)| line[2..line.len() - 2].split(" | ").map(cell).collect()).collect()
}

/// Header row of the first table of a Markdown page.
fn names_of_markdown(page: &str) -> &str {
    page.lines().find(|line| line.starts_with("| ")).unwrap()
}

fn document(table: PageTable) -> Document {
    let sections =
        vec![Section::new("a <title>", vec![PageBlock::Table(table), PageBlock::Note("* a note".to_owned())])];
    Document { title: "t".to_owned(), intro: vec![], sections }
}

#[test]
fn both_renderings_show_hostile_cells_alike() {
    let hostile = ["<b>bold</b>", "`code` \\ *x*", "[a](http://b)", "&lt; \"q\"", "- 1.", "#", "", "-3.2 … +19.0"];
    let mut table = PageTable::new(&["a", "b"], &["c"]);
    for text in hostile {
        let picture = Some(vec![1, 2, 3]);
        let pictured = Cell { label: PageLabel { text: text.to_owned(), picture }, ..Cell::default() };
        table.push([Cell::from(text), pictured, Cell { small: Some(text.to_owned()), ..text.into() }]);
    }
    let document = document(table);
    let (html, markdown) = (html::page(&document), markdown::page(&document));
    let wanted: Vec<Vec<String>> =
        hostile.map(|text| vec![text.to_owned(), text.to_owned(), format!("{text} ({text})")]).into();
    assert_eq!(cells_of_html(&html), wanted);
    assert_eq!(cells_of_markdown(&markdown), wanted, "{markdown}");
    assert!(markdown.contains("\n## a \\<title\\>\n") && markdown.contains("\n\\* a note\n"), "{markdown}");
    assert!(html.contains("<h2>a &lt;title&gt;</h2>") && html.contains("<p class=\"note\">* a note</p>"), "{html}");
}

#[test]
fn separators_and_control_characters_do_not_split_a_cell() {
    let mut table = PageTable::new(&["a"], &["b"]);
    table.push(["x | y\nz\0", "1"]);
    let document = document(table);
    assert!(markdown::page(&document).contains("\n| x \\| y z  | 1 |\n"));
    assert!(html::page(&document).contains(">x | y\nz\u{fffd}</th><td class=\"n\">1</td>"));
}

#[test]
fn both_pages_of_a_report_show_the_same_cells() {
    let mut host = host();
    host.run(&report(true)).unwrap();
    let (markdown, html) = pages(&host);
    assert!(!html.contains("class=\"\""), "{html}");
    let (markdown_cells, html_cells) = (cells_of_markdown(&markdown), cells_of_html(&html));
    // Results and chance, 3 and 1 of metrics, 2 correlations, a significance test, 3 epochs, 6 captions and 4 images in hubs.
    assert_eq!(html_cells.len(), 22, "{html_cells:?}");
    let one_line = |rows: Vec<Vec<String>>| -> Vec<Vec<String>> {
        rows.into_iter().map(|row| row.into_iter().map(|cell| cell.replace('\n', " ")).collect()).collect()
    };
    // Splitting at ` | ` also splits cells that contain it; joining the cells of a row restores them.
    let whole = |rows: Vec<Vec<String>>| rows.into_iter().map(|row| row.join(" | ")).collect::<Vec<_>>();
    assert_eq!(whole(markdown_cells), whole(one_line(html_cells)));
}

#[test]
fn groups_span_their_columns_in_html_and_prefix_them_in_markdown() {
    let group = ColumnGroup { name: "left to right", short: "l→r" };
    let mut table = PageTable::new(&["name"], &[]);
    table.group(group, ["R@1".to_owned(), "R@5".to_owned()]);
    table.columns.push(PageColumn { kind: PageColumnKind::Sum, ..PageColumn::number("sum") });
    let cells = ["x", "1", "2", "3"].map(Cell::from).into();
    table.rows.push(PageRow { cells, muted: true });
    let document = document(table);
    let markdown = markdown::page(&document);
    assert_eq!(names_of_markdown(&markdown), "| name | l→r R@1 | l→r R@5 | sum |");
    assert!(markdown.contains("\n|---|---:|---:|---:|\n| x | 1 | 2 | 3 |\n"), "{markdown}");
    let head = "<tr><th rowspan=\"2\">name</th><th class=\"group\" colspan=\"2\">left to right</th>\
                <th class=\"n\" rowspan=\"2\">sum</th></tr><tr><th class=\"n\">R@1</th><th class=\"n\">R@5</th></tr>";
    let body = "<tr class=\"muted\"><th scope=\"row\">x</th><td class=\"n\">1</td><td class=\"n\">2</td>\
                <td class=\"n sum\">3</td></tr>";
    let html = html::page(&document);
    assert!(html.contains(head) && html.contains(body), "{html}");
}
