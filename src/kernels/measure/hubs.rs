//! Hubness: how unevenly the k-occurrences `N_k` are distributed over items; also if
//! items are duplicate rows.
//!
//! Radovanović, Nanopoulos, Ivanović, "Hubs in Space", JMLR 11, 2010 (`N_k`, skewness); Feldbauer, Leodolter, Plant,
//! Flexer, "Fast Approximate Hubness Reduction for Large High-Dimensional Data", ICBK 2018 (Robin Hood index,
//! antihubs).

use super::metric::{KOccurrences, Metric, MetricName, MetricUnit, RecordValue};

/// k-occurrences `N_k(i)`: the number of queries that have item i among their first `k` items.
///
/// # Shapes
/// - `lists`: ranked items of every query, best first; items beyond `k` are ignored
/// - result: one count for each of `items`
///
/// # Cost
/// `O(queries · k)` time.
#[must_use]
pub fn k_occurrences<'l>(lists: impl IntoIterator<Item = &'l [usize]>, items: usize, k: usize) -> Vec<usize> {
    let mut counts = vec![0; items];
    for &item in lists.into_iter().flat_map(|list| list.iter().take(k)) {
        counts[item] += 1;
    }
    counts
}

/// Hubness measures of the distribution of `N_k`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hubness {
    /// Skewness, `Σ (N − N̄)³ / (n · Var^{3/2})`, with the population variance. 0 if all N are equal.
    pub skewness: f64,
    /// Robin Hood index, `Σ |N − N̄| / (2·ΣN)`: the share of occurrences that would have to move to make all N equal.
    /// In [0, 1).
    pub robin_hood: f64,
    /// Gini's index, `Σᵢⱼ |Nᵢ − Nⱼ| / (2·n·ΣN)`: 0 if all N are equal, near 1 if one item has all occurrences.
    pub gini: f64,
    /// Share of items that are antihubs: N = 0.
    pub antihub_rate: f64,
    /// Share of items that are hubs: N is at least twice the mean (N ≥ 2·k if there are as many queries as items).
    pub hub_rate: f64,
    /// Share of all occurrences that are of hubs.
    pub hub_occurrence: f64,
    /// The largest N.
    pub largest: usize,
}

impl Hubness {
    /// Measures of the N of every item; `None` if all are 0.
    ///
    /// # Cost
    /// `O(n log n)` time, a copy.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
    pub fn of(occurrences: &[usize]) -> Option<Self> {
        let (n, total) = (occurrences.len() as f64, occurrences.iter().sum::<usize>());
        if total == 0 {
            return None;
        }
        let mean = total as f64 / n;
        let moment = |power: i32| occurrences.iter().map(|&count| (count as f64 - mean).powi(power)).sum::<f64>() / n;
        let variance = moment(2);
        let mut sorted = occurrences.to_vec();
        sorted.sort_unstable();
        // For sorted values, half the sum of all |Nᵢ − Nⱼ| is Σ (2·index − n + 1)·value.
        let weight = |place: usize| 2.0 * place as f64 - n + 1.0;
        let differences: f64 = sorted.iter().enumerate().map(|(place, &count)| weight(place) * count as f64).sum();
        let hubs = || occurrences.iter().filter(|&&count| count as f64 >= 2.0 * mean);
        Some(Self {
            skewness: if sorted.first() == sorted.last() { 0.0 } else { moment(3) / variance.powf(1.5) },
            robin_hood: occurrences.iter().map(|&count| (count as f64 - mean).abs()).sum::<f64>() / (2 * total) as f64,
            gini: differences / (n * total as f64),
            antihub_rate: occurrences.iter().filter(|&&count| count == 0).count() as f64 / n,
            hub_rate: hubs().count() as f64 / n,
            hub_occurrence: hubs().sum::<usize>() as f64 / total as f64,
            largest: sorted.last().copied().unwrap_or(0),
        })
    }
}

/// hs-sum: the sum of the skewness of `N_k` over both directions and all cut-offs k (Liu and Ye, "Improved Text-Image
/// Matching by Mitigating Visual Semantic Hubs", submitted to EMNLP 2019, section 4.1, at 1, 5 and 10).
#[must_use]
pub fn hs_sum(skewness: impl IntoIterator<Item = f64>) -> f64 {
    skewness.into_iter().sum()
}

