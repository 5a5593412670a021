//! Cycles between the files of a module: files that need each other are one file in pieces.
//!
//! A file needs the files that define what its code names, tests apart. What a `mod.rs` only exports again counts as a use of
//! the file that defines it, so that neither a cycle hides behind it nor one is made of it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::Path;

use crate::source::{self, Use};

/// A module: its file, what that uses, and what it defines.
struct Module {
    file: String,
    uses: Vec<Use>,
    items: Vec<String>,
}

/// Modules by their paths; that of the crate is empty.
struct Tree(BTreeMap<Vec<String>, Module>);

impl Tree {
    /// All modules of `src/`, but for those of tests.
    fn read(root: &Path) -> Self {
        let files: Vec<_> =
            source::files(&root.join("src")).into_iter().filter(|(name, _)| name.ends_with(".rs")).collect();
        let mut of_tests: Vec<Vec<String>> = Vec::new();
        for (name, path) in &files {
            let above: Vec<String> = source::module_of(name).into_iter().map(str::to_owned).collect();
            of_tests.extend(source::test_modules(path).into_iter().map(|below| [above.as_slice(), &[below]].concat()));
        }
        let mut tree = BTreeMap::new();
        for (name, path) in files {
            let module = source::module_of(&name);
            let owned: Vec<String> = module.iter().map(|&part| part.to_owned()).collect();
            if module.first() == Some(&"bin") || of_tests.iter().any(|test| owned.starts_with(test)) {
                continue;
            }
            let mut uses = source::uses(&path, &module);
            // A package of its own is the root of its paths.
            if let Some(&layer) =
                module.first().filter(|layer| root.join("src").join(layer).join("Cargo.toml").is_file())
            {
                for used in uses.iter_mut().filter(|used| used.path[0] == "crate") {
                    if used.path.get(1).is_none_or(|name| name != layer || module.len() == 1) {
                        used.path.insert(1, layer.to_owned());
                    }
                }
            }
            tree.insert(owned, Module { file: name.clone(), uses, items: source::items(&path) });
        }
        Self(tree)
    }

    /// The module that defines what `path` names, seen from `module`; `None` of other crates.
    fn defined(&self, module: &[String], path: &[String], steps: usize) -> Option<Vec<String>> {
        let (first, rest) = path.split_first()?;
        if steps == 0 {
            return None;
        }
        if first == "crate" {
            return self.below(Vec::new(), rest, steps);
        }
        // A name of another crate, of a child, or one that a `use` of this file binds.
        let child = [module, std::slice::from_ref(first)].concat();
        if self.0.contains_key(&child) {
            return self.below(child, rest, steps);
        }
        let bound = self.0[module].uses.iter().find(|used| used.name.as_ref() == Some(first))?;
        (bound.path[0] != *first).then(|| self.defined(module, &[&bound.path, rest].concat(), steps - 1)).flatten()
    }

    /// The module that defines what `rest` names in `module`.
    fn below(&self, mut module: Vec<String>, rest: &[String], steps: usize) -> Option<Vec<String>> {
        for (number, name) in rest.iter().enumerate() {
            let child = [module.as_slice(), std::slice::from_ref(name)].concat();
            if self.0.contains_key(&child) {
                module = child;
                continue;
            }
            let here = self.0.get(&module)?;
            if here.items.contains(name) {
                return Some(module);
            }
            let after = &rest[number + 1..];
            if let Some(bound) = here.uses.iter().find(|used| used.name.as_ref() == Some(name)) {
                return self.defined(&module, &[&bound.path, after].concat(), steps - 1);
            }
            for all in here.uses.iter().filter(|used| used.name.as_deref() == Some("*")) {
                let path = [&all.path[..all.path.len() - 1], &rest[number..]].concat();
                let found = self.defined(&module, &path, steps.saturating_sub(1));
                if found.as_ref().is_some_and(|found| self.0[found].items.contains(name)) {
                    return found;
                }
            }
            return Some(module);
        }
        Some(module)
    }

    /// For every file the other files of its top-level module that it needs, each with the first line that does.
    fn needs(&self) -> BTreeMap<&str, BTreeMap<&str, usize>> {
        let mut needs: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
        for (path, module) in &self.0 {
            let own = needs.entry(&module.file).or_default();
            for used in module.uses.iter().filter(|used| !used.exported) {
                let Some(other) = self.defined(path, &used.path, 20) else { continue };
                if !path.is_empty() && other != *path && other.first() == path.first() {
                    own.entry(&self.0[&other].file).or_insert(used.line);
                }
            }
        }
        needs
    }
}

