//! Source spans in the pipeline file and in arguments of the command line, for diagnostics.

/// Range of bytes in one text of a [`SourceMap`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct SourceSpan {
    /// Index of the text: 0 is the pipeline file, `i` the `i`-th `--set`.
    pub(super) source_index: usize,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl SourceSpan {
    pub(super) fn in_file(span: std::ops::Range<usize>) -> Self {
        Self { source_index: 0, start: span.start, end: span.end }
    }

    /// Span of a message about the file as a whole.
    pub(super) fn nowhere() -> Self {
        Self { source_index: usize::MAX, start: 0, end: 0 }
    }

    pub(super) fn is_nowhere(self) -> bool {
        self.source_index == usize::MAX
    }

    pub(super) fn is_argument(self) -> bool {
        self.source_index > 0 && !self.is_nowhere()
    }
}

/// Texts that spans refer to: the pipeline file, then the overrides.
#[derive(Debug, Clone)]
pub(super) struct SourceMap {
    /// Path of the file as shown in messages.
    pub(super) name: String,
    pub(super) sources: Vec<String>,
    /// First byte of each line, of each text.
    line_starts: Vec<Vec<usize>>,
}

/// Line and column, from 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LineColumn {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl SourceMap {
    pub(super) fn new(name: String, sources: Vec<String>) -> Self {
        let starts = |text: &String| std::iter::once(0).chain(text.match_indices('\n').map(|(i, _)| i + 1)).collect();
        let line_starts = sources.iter().map(starts).collect();
        Self { name, sources, line_starts }
    }

    /// Text of a span, and the span's range widened to whole characters.
    fn range(&self, span: SourceSpan) -> (&str, usize, usize) {
        let text = self.sources.get(span.source_index).map_or("", String::as_str);
        let start = text.floor_char_boundary(span.start);
        (text, start, text.ceil_char_boundary(span.end.max(start)))
    }

    /// Characters of a span.
    pub(super) fn slice(&self, span: SourceSpan) -> &str {
        let (text, start, end) = self.range(span);
        &text[start..end]
    }

    /// Line and column of the first character of a span.
    pub(super) fn position(&self, span: SourceSpan) -> LineColumn {
        let (text, start, _) = self.range(span);
        let starts = self.line_starts.get(span.source_index).map_or(&[0][..], Vec::as_slice);
        let line = starts.partition_point(|&line_start| line_start <= start).max(1);
        LineColumn { line, column: text[starts[line - 1]..start].chars().count() + 1 }
    }

    /// Line in which a span begins, and how many of its characters the span covers (at least one).
    pub(super) fn line(&self, span: SourceSpan) -> (&str, usize) {
        let (text, start, end) = self.range(span);
        let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |newline| start + newline);
        let line = text[line_start..line_end].trim_end_matches('\r');
        (line, text[start..end.min(line_end)].chars().count().max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters() {
        let source_map = SourceMap::new("x".to_owned(), vec!["a = 1\r\nä = 'ö'\n".to_owned()]);
        let span = SourceSpan::in_file(12..16);
        assert_eq!(source_map.slice(span), "'ö'");
        assert_eq!(source_map.position(span), LineColumn { line: 2, column: 5 });
        assert_eq!(source_map.line(span), ("ä = 'ö'", 3));
        assert_eq!(source_map.line(SourceSpan::in_file(0..1)), ("a = 1", 1));
        assert_eq!(source_map.position(SourceSpan::in_file(900..901)), LineColumn { line: 3, column: 1 });
    }
}
