//! Interface of the dictionary that SPICE needs.

/// Dictionary of SPICE: synsets, and the words for colours, numbers and sizes.
pub trait SpiceDictionary {
    /// Synsets of an element of a tuple. Elements with a common synset match.
    fn synsets(&self, element: &str) -> Vec<u32>;
    /// True if an attribute is a colour.
    fn is_color(&self, attribute: &str) -> bool;
    /// True if an attribute is a number.
    fn is_count(&self, attribute: &str) -> bool;
    /// True if an attribute is a size.
    fn is_size(&self, attribute: &str) -> bool;
}
