//! Reader of the checkout and its Rust code, for tests about the code itself.
//!
//! The code is tokenised, not parsed, so paths inside macros are found, and incomplete files can be read.

use std::fs;
use std::path::{Path, PathBuf};

/// Lists all files of the project below `root`, sorted, as (relative path with `/`, path). Build outputs, the store,
/// libtorch and hidden folders other than those of the project are excluded.
pub(crate) fn files(root: &Path) -> Vec<(String, PathBuf)> {
    let mut files = Vec::new();
    let walk = walkdir::WalkDir::new(root).sort_by_file_name().into_iter().filter_entry(|entry| {
        let name = entry.file_name().to_string_lossy();
        let hidden = name.starts_with('.') && !matches!(&*name, ".ci" | ".cargo" | ".gitignore");
        entry.depth() == 0 || !(hidden || entry.depth() == 1 && matches!(&*name, "target" | "store"))
    });
    for entry in walk {
        let entry = entry.expect("the checkout is readable");
        if entry.file_type().is_file() {
            let relative = entry.path().strip_prefix(root).expect("it is below the root");
            files.push((relative.to_string_lossy().replace('\\', "/"), entry.into_path()));
        }
    }
    files
}

/// Writes a file of a made-up checkout, with its folders.
pub(crate) fn write(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().expect("it has one")).expect("it can be created");
    fs::write(path, text).expect("it can be written");
}

/// Module path of a file of `src/`: `["stages", "train"]` for `stages/train/mod.rs`, empty for `lib.rs`.
pub(crate) fn module_of(name: &str) -> Vec<&str> {
    name.trim_end_matches(".rs").split('/').filter(|part| !matches!(*part, "mod" | "lib")).collect()
}

/// Use of a path, which starts at the crate root or with the name of another crate.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) path: Vec<String>,
    pub(crate) line: usize,
    /// Name that a `use` declaration binds, `*` for a glob import; `None` for a path in an expression.
    pub(crate) name: Option<String>,
    /// True for a `pub use` of any visibility.
    pub(crate) exported: bool,
}

/// Returns the paths that the code of `file` uses, with `super` and `self` resolved and braces expanded. `module` is
/// the module path of the file. Comments, strings and items under `#[cfg(test)]` are ignored.
pub(crate) fn uses(file: &Path, module: &[&str]) -> Vec<Use> {
    uses_of(&fs::read_to_string(file).expect("source code is text"), module)
}

fn uses_of(text: &str, module: &[&str]) -> Vec<Use> {
    let tokens = without_tests(&tokens(text));
    let mut uses = Vec::new();
    // Enclosing modules within the file, with the depth of their braces.
    let mut inside: Vec<(&str, usize)> = Vec::new();
    let (mut at, mut depth) = (0, 0);
    while at < tokens.len() {
        match tokens[at].0.as_str() {
            "{" => depth += 1,
            "}" => {
                depth -= 1;
                inside.pop_if(|(_, of)| *of == depth);
            }
            "mod" if text_at(&tokens, at + 2) == "{" => inside.push((text_at(&tokens, at + 1), depth)),
            _ => {}
        }
        let before = text_at(&tokens, at.wrapping_sub(1));
        let begins = is_name(&tokens[at].0) && before != "::" && (text_at(&tokens, at + 1) == "::" || before == "use");
        if !begins {
            at += 1;
            continue;
        }
        let first = uses.len();
        let exported = matches!(text_at(&tokens, at.wrapping_sub(2)), "pub" | ")");
        at = read_use_tree(&tokens, at, &mut Vec::new(), &mut uses);
        let module: Vec<&str> = module.iter().copied().chain(inside.iter().map(|&(name, _)| name)).collect();
        for found in &mut uses[first..] {
            resolve(&mut found.path, &module);
            (found.name, found.exported) = if before == "use" { (found.name.take(), exported) } else { (None, false) };
        }
    }
    uses
}