/// Numbers of items by N₁, the number of queries whose nearest neighbour an item is: table 5 of Liu and Ye, "A Strong
/// and Robust Baseline for Text-Image Matching", ACL SRW 2019.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NearestNeighbourCounts {
    /// Number of items.
    pub items: usize,
    /// Items that are nearest neighbour to no query.
    pub zero: usize,
    /// Items that are nearest neighbour to one.
    pub one: usize,
    /// Items that are nearest neighbour to at least two.
    pub two: usize,
    /// Items that are nearest neighbour to at least five.
    pub five: usize,
    /// Items that are nearest neighbour to at least ten.
    pub ten: usize,
}

impl NearestNeighbourCounts {
    /// Counts from N₁ of every item, or of every row of items that are duplicated
    /// ([`nearest_row_counts`]).
    #[must_use]
    pub fn of(nearest: &[usize]) -> Self {
        let at_least = |queries: usize| nearest.iter().filter(|count| **count >= queries).count();
        let [once, two, five, ten] = [1, 2, 5, 10].map(at_least);
        Self { items: nearest.len(), zero: nearest.len() - once, one: once - two, two, five, ten }
    }
}

/// Metric of [`Hubness`] at each cut-off: `hub_skewness`, `robin_hood`, `antihub_rate`, `hub_rate`, `hub_occurrence`,
/// `hub_gini`, `largest_hub`. In the variant `duplicated`, `hub_skewness` is that of duplicate rows.
#[derive(Debug)]
pub struct HubStatistics;

impl Metric for HubStatistics {
    #[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
    fn measure_occurrences(&self, occurrences: &KOccurrences<'_>, add: RecordValue<'_>) {
        for (k, counts) in occurrences.at {
            let Some(hubs) = Hubness::of(counts) else { continue };
            for (measure, unit, value) in [
                ("hub_skewness", MetricUnit::Number, hubs.skewness),
                ("robin_hood", MetricUnit::Number, hubs.robin_hood),
                ("antihub_rate", MetricUnit::Share, hubs.antihub_rate),
                ("hub_rate", MetricUnit::Share, hubs.hub_rate),
                ("hub_occurrence", MetricUnit::Share, hubs.hub_occurrence),
                ("hub_gini", MetricUnit::Number, hubs.gini),
                ("largest_hub", MetricUnit::Number, hubs.largest as f64),
            ] {
                add(MetricName::new(measure, unit).at_cutoff(*k), value);
            }
        }
        for (k, counts) in occurrences.duplicated_rows {
            let Some(hubs) = Hubness::of(counts) else { continue };
            let name = MetricName::new("hub_skewness", MetricUnit::Number).at_cutoff(*k);
            add(MetricName { variant: Some(DUPLICATED), ..name }, hubs.skewness);
        }
    }
}

/// Variant of measures of hubness over duplicate rows: an item has a row for each query that it matches.
pub const DUPLICATED: &str = "duplicated";

/// Metric `k_occurrence_rate`: [`NearestNeighbourCounts`] in percent of the items. In the variants `duplicated` and
/// `duplicated_turns`, an item has a row for each query that it matches; of equal rows the first is the nearest neighbour,
/// or they take turns.
#[derive(Debug)]
pub struct KOccurrenceRate;

impl Metric for KOccurrenceRate {
    #[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
    fn measure_occurrences(&self, occurrences: &KOccurrences<'_>, add: RecordValue<'_>) {
        let KOccurrences { one_occurrences: nearest, matches_per_item: own, .. } = *occurrences;
        let mut tables = vec![(None, NearestNeighbourCounts::of(nearest))];
        if own.iter().any(|&queries| queries != 1) {
            for (variant, ties) in [(DUPLICATED, RowTies::First), ("duplicated_turns", RowTies::TakeTurns)] {
                tables.push((Some(variant), NearestNeighbourCounts::of(&nearest_row_counts(nearest, own, ties))));
            }
        }
        for (place, m) in [0, 1, 2, 5, 10].into_iter().enumerate() {
            for (variant, table) in &tables {
                let count = [table.zero, table.one, table.two, table.five, table.ten][place];
                let name = MetricName {
                    variant: *variant,
                    m: Some(m),
                    ..MetricName::new("k_occurrence_rate", MetricUnit::Number).at_cutoff(1)
                };
                add(name, 100.0 * count as f64 / table.items.max(1) as f64);
            }
        }
    }
}

