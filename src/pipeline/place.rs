//! Where something stands: in the pipeline file, or in an argument of the command line.

/// A range of bytes in one of the [`Texts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Place {
    /// 0 is the pipeline file, `i` the `i`-th `--set`.
    pub(super) text: usize,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Place {
    pub(super) fn in_file(span: std::ops::Range<usize>) -> Self {
        Self { text: 0, start: span.start, end: span.end }
    }

    pub(super) fn is_argument(self) -> bool {
        self.text > 0
    }
}

/// The pipeline file, and after it the arguments.
#[derive(Debug, Clone)]
pub(super) struct Texts {
    /// What people call the file.
    pub(super) name: String,
    pub(super) texts: Vec<String>,
}

/// A place as people count: from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Texts {
    /// The text that a place is in, and the place's range cut to whole characters of it.
    fn range(&self, place: Place) -> (&str, usize, usize) {
        let text = self.texts.get(place.text).map_or("", String::as_str);
        let start = text.floor_char_boundary(place.start);
        (text, start, text.ceil_char_boundary(place.end.max(start)))
    }

    /// The characters at a place.
    pub(super) fn slice(&self, place: Place) -> &str {
        let (text, start, end) = self.range(place);
        &text[start..end]
    }

    /// Line and column of the first character of a place.
    pub(super) fn position(&self, place: Place) -> Position {
        let (text, start, _) = self.range(place);
        let before = &text[..start];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Position { line: before.matches('\n').count() + 1, column: before[line_start..].chars().count() + 1 }
    }

    /// The line that a place begins in, and how many of its characters the place covers (at least one).
    pub(super) fn line(&self, place: Place) -> (&str, usize) {
        let (text, start, end) = self.range(place);
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
        let texts = Texts { name: "x".to_owned(), texts: vec!["a = 1\r\nä = 'ö'\n".to_owned()] };
        let place = Place::in_file(12..16);
        assert_eq!(texts.slice(place), "'ö'");
        assert_eq!(texts.position(place), Position { line: 2, column: 5 });
        assert_eq!(texts.line(place), ("ä = 'ö'", 3));
        assert_eq!(texts.line(Place::in_file(0..1)), ("a = 1", 1));
        assert_eq!(texts.position(Place::in_file(900..901)), Position { line: 3, column: 1 });
    }
}
