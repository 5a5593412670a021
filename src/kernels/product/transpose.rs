//! Transposition of a block of packed values.

/// Rows and columns of a block: the numbers of a vector of AVX-512.
pub(super) const SIDE: usize = 16;

/// Block of values, row by row.
pub(super) type Block = [[u32; SIDE]; SIDE];

/// Exchanges rows and columns.
pub(super) fn transpose(block: &Block) -> Block {
    #[cfg(target_arch = "x86_64")]
    if crate::cpu::has_avx512() {
        // SAFETY: the CPU has the instructions, as checked above.
        #[expect(unsafe_code, reason = "vector instructions, called after the CPU was checked for them")]
        return unsafe { avx512::transpose(block) };
    }
    std::array::from_fn(|column| std::array::from_fn(|row| block[row][column]))
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::{
        _mm512_loadu_si512, _mm512_shuffle_i32x4, _mm512_storeu_si512, _mm512_unpackhi_epi32, _mm512_unpackhi_epi64,
        _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
    };

    use super::{Block, SIDE};

    /// Selections of two vectors' quarters: the even and the odd ones of both.
    const EVEN: i32 = 0x88;
    const ODD: i32 = 0xdd;

    #[target_feature(enable = "avx512f")]
    pub(super) fn transpose(block: &Block) -> Block {
        // SAFETY: a row has the size of a vector, and needs no alignment.
        #[expect(unsafe_code, reason = "vectors are loaded by address")]
        let rows = block.each_ref().map(|row| unsafe { _mm512_loadu_si512(row.as_ptr().cast()) });
        // Quarter q of vector 4g + j has the values of column 4q + j in the rows 4g to 4g + 3.
        let mut quarters = rows;
        for g in (0..SIDE).step_by(4) {
            let [a, b, c, d] = [rows[g], rows[g + 1], rows[g + 2], rows[g + 3]];
            let [low, high] = [_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b)];
            let [low_next, high_next] = [_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d)];
            quarters[g] = _mm512_unpacklo_epi64(low, low_next);
            quarters[g + 1] = _mm512_unpackhi_epi64(low, low_next);
            quarters[g + 2] = _mm512_unpacklo_epi64(high, high_next);
            quarters[g + 3] = _mm512_unpackhi_epi64(high, high_next);
        }
        let mut columns = [[0; SIDE]; SIDE];
        for j in 0..4 {
            let [a, b, c, d] = [quarters[j], quarters[4 + j], quarters[8 + j], quarters[12 + j]];
            let [upper, upper_odd] = [_mm512_shuffle_i32x4::<EVEN>(a, b), _mm512_shuffle_i32x4::<ODD>(a, b)];
            let [lower, lower_odd] = [_mm512_shuffle_i32x4::<EVEN>(c, d), _mm512_shuffle_i32x4::<ODD>(c, d)];
            let found = [
                _mm512_shuffle_i32x4::<EVEN>(upper, lower),
                _mm512_shuffle_i32x4::<EVEN>(upper_odd, lower_odd),
                _mm512_shuffle_i32x4::<ODD>(upper, lower),
                _mm512_shuffle_i32x4::<ODD>(upper_odd, lower_odd),
            ];
            for (quarter, vector) in found.into_iter().enumerate() {
                // SAFETY: a column has the size of a vector, and needs no alignment.
                #[expect(unsafe_code, reason = "vectors are stored by address")]
                unsafe {
                    _mm512_storeu_si512(columns[4 * quarter + j].as_mut_ptr().cast(), vector);
                }
            }
        }
        columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_columns() {
        let mut numbers = 0u32..;
        let block: Block = std::array::from_fn(|_| std::array::from_fn(|_| numbers.next().unwrap_or_default()));
        let transposed = transpose(&block);
        for (column, values) in transposed.iter().enumerate() {
            for (row, &value) in values.iter().enumerate() {
                assert_eq!(value as usize, SIDE * row + column);
            }
        }
        assert_eq!(transpose(&transposed), block);
    }
}