/// Returns the names of the items that a file defines.
pub(crate) fn items(file: &Path) -> Vec<String> {
    let tokens = without_tests(&tokens(&fs::read_to_string(file).expect("source code is text")));
    let defines = |before: &str| {
        matches!(before, "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union" | "mod")
    };
    let defined = tokens.windows(2).filter(|pair| defines(&pair[0].0) && is_name(&pair[1].0));
    defined.map(|pair| pair[1].0.clone()).collect()
}

/// Returns the test modules that `file` declares, such as `#[cfg(test)] mod testing;`.
pub(crate) fn test_modules(file: &Path) -> Vec<String> {
    let tokens = tokens(&fs::read_to_string(file).expect("source code is text"));
    let mut modules = Vec::new();
    for at in (0..tokens.len()).filter(|&at| begins_test(&tokens, at)) {
        let item = tokens[at + 7..].iter().map(|(text, _)| text.as_str());
        let item: Vec<&str> =
            item.skip_while(|text| matches!(*text, "pub" | "(" | "crate" | "super" | ")")).take(3).collect();
        if let ["mod", name, ";"] = item.as_slice() {
            modules.push((*name).to_owned());
        }
    }
    modules
}

/// Reads a use tree such as `a::b::{c, d::e}` from `at`, and adds a path for each leaf. Returns its end.
fn read_use_tree(tokens: &[(String, usize)], mut at: usize, prefix: &mut Vec<String>, uses: &mut Vec<Use>) -> usize {
    let depth = prefix.len();
    loop {
        match text_at(tokens, at) {
            "{" => {
                at += 1;
                while !matches!(text_at(tokens, at), "}" | "") {
                    at = read_use_tree(tokens, at, prefix, uses).max(at + 1);
                    if text_at(tokens, at) == "as" {
                        at += 2;
                    }
                    if text_at(tokens, at) == "," {
                        at += 1;
                    }
                }
                prefix.truncate(depth);
                return at + 1;
            }
            name if is_name(name) || name == "*" => {
                prefix.push(name.to_owned());
                if text_at(tokens, at + 1) == "::" {
                    at += 2;
                    // A turbofish: `collect::<Vec<_>>`.
                    if text_at(tokens, at) != "<" {
                        continue;
                    }
                }
                let last = if name == "self" { prefix.iter().nth_back(1) } else { prefix.last() };
                let alias = (text_at(tokens, at + 1) == "as").then(|| text_at(tokens, at + 2).to_owned());
                let name = alias.or_else(|| last.cloned());
                let line = tokens[at.min(tokens.len() - 1)].1;
                uses.push(Use { path: prefix.clone(), line, name, exported: false });
                prefix.truncate(depth);
                return at + 1;
            }
            _ => {
                prefix.truncate(depth);
                return at;
            }
        }
    }
}

/// Converts `super::x` and `self::x` in `module` to paths from `crate`.
fn resolve(path: &mut Vec<String>, module: &[&str]) {
    let supers = path.iter().take_while(|name| *name == "super").count();
    let selves = path.iter().take_while(|name| *name == "self").count();
    if supers + selves > 0 {
        let above = module[..module.len().saturating_sub(supers)].iter().map(|&name| name.to_owned());
        let rest = path.split_off(supers + selves);
        *path = std::iter::once("crate".to_owned()).chain(above).chain(rest).collect();
    }
}

fn text_at(tokens: &[(String, usize)], at: usize) -> &str {
    tokens.get(at).map_or("", |(text, _)| text)
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Returns true if `#[cfg(test)]` is at `at`.
fn begins_test(tokens: &[(String, usize)], at: usize) -> bool {
    ["#", "[", "cfg", "(", "test", ")", "]"].iter().enumerate().all(|(i, wanted)| text_at(tokens, at + i) == *wanted)
}

/// Removes the items under `#[cfg(test)]`.
fn without_tests(tokens: &[(String, usize)]) -> Vec<(String, usize)> {
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if !begins_test(tokens, at) {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        }
        let mut depth = 0;
        at += 7;
        while at < tokens.len() {
            let text = tokens[at].0.as_str();
            depth += i32::from(text == "{") - i32::from(text == "}");
            at += 1;
            if depth == 0 && matches!(text, "}" | ";") {
                break;
            }
        }
    }
    kept
}