/// Files that need each other, directly or not: of each such group its files, and a shortest way around.
fn cycles(root: &Path) -> Vec<(String, String)> {
    let tree = Tree::read(root);
    let needs = tree.needs();
    let reaches: BTreeMap<&str, BTreeSet<&str>> = needs.keys().map(|&file| (file, reached(&needs, file))).collect();
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for &file in needs.keys() {
        if !reaches[file].contains(file) || !seen.insert(file) {
            continue;
        }
        let group: Vec<&str> = reaches[file].iter().copied().filter(|other| reaches[other].contains(file)).collect();
        seen.extend(&group);
        found.push((group.join(", "), around(&needs, file)));
    }
    found
}

/// All files that a file needs, directly or not.
fn reached<'t>(needs: &BTreeMap<&'t str, BTreeMap<&'t str, usize>>, file: &str) -> BTreeSet<&'t str> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&str> = needs[file].keys().copied().collect();
    while let Some(file) = next.pop() {
        if reached.insert(file) {
            next.extend(needs[file].keys());
        }
    }
    reached
}

/// A shortest way from a file back to it.
fn around(needs: &BTreeMap<&str, BTreeMap<&str, usize>>, start: &str) -> String {
    let mut ways = VecDeque::from([(start, Vec::new())]);
    let mut seen = BTreeSet::new();
    while let Some((file, way)) = ways.pop_front() {
        for (&other, line) in &needs[file] {
            let way: Vec<String> = way.iter().cloned().chain([format!("src/{file}:{line} uses {other}")]).collect();
            if other == start {
                return way.join(", ");
            }
            if seen.insert(other) {
                ways.push_back((other, way));
            }
        }
    }
    String::new()
}

#[test]
fn no_files_of_a_module_need_each_other() {
    let found = cycles(test_data::root());
    let told: Vec<String> = found.iter().map(|(files, way)| format!("{files}\n    {way}")).collect();
    assert!(found.is_empty(), "{} cycles:\n{}", found.len(), told.join("\n"));
}

/// Cycles by every kind of path, and what only looks like one.
#[test]
fn cycles_are_found_behind_exports_and_none_is_made_of_them() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, text: &str| {
        let path = root.path().join("src").join(name);
        fs::create_dir_all(path.parent().expect("it has one")).expect("it can be created");
        fs::write(path, text).expect("it can be written");
    };
    write("lib.rs", "pub mod a; pub mod b; pub mod c; pub mod d; pub mod e;");
    // Behind an export with another name, and through a folder: `one` → `two` → `three` → `one`.
    write("a/mod.rs", "mod one; mod two; mod folder; pub use two::Two as Other; pub(super) use folder::Three;");
    write("a/one.rs", "use super::Other; pub struct One(Other);");
    write("a/two.rs", "use super::Three; pub struct Two(Three);");
    write("a/folder/mod.rs", "mod three; pub use three::*;");
    write("a/folder/three.rs", "pub struct Three; fn f() { crate::a::one::One(todo!()); }");
    // A parent that does more than export needs its child.
    write("b/mod.rs", "mod child; use child::Child; pub trait Base {} fn all() -> Child { todo!() }");
    write("b/child.rs", "pub struct Child; impl super::Base for Child {}");
    // By a module that is imported, and its function.
    write("c/mod.rs", "mod left; mod right;");
    write("c/left.rs", "use super::right; pub fn l() { right::r() }");
    write("c/right.rs", "mod inner { use super::super::left::l; }");
    // No cycle: exports, tests, words in comments, modules within files, other modules.
    write("d/mod.rs", "mod x; mod y; #[cfg(test)] mod tests; pub use x::X; pub use y::Y;");
    write("d/x.rs", "use super::Y; pub struct X; #[cfg(test)] mod tests { use super::super::tests::T; }");
    write("d/y.rs", "// super::X\nuse std::fmt; use crate::e::E; pub struct Y; mod simd { use super::Y; }");
    write("d/tests.rs", "use super::{X, Y}; pub struct T;");
    write("e.rs", "use crate::d::X; pub struct E;");
    // A package of its own.
    write("kernels/Cargo.toml", "");
    write("kernels/lib.rs", "pub mod p; pub mod q;");
    write("kernels/p.rs", "use crate::q::Q; pub struct P;");
    write("kernels/q.rs", "use crate::p::P; pub struct Q;");

    let found = cycles(root.path());
    let files: Vec<&str> = found.iter().map(|(files, _)| files.as_str()).collect();
    assert_eq!(
        files,
        [
            "a/folder/three.rs, a/one.rs, a/two.rs",
            "b/child.rs, b/mod.rs",
            "c/left.rs, c/right.rs",
            "kernels/p.rs, kernels/q.rs",
        ]
    );
    assert_eq!(found[1].1, "src/b/child.rs:1 uses b/mod.rs, src/b/mod.rs:1 uses b/child.rs");
}
