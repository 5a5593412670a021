//! Combinations of the values of a matrix.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::axes::{Condition, Matrix};
use crate::diagnostic::{Diagnostic, SourceSpan};

/// Largest number of combinations.
const MAX_COMBINATIONS: usize = 1000;

/// Combinations of the values of some axes, shared by the stages that depend on these axes.
type SharedCombinations = Rc<Vec<Vec<Condition>>>;

/// Axes whose values are covered by some combinations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Covered {
    AllAxes,
    /// Axes of named rows. Values of one setting do not change which other settings are right.
    NamedRows,
}

/// Combinations of a matrix that are run: for each axis, the index of a value.
#[derive(Debug, Clone)]
pub(crate) struct Combinations {
    all: Vec<Vec<usize>>,
    /// True if these are some of the combinations of the file.
    is_partial: bool,
    /// Combinations of some axes, by these axes.
    projections: RefCell<BTreeMap<BTreeSet<usize>, SharedCombinations>>,
}

impl Combinations {
    /// All combinations of a matrix, without those that it leaves out. The last axis is the fastest. A matrix of too many
    /// combinations is reported, and has none.
    pub(crate) fn of(matrix: &Matrix, diagnostics: &mut Vec<Diagnostic>) -> Self {
        let sizes: Vec<usize> = matrix.axes.iter().map(|axis| axis.values.len()).collect();
        let count = sizes.iter().try_fold(1_usize, |product, size| product.checked_mul(*size));
        if count.is_none_or(|count| count > MAX_COMBINATIONS) {
            let of = matrix.axes.iter().map(|axis| format!("{} of `{}`", axis.values.len(), axis.name));
            let count = count.map_or_else(|| "too many".to_owned(), |count| count.to_string());
            let message = format!(
                "the matrix has {count} combinations ({}), expected at most {MAX_COMBINATIONS}",
                of.collect::<Vec<_>>().join(", ")
            );
            diagnostics.push(
                Diagnostic::new(matrix.span, message)
                    .hint("shorten an axis, or list the combinations that are expected as named rows of one axis"),
            );
            return Self::new(Vec::new(), false);
        }
        let mut all: Vec<Vec<usize>> = vec![Vec::new()];
        for size in sizes {
            let longer = |values: Vec<usize>| (0..size).map(move |value| [values.clone(), vec![value]].concat());
            all = all.into_iter().flat_map(longer).collect();
        }
        all.retain(|values| !matrix.excluded.iter().any(|conditions| satisfies(values, conditions)));
        if all.is_empty() && diagnostics.is_empty() {
            diagnostics.push(Diagnostic::new(matrix.span, "the matrix leaves out all of its combinations"));
        }
        Self::new(all, false)
    }

    fn new(all: Vec<Vec<usize>>, is_partial: bool) -> Self {
        Self { all, is_partial, projections: RefCell::default() }
    }

    /// Combinations that the command line chooses: those of `only`, without those of `except`. Conditions of an item of
    /// `only` are values of one axis, of which one must hold.
    pub(crate) fn chosen(
        &self,
        only: &[Vec<Condition>],
        except: &[Vec<Condition>],
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Self {
        let is_chosen = |values: &&Vec<usize>| {
            let has = |any: &Vec<Condition>| any.iter().any(|of| satisfies(values, std::slice::from_ref(of)));
            only.iter().all(has) && !except.iter().any(|conditions| satisfies(values, conditions))
        };
        let chosen: Vec<Vec<usize>> = self.all.iter().filter(is_chosen).cloned().collect();
        if chosen.is_empty() && diagnostics.is_empty() {
            let options = if except.is_empty() { "`--only` chooses" } else { "`--only` and `--except` choose" };
            diagnostics.push(
                Diagnostic::new(SourceSpan::nowhere(), format!("{options} no combination of the matrix"))
                    .hint("several values of an axis are one argument: `--only row=1.1,1.2`"),
            );
        }
        Self::new(chosen, true)
    }

    /// Some combinations that have every value of the axes `covered`, and satisfy each item of `needed` that any does. They
    /// are enough to find the mistakes of all settings of these values.
    pub(crate) fn covering(&self, matrix: &Matrix, covered: Covered, needed: &[Vec<Condition>]) -> Self {
        let mut all = self.all.clone();
        if all.is_empty() {
            // The matrix has too many combinations, or leaves out all of them.
            let first = vec![0; matrix.axes.len()];
            let with = |axis: usize, value: usize| {
                let mut values = first.clone();
                values[axis] = value;
                values
            };
            let axes = matrix.axes.iter().enumerate();
            all = axes
                .flat_map(|(axis, of)| (0..of.values.len()).map(move |value| (axis, value)))
                .map(|(axis, value)| with(axis, value))
                .collect();
        }
        let mut seen = BTreeSet::new();
        let mut is_found = vec![false; needed.len()];
        let mut is_first = true;
        all.retain(|values| {
            let mut is_new = std::mem::take(&mut is_first);
            for condition in values.iter().copied().enumerate() {
                let is_covered = covered == Covered::AllAxes || matrix.axes[condition.0].settings.is_empty();
                is_new |= is_covered && seen.insert(condition);
            }
            for (is_found, conditions) in is_found.iter_mut().zip(needed) {
                is_new |= !std::mem::replace(is_found, *is_found || satisfies(values, conditions)) && *is_found;
            }
            is_new
        });
        Self::new(all, true)
    }

    /// True if these are some of the combinations, so that others are missing.
    pub(super) fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// True if there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
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

/// True if a combination has the values of all conditions.
fn satisfies(values: &[usize], conditions: &[Condition]) -> bool {
    conditions.iter().all(|&(axis, value)| values.get(axis) == Some(&value))
}
