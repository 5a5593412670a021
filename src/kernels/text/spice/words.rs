//! Knowledge of words that the score needs.

/// Dictionary of the score.
pub trait Words {
    /// Synsets of an element of a tuple; elements in a common one match.
    fn synsets(&self, element: &str) -> Vec<u32>;
    /// True if an attribute is a colour.
    fn is_color(&self, attribute: &str) -> bool;
    /// True if an attribute is a number.
    fn is_count(&self, attribute: &str) -> bool;
    /// True if an attribute is a size.
    fn is_size(&self, attribute: &str) -> bool;
}
