//! Test that the files of a module have no cyclic dependencies.
//!
//! A file depends on the files that define the names in its code, except in tests. A name that a `mod.rs` re-exports
//! counts as a use of the defining file, so that re-exports neither hide nor create a cycle.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

use crate::source::{self, Use};

/// Module: its file, the paths that it uses, and the items that it defines.
struct Module {
    file: String,
    uses: Vec<Use>,
    items: Vec<String>,
}

/// Modules by path. The path of the crate root is empty.
struct ModuleTree(BTreeMap<Vec<String>, Module>);

impl ModuleTree {
    /// Reads all modules of `src/`, except test modules.
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
            // Paths in a package of its own start at that package.
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

    /// Returns the module that defines `path`, as seen from `module`; `None` for other crates. `steps` bounds the
    /// recursion.
    fn resolve(&self, module: &[String], path: &[String], steps: usize) -> Option<Vec<String>> {
        let (first, rest) = path.split_first()?;
        if steps == 0 {
            return None;
        }
        if first == "crate" {
            return self.resolve_below(Vec::new(), rest, steps);
        }
        // The name of another crate, of a child module, or bound by a `use` of this file.
        let child = [module, std::slice::from_ref(first)].concat();
        if self.0.contains_key(&child) {
            return self.resolve_below(child, rest, steps);
        }
        let bound = self.0[module].uses.iter().find(|used| used.name.as_ref() == Some(first))?;
        (bound.path[0] != *first).then(|| self.resolve(module, &[&bound.path, rest].concat(), steps - 1)).flatten()
    }

    /// Returns the module that defines the path `rest` in `module`.
    fn resolve_below(&self, mut module: Vec<String>, rest: &[String], steps: usize) -> Option<Vec<String>> {
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
                return self.resolve(&module, &[&bound.path, after].concat(), steps - 1);
            }
            for all in here.uses.iter().filter(|used| used.name.as_deref() == Some("*")) {
                let path = [&all.path[..all.path.len() - 1], &rest[number..]].concat();
                let found = self.resolve(&module, &path, steps.saturating_sub(1));
                if found.as_ref().is_some_and(|found| self.0[found].items.contains(name)) {
                    return found;
                }
            }
            return Some(module);
        }
        Some(module)
    }

    /// Returns, for every file, the files of its top-level module that it depends on, with the first line of use.
    fn dependencies(&self) -> BTreeMap<&str, BTreeMap<&str, usize>> {
        let mut needs: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
        for (path, module) in &self.0 {
            let own = needs.entry(&module.file).or_default();
            for used in module.uses.iter().filter(|used| !used.exported) {
                let Some(other) = self.resolve(path, &used.path, 20) else { continue };
                if !path.is_empty() && other != *path && other.first() == path.first() {
                    own.entry(&self.0[&other].file).or_insert(used.line);
                }
            }
        }
        needs
    }
}

/// Finds the groups of mutually dependent files. Returns the files and a shortest cycle of each group.
fn dependency_cycles(root: &Path) -> Vec<(String, String)> {
    let tree = ModuleTree::read(root);
    let needs = tree.dependencies();
    let reaches: BTreeMap<&str, BTreeSet<&str>> =
        needs.keys().map(|&file| (file, transitive_dependencies(&needs, file))).collect();
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for &file in needs.keys() {
        if !reaches[file].contains(file) || !seen.insert(file) {
            continue;
        }
        let group: Vec<&str> = reaches[file].iter().copied().filter(|other| reaches[other].contains(file)).collect();
        seen.extend(&group);
        found.push((group.join(", "), shortest_cycle(&needs, file)));
    }
    found
}

/// Returns all files that a file depends on, directly or indirectly.
fn transitive_dependencies<'t>(needs: &BTreeMap<&'t str, BTreeMap<&'t str, usize>>, file: &str) -> BTreeSet<&'t str> {
    let mut found = BTreeSet::new();
    let mut next: Vec<&str> = needs[file].keys().copied().collect();
    while let Some(file) = next.pop() {
        if found.insert(file) {
            next.extend(needs[file].keys());
        }
    }
    found
}

/// Returns a shortest cycle through a file.
fn shortest_cycle(needs: &BTreeMap<&str, BTreeMap<&str, usize>>, start: &str) -> String {
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
fn files_of_a_module_have_no_cyclic_dependencies() {
    let found = dependency_cycles(test_data::root());
    let lines: Vec<String> = found.iter().map(|(files, way)| format!("{files}\n    {way}")).collect();
    assert!(found.is_empty(), "{} cycles:\n{}", found.len(), lines.join("\n"));
}

/// Cycles by every kind of path, and acyclic code that resembles them.
#[test]
fn re_exports_neither_hide_nor_create_cycles() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, text: &str| source::write(&root.path().join("src"), name, text);
    write("lib.rs", "pub mod a; pub mod b; pub mod c; pub mod d; pub mod e;");
    // Through a renaming re-export and a folder: `one` → `two` → `three` → `one`.
    write("a/mod.rs", "mod one; mod two; mod folder; pub use two::Two as Other; pub(super) use folder::Three;");
    write("a/one.rs", "use super::Other; pub struct One(Other);");
    write("a/two.rs", "use super::Three; pub struct Two(Three);");
    write("a/folder/mod.rs", "mod three; pub use three::*;");
    write("a/folder/three.rs", "pub struct Three; fn f() { crate::a::one::One(todo!()); }");
    // A parent that uses its child, not only re-exports it.
    write("b/mod.rs", "mod child; use child::Child; pub trait Base {} fn all() -> Child { todo!() }");
    write("b/child.rs", "pub struct Child; impl super::Base for Child {}");
    // Through the path of a function in an imported module.
    write("c/mod.rs", "mod left; mod right;");
    write("c/left.rs", "use super::right; pub fn l() { right::r() }");
    write("c/right.rs", "mod inner { use super::super::left::l; }");
    // No cycle: re-exports, tests, comments, modules within files, other top-level modules.
    write("d/mod.rs", "mod x; mod y; #[cfg(test)] mod tests; pub use x::X; pub use y::Y;");
    write("d/x.rs", "use super::Y; pub struct X; #[cfg(test)] mod tests { use super::super::tests::T; }");
    write("d/y.rs", "// super::X\nuse std::fmt; use crate::e::E; pub struct Y; mod simd { use super::Y; }");
    write("d/tests.rs", "use super::{X, Y}; pub struct T;");
    write("e.rs", "use crate::d::X; pub struct E;");
    // In a package of its own.
    write("kernels/Cargo.toml", "");
    write("kernels/lib.rs", "pub mod p; pub mod q;");
    write("kernels/p.rs", "use crate::q::Q; pub struct P;");
    write("kernels/q.rs", "use crate::p::P; pub struct Q;");

    let found = dependency_cycles(root.path());
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