// Hubness over duplicate rows: an image with five captions as five equal rows, as `*_precomp` folders store it.
//
// Liu and Ye, "A Strong and Robust Baseline for Text-Image Matching", ACL SRW 2019, table 5, counts 25,000 such rows of
// 5,000 images. Equal rows tie for every query. Only one of them can be the nearest neighbour, so if ties always go to
// the same row, four of five rows are found by no query. The table has 79.2 %, slightly below 80 %, so its ties did not
// always go to the same row. But almost: if they took turns, far fewer rows would be found by none.

/// Rule for the equal rows of an item that tie for the first place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowTies {
    /// The first row is the nearest neighbour of all queries of the item. As many rows as possible are found by none.
    First,
    /// The rows take turns. As few rows as possible are found by none.
    TakeTurns,
}

/// N₁ of every row, from N₁ of every item.
///
/// # Shapes
/// - `rows`: number of equal rows of each item; an item without rows is left out
/// - result: one count for each row, the rows of an item beside each other
#[must_use]
pub fn nearest_row_counts(nearest: &[usize], rows: &[usize], ties: RowTies) -> Vec<usize> {
    let row_items = |(&queries, &rows): (&usize, &usize)| -> Vec<usize> {
        let count = |row: usize| match ties {
            RowTies::First if row == 0 => queries,
            RowTies::First => 0,
            RowTies::TakeTurns => queries / rows + usize::from(row < queries % rows),
        };
        (0..rows).map(count).collect()
    };
    nearest.iter().zip(rows).flat_map(row_items).collect()
}

