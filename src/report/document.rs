//! Document model of a page, rendered as HTML and as Markdown: sections of texts, tables, figures and cards.

use maud::Markup;

/// Page.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) title: String,
    /// Blocks before the first section.
    pub(super) intro: Vec<PageBlock>,
    pub(super) sections: Vec<Section>,
}

/// Section of a page.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) title: String,
    pub(super) blocks: Vec<PageBlock>,
}

impl Section {
    pub(super) fn new(title: impl Into<String>, blocks: Vec<PageBlock>) -> Self {
        Self { title: title.into(), blocks }
    }
}

/// Block of a section.
#[derive(Debug)]
pub(super) enum PageBlock {
    /// Opening sentence of a page.
    Intro(Vec<Span>),
    /// Key figures in large print: name and value.
    Numbers(Vec<(String, Cell)>),
    /// Heading within a section.
    Heading(String),
    Table(PageTable),
    Note(String),
    /// Plots, which Markdown omits, as all figures.
    Figures(Vec<Figure>),
    /// Plot over the whole width.
    WideFigure(Figure),
    Drawings(Vec<Drawing>),
    Cards(Vec<Card>),
    Settings(Vec<SettingsCard>),
}

/// Part of a sentence. Markdown shows all kinds alike.
#[derive(Debug)]
pub(super) enum Span {
    Plain(String),
    Strong(String),
    Code(String),
}

impl Span {
    pub(super) fn text(&self) -> &str {
        let (Self::Plain(text) | Self::Strong(text) | Self::Code(text)) = self;
        text
    }
}

/// Text, with an optional thumbnail (JPEG) that HTML shows instead.
#[derive(Debug, Clone, Default)]
pub(super) struct PageLabel {
    pub(super) text: String,
    pub(super) picture: Option<Vec<u8>>,
}

impl<T: Into<String>> From<T> for PageLabel {
    fn from(text: T) -> Self {
        Self { text: text.into(), picture: None }
    }
}

/// Table with one cell per row and column.
#[derive(Debug, Default)]
pub(super) struct PageTable {
    pub(super) columns: Vec<PageColumn>,
    pub(super) rows: Vec<PageRow>,
}

impl PageTable {
    /// Creates an empty table with text columns, then number columns.
    pub(super) fn new(texts: &[&str], numbers: &[&str]) -> Self {
        let texts = texts.iter().map(|name| PageColumn { kind: PageColumnKind::Text, ..PageColumn::number(*name) });
        Self { columns: texts.chain(numbers.iter().map(|name| PageColumn::number(*name))).collect(), rows: Vec::new() }
    }

    /// Adds a group of number columns.
    pub(super) fn group(&mut self, group: ColumnGroup, names: impl IntoIterator<Item = String>) {
        self.columns
            .extend(names.into_iter().map(|name| PageColumn { group: Some(group), ..PageColumn::number(name) }));
    }

    /// Adds a row. All columns must have been added before.
    pub(super) fn push(&mut self, cells: impl IntoIterator<Item = impl Into<Cell>>) {
        let cells: Vec<Cell> = cells.into_iter().map(Into::into).collect();
        debug_assert_eq!(cells.len(), self.columns.len(), "a row has one cell per column");
        self.rows.push(PageRow { cells, muted: false });
    }
}

/// Column. Adjacent columns of one group share a header.
#[derive(Debug, Clone)]
pub(super) struct PageColumn {
    pub(super) group: Option<ColumnGroup>,
    pub(super) name: String,
    pub(super) kind: PageColumnKind,
}

impl PageColumn {
    /// Number column without a group.
    pub(super) fn number(name: impl Into<String>) -> Self {
        Self { group: None, name: name.into(), kind: PageColumnKind::Number }
    }
}

/// Header of several columns. In Markdown, its short form prefixes each of their names.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ColumnGroup {
    pub(super) name: &'static str,
    pub(super) short: &'static str,
}

/// Kind of a column; sums are emphasised.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum PageColumnKind {
    Text,
    Number,
    Sum,
}

/// Row. A muted row is a baseline, in a lighter colour.
#[derive(Debug)]
pub(super) struct PageRow {
    pub(super) cells: Vec<Cell>,
    pub(super) muted: bool,
}

/// Cell with an optional remark, in small print; in Markdown, in brackets. A strong cell is the best of its column.
#[derive(Debug, Clone, Default)]
pub(super) struct Cell {
    pub(super) label: PageLabel,
    pub(super) small: Option<String>,
    /// Standard deviation of a mean.
    pub(super) deviation: Option<String>,
    pub(super) strong: bool,
}

impl<T: Into<PageLabel>> From<T> for Cell {
    fn from(label: T) -> Self {
        Self { label: label.into(), small: None, deviation: None, strong: false }
    }
}

/// Plot.
#[derive(Debug)]
pub(super) struct Figure {
    pub(super) title: String,
    pub(super) legend: Vec<LegendEntry>,
    pub(super) svg: Markup,
}

/// Entry of a legend, with the colour of a series or without one.
#[derive(Debug)]
pub(super) struct LegendEntry {
    pub(super) series: Option<Series>,
    pub(super) text: String,
}

pub(super) fn legend_entry(series: Series, text: impl Into<String>) -> LegendEntry {
    LegendEntry { series: Some(series), text: text.into() }
}

/// Series of a plot: two main ones, a muted one in the background, and those of many rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Series {
    A,
    B,
    Muted,
    /// Row of a sweep, by its number. Colours repeat after seven rows, with other dashes.
    Row(usize),
}

/// Drawing of a scene graph under its caption. Markdown shows `plain_text` instead.
#[derive(Debug)]
pub(super) struct Drawing {
    pub(super) text: String,
    pub(super) svg: Markup,
    pub(super) plain_text: String,
}

/// Card.
#[derive(Debug)]
pub(super) struct Card {
    pub(super) quality: CardQuality,
    pub(super) heading: PageLabel,
    pub(super) result: Vec<Span>,
    pub(super) lists: Vec<CardList>,
}

/// Quality that a card shows, which decides its colour.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum CardQuality {
    Good,
    Middling,
    Bad,
}

/// List with an optional title.
#[derive(Debug)]
pub(super) struct CardList {
    pub(super) title: Option<&'static str>,
    pub(super) ordered: bool,
    pub(super) items: Vec<CardItem>,
}

/// List item; correct items are marked.
#[derive(Debug)]
pub(super) struct CardItem {
    pub(super) label: PageLabel,
    pub(super) score: Option<f32>,
    pub(super) is_match: bool,
}

/// Card of settings.
#[derive(Debug)]
pub(super) struct SettingsCard {
    pub(super) title: String,
    /// Remark beside the title.
    pub(super) remark: String,
    /// Settings that are always visible.
    pub(super) open: Vec<SettingEntry>,
    /// Settings that HTML folds.
    pub(super) folded: Vec<SettingEntry>,
    /// Title of the folded settings.
    pub(super) folded_title: &'static str,
}

/// Setting with its value.
#[derive(Debug)]
pub(super) struct SettingEntry {
    pub(super) name: String,
    pub(super) value: String,
}

impl SettingEntry {
    pub(super) fn new(name: &str, value: &str) -> Self {
        Self { name: name.to_owned(), value: value.to_owned() }
    }
}