/// Splits code into tokens with their lines: names, `::`, and single other characters. Comments and literals of strings
/// and characters are removed.
fn tokens(text: &str) -> Vec<(String, usize)> {
    let chars: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < chars.len() {
        let rest = &chars[at..];
        let length = match rest {
            ['/', '/', ..] => rest.iter().position(|&c| c == '\n').unwrap_or(rest.len()),
            ['/', '*', ..] => comment(rest),
            ['"', ..] => string(rest),
            ['r', '"' | '#', ..] | ['b', 'r', '"' | '#', ..] if raw_string(rest).is_some() => {
                raw_string(rest).unwrap_or(1)
            }
            ['\'', '\\', ..] => 3 + rest[3..].iter().position(|&c| c == '\'').unwrap_or(0) + 1,
            ['\'', _, '\'', ..] => 3,
            [':', ':', ..] => {
                tokens.push(("::".to_owned(), line));
                2
            }
            [first, ..] if first.is_alphanumeric() || *first == '_' => {
                let length = rest.iter().position(|c| !c.is_alphanumeric() && *c != '_').unwrap_or(rest.len());
                tokens.push((rest[..length].iter().collect(), line));
                length
            }
            [other, ..] => {
                if !other.is_whitespace() {
                    tokens.push((other.to_string(), line));
                }
                1
            }
            [] => break,
        };
        let end = (at + length).min(chars.len());
        line += chars[at..end].iter().filter(|&&c| c == '\n').count();
        at = end;
    }
    tokens
}

/// Length of the possibly nested block comment at the start of `rest`.
fn comment(rest: &[char]) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < rest.len() {
        match rest[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// Length of the string literal at the start of `rest`.
fn string(rest: &[char]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != '"' {
        at += if rest[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

/// Length of the raw string literal at the start of `rest`, unless it is a raw identifier.
fn raw_string(rest: &[char]) -> Option<usize> {
    let start = rest.iter().position(|&c| c == 'r')? + 1;
    let hashes = rest[start..].iter().take_while(|&&c| c == '#').count();
    let content = start + hashes + 1;
    if rest.get(content - 1) != Some(&'"') {
        return None;
    }
    let ends = |at: &usize| rest[*at] == '"' && rest[at + 1..].iter().take_while(|&&c| c == '#').count() >= hashes;
    Some((content..rest.len()).find(ends).map_or(rest.len(), |at| at + 1 + hashes))
}

#[test]
fn uses_are_found_in_every_kind_of_code() {
    let text = r##"
//! use crate::comment;
use crate::{error::Result, tables::{self, captions as c}};
use super::other::{
    One,
};
/* use crate::a /* nested */ ; use crate::b */
const A: &str = "use crate::string; \" crate::still";
const B: &str = r#"crate::raw " "#;
fn f<'a>(x: &'a str) -> char { crate::io::read(x); std::fs::read::<_>(x); '"' }
stages! { Ingest(super::super::engine::X) }
use tch;
#[cfg(test)]
mod tests { use crate::engine; fn g() { { } } }
fn after() { self::here::x() }
"##;
    let found: Vec<_> =
        uses_of(text, &["stages", "train"]).into_iter().map(|found| (found.path.join("::"), found.line)).collect();
    let wanted = [
        ("crate::error::Result", 3),
        ("crate::tables::self", 3),
        ("crate::tables::captions", 3),
        ("crate::stages::other::One", 5),
        ("crate::io::read", 10),
        ("std::fs::read", 10),
        ("crate::engine::X", 11),
        ("tch", 12),
        ("crate::stages::train::here::x", 15),
    ];
    assert_eq!(found, wanted.map(|(path, line)| (path.to_owned(), line)));
}
