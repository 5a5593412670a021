//! Element type of packed factors.

/// Element type of packed factors. Products are summed in f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElementType {
    /// f32.
    F32,
    /// bf16, rounded to nearest; packed in pairs along the depth.
    Bf16,
}

impl ElementType {
    /// Number of values along the depth that are multiplied in one step.
    pub(super) fn step(self) -> usize {
        match self {
            Self::F32 => 1,
            Self::Bf16 => 2,
        }
    }
}
