//! HTML rendering of a document, as one self-contained file. maud escapes every text; captions are untrusted input.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::document::{
    Card, CardItem, CardQuality, Cell, Document, Figure, PageBlock, PageColumn, PageColumnKind, PageTable, Section,
    Series, SettingEntry, SettingsCard, Span,
};
use super::plots;

const STYLE: &str = include_str!("style.css");

/// Renders a page.
pub(super) fn page(document: &Document) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:";
                title { (document.title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    h1 { (document.title) }
                    @for block in &document.intro { (self::block(block)) }
                    @for section in &document.sections { (self::section(section)) }
                    footer { "Made by Pairloom " (env!("CARGO_PKG_VERSION")) "." }
                }
            }
        }
    };
    // NUL is not allowed in HTML, and captions are untrusted input.
    markup.into_string().replace('\0', "\u{fffd}")
}

/// Renders a section.
pub(super) fn section(section: &Section) -> Markup {
    html! { section { h2 { (section.title) } @for block in &section.blocks { (self::block(block)) } } }
}

fn block(block: &PageBlock) -> Markup {
    html! {
        @match block {
            PageBlock::Intro(spans) => { p.lead { (sentence(spans)) } }
            PageBlock::Numbers(numbers) => {
                dl.figures { @for (name, value) in numbers { div {
                    dt { (name) }
                    dd { (value.label.text) }
                    @if let Some(small) = &value.small { dd.chance { (small) } }
                } } }
            }
            PageBlock::Heading(text) => { h3 { (text) } }
            PageBlock::Table(table) => { (self::table(table)) }
            PageBlock::Note(text) => { p.note { (text) } }
            PageBlock::Figures(figures) => { div.plots { @for figure in figures { (self::figure(figure)) } } }
            PageBlock::WideFigure(figure) => { (self::figure(figure)) }
            PageBlock::Drawings(drawings) => {
                div.graphs { @for drawing in drawings {
                    figure { figcaption { "“" (drawing.text) "”" } (drawing.svg) }
                } }
            }
            PageBlock::Cards(cards) => { div.examples { @for card in cards { (self::card(card)) } } }
            PageBlock::Settings(cards) => { div.stages { @for card in cards { (settings_card(card)) } } }
        }
    }
}

fn sentence(spans: &[Span]) -> Markup {
    html! {
        @for span in spans {
            @match span {
                Span::Plain(text) => { (text) }
                Span::Strong(text) => { strong { (text) } }
                Span::Code(text) => { code { (text) } }
            }
        }
    }
}

fn table(table: &PageTable) -> Markup {
    let grouped = table.columns.iter().any(|column| column.group.is_some());
    let head = |column: &PageColumn, rows: Option<u8>| {
        html! { th class=[(column.kind != PageColumnKind::Text).then_some("n")] rowspan=[rows] { (column.name) } }
    };
    html! {
        div.wide { table {
            thead {
                tr {
                    @for columns in table.columns.chunk_by(|left, right| left.group == right.group) {
                        @if let Some(group) = columns[0].group {
                            th.group colspan=(columns.len()) { (group.name) }
                        } @else {
                            @for column in columns { (head(column, grouped.then_some(2))) }
                        }
                    }
                }
                @if grouped {
                    tr { @for column in table.columns.iter().filter(|column| column.group.is_some()) { (head(column, None)) } }
                }
            }
            tbody { @for row in &table.rows { tr class=[row.muted.then_some("muted")] {
                @for (number, (column, cell)) in table.columns.iter().zip(&row.cells).enumerate() {
                    @if number == 0 { th class=[class(column, cell)] scope="row" { (self::cell(cell)) } }
                    @else { td class=[class(column, cell)] { (self::cell(cell)) } }
                }
            } } }
        } }
    }
}

