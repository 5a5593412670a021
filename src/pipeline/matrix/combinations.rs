//! Combinations of the values of a matrix.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::axes::{Condition, Matrix};
use crate::pipeline::diagnostic::Diagnostic;
use crate::pipeline::source_map::SourceSpan;

/// Largest number of combinations.
const MAX_COMBINATIONS: usize = 1000;

/// Combinations of the values of some axes, shared by the stages that depend on these axes.
type SharedCombinations = Rc<Vec<Vec<Condition>>>;

/// Combinations of a matrix that are run: for each axis, the index of a value.
#[derive(Debug)]
pub(in crate::pipeline) struct Combinations {
    all: Vec<Vec<usize>>,
    /// True if the command line chose some of the combinations of the file.
    is_partial: bool,
    /// Combinations of some axes, by these axes.
    projections: RefCell<BTreeMap<BTreeSet<usize>, SharedCombinations>>,
}

impl Combinations {
    /// All combinations of a matrix, without those that it leaves out and those that `only` does not choose. The last axis
    /// is the fastest. A matrix of too many combinations is reported, and has none.
    pub(in crate::pipeline) fn new(
        matrix: &Matrix,
        only: &[Vec<Condition>],
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Self {
        let sizes: Vec<usize> = matrix.axes.iter().map(|axis| axis.values.len()).collect();
        let count = sizes.iter().try_fold(1_usize, |product, size| product.checked_mul(*size));
        if count.is_none_or(|count| count > MAX_COMBINATIONS) {
            let of = matrix.axes.iter().map(|axis| format!("{} of `{}`", axis.values.len(), axis.name));
            let count = count.map_or_else(|| "too many".to_owned(), |count| count.to_string());
            let message = format!(
                "the matrix has {count} combinations ({}), wanted at most {MAX_COMBINATIONS}",
                of.collect::<Vec<_>>().join(", ")
            );
            diagnostics.push(
                Diagnostic::new(matrix.span, message)
                    .hint("shorten an axis, or list the combinations that are wanted as named rows of one axis"),
            );
            return Self { all: Vec::new(), is_partial: false, projections: RefCell::default() };
        }
        let mut all: Vec<Vec<usize>> = vec![Vec::new()];
        for size in sizes {
            let longer = |values: Vec<usize>| (0..size).map(move |value| [values.clone(), vec![value]].concat());
            all = all.into_iter().flat_map(longer).collect();
        }
        let satisfies = |values: &[usize], conditions: &[Condition]| {
            conditions.iter().all(|&(axis, value)| values.get(axis) == Some(&value))
        };
        all.retain(|values| !matrix.excluded.iter().any(|conditions| satisfies(values, conditions)));
        if all.is_empty() && diagnostics.is_empty() {
            diagnostics.push(Diagnostic::new(matrix.span, "the matrix leaves out all of its combinations"));
        }
        // Conditions of one item are values of one axis, of which one must hold.
        all.retain(|values| {
            only.iter().all(|any| any.iter().any(|condition| satisfies(values, std::slice::from_ref(condition))))
        });
        if all.is_empty() && diagnostics.is_empty() {
            diagnostics.push(
                Diagnostic::new(SourceSpan::nowhere(), "`--only` chooses no combination of the matrix")
                    .hint("several values of an axis are one argument: `--only row=1.1,1.2`"),
            );
        }
        Self { all, is_partial: !only.is_empty(), projections: RefCell::default() }
    }

    /// True if the command line chose some of the combinations, so that others may be missing.
    pub(super) fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// Different combinations of the values of some axes, in order.
    pub(super) fn projected(&self, axes: &BTreeSet<usize>) -> SharedCombinations {
        if let Some(known) = self.projections.borrow().get(axes) {
            return Rc::clone(known);
        }
        let mut seen = BTreeSet::new();
        let of = |values: &Vec<usize>| axes.iter().map(|&axis| (axis, values[axis])).collect::<Vec<_>>();
        let projected = Rc::new(self.all.iter().map(of).filter(|values| seen.insert(values.clone())).collect());
        self.projections.borrow_mut().insert(axes.clone(), Rc::clone(&projected));
        projected
    }
}
