//! Hubness over duplicate rows: an image with five captions as five equal rows, as `*_precomp` folders store it.
//!
//! Liu and Ye, "A Strong and Robust Baseline for Text-Image Matching", ACL SRW 2019, table 5, counts 25,000 such rows of
//! 5,000 images. Equal rows tie for every query. Only one of them can be the nearest neighbour, so if ties always go to
//! the same row, four of five rows are found by no query. The table has 79.2 %, slightly below 80 %, so its ties did not
//! always go to the same row. But almost: if they took turns, far fewer rows would be found by none.

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
    let of_row = |(&queries, &rows): (&usize, &usize)| -> Vec<usize> {
        let count = |row: usize| match ties {
            RowTies::First if row == 0 => queries,
            RowTies::First => 0,
            RowTies::TakeTurns => queries / rows + usize::from(row < queries % rows),
        };
        (0..rows).map(count).collect()
    };
    nearest.iter().zip(rows).flat_map(of_row).collect()
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
    use super::super::hubs::{Hubness, NearestNeighbourCounts, k_occurrences};
    use super::*;

    #[test]
    fn rows_of_an_item_are_beside_each_other() {
        // Item 0 has two rows, item 1 three, item 2 one. Query 0 counts once, query 1 twice.
        let (lists, queries, rows) = ([vec![1, 0, 2], vec![2, 1, 0]], [1, 2], [2, 3, 1]);
        let of = |k| row_k_occurrences(lists.iter().map(Vec::as_slice), &queries, &rows, k);
        assert_eq!(of(1), [0, 0, 1, 0, 0, 2]);
        assert_eq!(of(2), [0, 0, 3, 1, 0, 2]);
        assert_eq!(of(4), [1, 0, 3, 3, 3, 2]);
        assert_eq!(of(9), [3, 3, 3, 3, 3, 3]);
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
        let of = |times| row_k_occurrences(lists.iter().map(Vec::as_slice), &[times; 3], &[1; 4], 2);
        assert_eq!(of(1), k_occurrences(lists.iter().map(Vec::as_slice), 4, 2));
        let skewness = |counts: Vec<usize>| Hubness::of(&counts).expect("items are found").skewness;
        assert!((skewness(of(1)) - skewness(of(5))).abs() < 1e-15);
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
