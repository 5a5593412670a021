//! Documents in Markdown: their headings, links and code, each with its line.

use std::collections::BTreeSet;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// Block of code.
#[derive(Debug, PartialEq)]
pub(crate) struct Block {
    /// Line of its first fence.
    pub(crate) line: usize,
    pub(crate) language: String,
    pub(crate) text: String,
}

/// What is looked at in a document.
#[derive(Debug, Default)]
pub(crate) struct Document {
    /// Anchors of the headings, as mdBook and GitHub name them.
    pub(crate) anchors: BTreeSet<String>,
    /// Lines and targets of links.
    pub(crate) links: Vec<(usize, String)>,
    /// Lines and texts of code within sentences.
    pub(crate) code: Vec<(usize, String)>,
    pub(crate) blocks: Vec<Block>,
}

impl Document {
    pub(crate) fn parse(text: &str) -> Self {
        let mut document = Self::default();
        let (mut heading, mut block): (Option<String>, Option<Block>) = (None, None);
        for (event, place) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            let line = text[..place.start].matches('\n').count() + 1;
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let name = anchor(&heading.take().unwrap_or_default());
                    let repeated = (1..).map(|number| format!("{name}-{number}"));
                    let mut names = std::iter::once(name.clone()).chain(repeated);
                    let free = names.find(|name| !document.anchors.contains(name)).expect("numbers do not end");
                    document.anchors.insert(free);
                }
                Event::Start(Tag::Link { dest_url, .. }) => document.links.push((line, dest_url.into_string())),
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => {
                    block = Some(Block { line, language: language.into_string(), text: String::new() });
                }
                Event::End(TagEnd::CodeBlock) => document.blocks.extend(block.take()),
                Event::Text(part) => match (&mut heading, &mut block) {
                    (Some(text), _) | (None, Some(Block { text, .. })) => text.push_str(&part),
                    (None, None) => {}
                },
                Event::Code(part) => {
                    if let Some(text) = &mut heading {
                        text.push_str(&part);
                    }
                    document.code.push((line, part.into_string()));
                }
                _ => {}
            }
        }
        document
    }
}

/// Anchor of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, '_' | '-') || c.is_whitespace());
    kept.map(|c| if c.is_whitespace() { '-' } else { c.to_ascii_lowercase() }).collect()
}

#[test]
fn documents_are_read_by_their_parts() {
    let text = "# The `a_b` of it\n\n[x](y.md#z) and `code`\n\n## Twice\n## Twice\n\n```sh,no_run\n[a](b)\n```\n";
    let document = Document::parse(text);
    assert!(document.anchors.iter().eq(["the-a_b-of-it", "twice", "twice-1"]), "{:?}", document.anchors);
    assert_eq!(document.links, [(3, "y.md#z".to_owned())]);
    assert_eq!(document.code, [(1, "a_b".to_owned()), (3, "code".to_owned())]);
    let block = Block { line: 8, language: "sh,no_run".to_owned(), text: "[a](b)\n".to_owned() };
    assert_eq!(document.blocks, [block]);
}