fn class(column: &PageColumn, cell: &Cell) -> Option<&'static str> {
    match (column.kind, cell.strong) {
        (PageColumnKind::Text, false) => None,
        (PageColumnKind::Text, true) => Some("best"),
        (PageColumnKind::Number, false) => Some("n"),
        (PageColumnKind::Number, true) => Some("n best"),
        (PageColumnKind::Sum, _) => Some("n sum"),
    }
}

fn cell(cell: &Cell) -> Markup {
    html! {
        @match &cell.label.picture {
            Some(picture) => { (image(picture, &cell.label.text)) }
            None => { (cell.label.text) }
        }
        @if let Some(deviation) = &cell.deviation { span.deviation { " ± " (deviation) } }
        @if let Some(small) = &cell.small { small { (small) } }
    }
}

fn figure(figure: &Figure) -> Markup {
    html! {
        figure role="group" aria-label=(figure.title) {
            figcaption {
                strong { (figure.title) }
                div.legend { @for key in &figure.legend {
                    span { @if let Some(series) = key.series { (swatch(series)) } (key.text) }
                } }
            }
            (figure.svg)
        }
    }
}

/// Sign of a series in a legend. That of a row is a piece of its line, whose colour and dashes the style sheet sets.
fn swatch(series: Series) -> Markup {
    let class = match series {
        Series::A => "a",
        Series::B => "b",
        Series::Muted => "muted",
        Series::Row(_) => {
            let stroke = plots::stroke(series);
            return html! { svg viewBox="0 0 32 6" aria-hidden="true" { line x1="0" y1="3" x2="32" y2="3" stroke-width="3" stroke=(stroke) {} } };
        }
    };
    html! { i class=(class) {} }
}

fn card(card: &Card) -> Markup {
    let class = match card.quality {
        CardQuality::Good => "good",
        CardQuality::Middling => "middling",
        CardQuality::Bad => "bad",
    };
    let has_pictures = card.lists.iter().flat_map(|list| &list.items).any(|item| item.label.picture.is_some());
    let list = if has_pictures { "pictures" } else { "texts" };
    html! {
        article class=(class) {
            header {
                @if let Some(picture) = &card.heading.picture { (image(picture, &card.heading.text)) }
                div {
                    p.query {
                        @if card.heading.picture.is_some() { code { (card.heading.text) } } @else { "“" (card.heading.text) "”" }
                    }
                    p.verdict { (sentence(&card.result)) }
                }
            }
            @for shown in &card.lists {
                @if let Some(title) = shown.title { p.verdict { (title) } }
                @let items = html! { @for item in &shown.items { li class=[item.is_match.then_some("right")] { (self::item(item, has_pictures)) } } };
                @if shown.ordered { ol class=(list) { (items) } } @else { ul class=(list) { (items) } }
            }
        }
    }
}

fn settings_card(card: &SettingsCard) -> Markup {
    let entries = |entries: &[SettingEntry]| {
        html! { dl { @for entry in entries { dt { (entry.name) } dd { (entry.value) } } } }
    };
    html! {
        article {
            h3 { (card.title) " " small { (card.remark) } }
            (entries(&card.open))
            @if !card.folded.is_empty() { details { summary { (card.folded_title) } (entries(&card.folded)) } }
        }
    }
}

/// Item with its score and, if it is correct, a mark that screen readers announce too.
fn item(item: &CardItem, has_pictures: bool) -> Markup {
    html! {
        @match &item.label.picture {
            Some(picture) => { (image(picture, &item.label.text)) }
            None if has_pictures => { div.absent { (item.label.text) } }
            None => { span { (item.label.text) } }
        }
        @if item.score.is_some() || item.is_match {
            small {
                @if let Some(score) = item.score { (format!("{score:.3}")) }
                @if item.is_match { " " b title="matches the query" { "✓" } }
            }
        }
    }
}

fn image(picture: &[u8], name: &str) -> Markup {
    html! { img src=(format!("data:image/jpeg;base64,{}", STANDARD.encode(picture))) alt=(name) title=(name); }
}