/// k-occurrences `N_k` of every row: the first k rows of a query are those of its first items, so with five rows an item
/// the first five rows are one image. Of the rows of an item, the lower comes first.
///
/// # Shapes
/// - `lists`: ranked items of every query, best first; at least k items, or all
/// - `query_rows`: number of equal rows of each query, each of which counts
/// - `item_rows`: number of equal rows of each item, at least 1
/// - result: one count for each row
///
/// # Cost
/// `O(queries · k + rows)` time.
#[must_use]
pub fn row_k_occurrences<'l>(
    lists: impl IntoIterator<Item = &'l [usize]>,
    query_rows: &[usize],
    item_rows: &[usize],
    k: usize,
) -> Vec<usize> {
    let mut first_rows = Vec::with_capacity(item_rows.len());
    let mut total = 0;
    for rows in item_rows {
        first_rows.push(total);
        total += rows;
    }
    let mut counts = vec![0; total];
    for (list, times) in lists.into_iter().zip(query_rows) {
        let mut left = k;
        for &item in list {
            let taken = left.min(item_rows[item]);
            counts[first_rows[item]..first_rows[item] + taken].iter_mut().for_each(|count| *count += times);
            left -= taken;
            if left == 0 {
                break;
            }
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn occurrences_and_their_skewness() {
        let lists = [[0, 1, 2], [0, 2, 1], [1, 0, 3]];
        let counts = |k| k_occurrences(lists.iter().map(<[usize; 3]>::as_slice), 4, k);
        assert_eq!(counts(1), [2, 1, 0, 0]);
        assert_eq!(counts(2), [3, 2, 1, 0]);
        assert_eq!(counts(9), [3, 3, 2, 1]);

        // N = 4 0 0 0: mean 1, deviations 3 −1 −1 −1; Var = 12/4 = 3, Σ³ = 24: skewness 24/(4·3√3) = 2/√3.
        let one = Hubness::of(&[4, 0, 0, 0]).expect("there are neighbours");
        assert!((one.skewness - 2.0 / 3f64.sqrt()).abs() < 1e-15);
        // Three quarters of the occurrences would have to move; the sum of differences is 6·4, over 2·4·4.
        assert_eq!((one.robin_hood, one.gini, one.antihub_rate), (0.75, 0.75, 0.75));
        assert_eq!((one.hub_rate, one.hub_occurrence, one.largest), (0.25, 1.0, 4));
        let even = Hubness::of(&[3, 3, 3]).expect("there are neighbours");
        assert_eq!((even.skewness, even.robin_hood, even.gini, even.antihub_rate), (0.0, 0.0, 0.0, 0.0));
        assert_eq!((even.hub_rate, even.largest), (0.0, 3));
        // N of twice the mean, which is 1, is a hub, and less is not.
        assert_eq!(Hubness::of(&[2, 1, 0]).expect("there are neighbours").hub_rate, 1.0 / 3.0);
        assert_eq!((Hubness::of(&[0, 0]), Hubness::of(&[])), (None, None));
        assert_eq!(hs_sum([1.5, 2.0, -0.5]), 3.0);
    }

    #[test]
    fn items_are_counted_by_their_queries() {
        assert_eq!(
            NearestNeighbourCounts::of(&[0, 1, 1, 2, 4, 5, 9, 10, 51, 0]),
            NearestNeighbourCounts { items: 10, zero: 2, one: 2, two: 6, five: 4, ten: 2 }
        );
    }

    #[test]
    fn rows_of_an_item_are_beside_each_other() {
        // Item 0 has two rows, item 1 three, item 2 one. Query 0 counts once, query 1 twice.
        let (lists, queries, rows) = ([vec![1, 0, 2], vec![2, 1, 0]], [1, 2], [2, 3, 1]);
        let occurrences = |k| row_k_occurrences(lists.iter().map(Vec::as_slice), &queries, &rows, k);
        assert_eq!(occurrences(1), [0, 0, 1, 0, 0, 2]);
        assert_eq!(occurrences(2), [0, 0, 3, 1, 0, 2]);
        assert_eq!(occurrences(4), [1, 0, 3, 3, 3, 2]);
        assert_eq!(occurrences(9), [3, 3, 3, 3, 3, 3]);
    }

    #[test]
    fn ties_go_to_the_first_row_or_take_turns() {
        let (nearest, rows) = ([7, 0, 2, 3], [3, 2, 0, 1]);
        assert_eq!(nearest_row_counts(&nearest, &rows, RowTies::First), [7, 0, 0, 0, 0, 3]);
        assert_eq!(nearest_row_counts(&nearest, &rows, RowTies::TakeTurns), [3, 2, 2, 0, 0, 3]);
    }

    /// If all queries have as many rows as each other and items have one, N is multiplied, and the skewness stays.
    #[test]
    fn repeated_queries_do_not_change_the_skewness() {
        let lists = [vec![0, 1], vec![0, 2], vec![3, 0]];
        let occurrences = |times| row_k_occurrences(lists.iter().map(Vec::as_slice), &[times; 3], &[1; 4], 2);
        assert_eq!(occurrences(1), k_occurrences(lists.iter().map(Vec::as_slice), 4, 2));
        let skewness = |counts: Vec<usize>| Hubness::of(&counts).expect("items are found").skewness;
        assert!((skewness(occurrences(1)) - skewness(occurrences(5))).abs() < 1e-15);
    }

    /// Table 5 of "A Strong and Robust Baseline for Text-Image Matching": of 25,000 rows, each of 25,000 captions has one
    /// as its nearest neighbour. 5,195 rows are found, of 5,000 images: so 195 images or more have two rows that are.
    #[test]
    fn the_hub_table_of_the_paper_is_possible() {
        // Rows by N₁, from the table: 1, then 2 to 4, 5 to 9, at least 10, and 51 as the largest.
        let by_count = [(1, 1026), (4, 1162), (5, 757), (6, 1750), (10, 499), (51, 1)];
        let found: Vec<usize> = by_count.iter().flat_map(|&(queries, rows)| vec![queries; rows]).collect();
        // The first 195 images have a second row that is found.
        let place = |number: usize| if number < 5000 { 5 * number } else { 5 * (number - 5000) + 1 };
        let winners: Vec<[usize; 1]> =
            found.iter().enumerate().flat_map(|(number, &queries)| vec![[place(number)]; queries]).collect();
        assert_eq!(winners.len(), 25_000);
        let counts = k_occurrences(winners.iter().map(<[usize; 1]>::as_slice), 25_000, 1);
        let table = NearestNeighbourCounts { items: 25_000, zero: 19_805, one: 1026, two: 4169, five: 3007, ten: 500 };
        assert_eq!(NearestNeighbourCounts::of(&counts), table);
        assert_eq!(counts.iter().max(), Some(&51));
        // By either rule for ties the same images have other numbers of zeros, and the table is between them.
        let images: Vec<usize> = counts.chunks(5).map(|rows| rows.iter().sum()).collect();
        let zeros = |ties| NearestNeighbourCounts::of(&nearest_row_counts(&images, &vec![5; 5000], ties)).zero;
        assert_eq!(zeros(RowTies::First), 20_000);
        assert!(zeros(RowTies::TakeTurns) < 19_805, "{}", zeros(RowTies::TakeTurns));
    }
}
