//! Types of numbers that are multiplied.

/// Element type that the values of a factor are multiplied as. Products are summed in f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lanes {
    /// f32.
    F32,
    /// bf16, the nearest; two neighbours along the depth lie side by side.
    Bf16,
}

impl Lanes {
    /// Values along the depth that are multiplied in one step.
    pub(super) fn step(self) -> usize {
        match self {
            Self::F32 => 1,
            Self::Bf16 => 2,
        }
    }
}
