//! Dense matrix of scores in f64, for the definitions of all methods.

/// Matrix of the scores of queries (rows) with items (columns), row-major.
#[derive(Debug, Clone, PartialEq)]
pub struct DenseScores {
    /// Rows.
    pub queries: usize,
    /// Columns.
    pub items: usize,
    /// `queries × items` scores.
    pub values: Vec<f64>,
}

impl DenseScores {
    /// The matrix whose value in row `q` and column `i` is `value(q, i)`.
    #[must_use]
    pub fn from_fn(queries: usize, items: usize, value: impl Fn(usize, usize) -> f64) -> Self {
        let values = (0..queries).flat_map(|q| (0..items).map(move |i| (q, i))).map(|(q, i)| value(q, i)).collect();
        Self { queries, items, values }
    }

    /// The score of a query and an item.
    #[must_use]
    pub fn at(&self, query: usize, item: usize) -> f64 {
        self.values[query * self.items + item]
    }

    /// The scores of a query with all items.
    pub fn row(&self, query: usize) -> impl Iterator<Item = f64> + Clone {
        self.values[query * self.items..][..self.items].iter().copied()
    }

    /// The scores of an item with all queries.
    pub fn column(&self, item: usize) -> impl Iterator<Item = f64> + Clone {
        (0..self.queries).map(move |query| self.at(query, item))
    }

    /// The items of each query, best first; of equal scores the lower index comes first.
    #[must_use]
    pub fn rankings(&self) -> Vec<Vec<usize>> {
        (0..self.queries)
            .map(|query| {
                let mut items: Vec<usize> = (0..self.items).collect();
                // The sort is stable; adding 0 turns −0 into 0.
                items.sort_by(|&a, &b| (self.at(query, b) + 0.0).total_cmp(&(self.at(query, a) + 0.0)));
                items
            })
            .collect()
    }
}
