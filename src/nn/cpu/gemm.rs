// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of float32 matrices, by the crate `matrixmultiply`.

/// A matrix in memory: element (row, column) is `data[row·row_stride + column·column_stride]`.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    pub data: &'a [f32],
    pub rows: usize,
    pub columns: usize,
    pub row_stride: usize,
    pub column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// `rows` × `columns`, a row after the other, `row_stride` elements from one to the next.
    pub fn rows(data: &'a [f32], rows: usize, columns: usize, row_stride: usize) -> Self {
        Self { data, rows, columns, row_stride, column_stride: 1 }
    }

    /// Rows and columns exchanged.
    pub fn transposed(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }

    /// Elements that `data` must have at least.
    fn extent(&self) -> usize {
        extent(self.rows, self.columns, self.row_stride, self.column_stride)
    }
}

fn extent(rows: usize, columns: usize, row_stride: usize, column_stride: usize) -> usize {
    if rows == 0 || columns == 0 { 0 } else { (rows - 1) * row_stride + (columns - 1) * column_stride + 1 }
}

/// `out = alpha·a·b + beta·out`, where `out` has `a.rows` rows of `b.columns` elements, `out_stride` from one row to
/// the next. Runs on the calling thread.
pub fn gemm(alpha: f32, a: Matrix<'_>, b: Matrix<'_>, beta: f32, out: &mut [f32], out_stride: usize) {
    assert_eq!(a.columns, b.rows, "gemm of matrices that do not fit each other");
    assert!(out_stride >= b.columns || a.rows <= 1, "gemm into overlapping rows");
    assert!(a.data.len() >= a.extent() && b.data.len() >= b.extent(), "gemm of matrices shorter than they say");
    assert!(out.len() >= extent(a.rows, b.columns, out_stride, 1), "gemm into a matrix that is too short");
    let stride = |stride: usize| stride as isize;
    // SAFETY: every element that the strides reach lies inside its slice, as asserted above, and the rows of `out` do
    // not overlap.
    unsafe {
        matrixmultiply::sgemm(
            a.rows,
            a.columns,
            b.columns,
            alpha,
            a.data.as_ptr(),
            stride(a.row_stride),
            stride(a.column_stride),
            b.data.as_ptr(),
            stride(b.row_stride),
            stride(b.column_stride),
            beta,
            out.as_mut_ptr(),
            stride(out_stride),
            1,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_and_transposes() {
        // a is 2×3 inside rows of 4, b is 3×2 given as its transpose.
        let a = [1.0, 2.0, 3.0, 99.0, 4.0, 5.0, 6.0];
        let b = [1.0, 0.0, -1.0, 2.0, 1.0, 0.0];
        let mut out = [10.0, 10.0, 7.0, 10.0, 10.0];
        gemm(2.0, Matrix::rows(&a, 2, 3, 4), Matrix::rows(&b, 2, 3, 3).transposed(), 1.0, &mut out, 3);
        assert_eq!(out, [6.0, 18.0, 7.0, 6.0, 36.0]);
    }

    #[test]
    #[should_panic(expected = "shorter than they say")]
    fn a_short_matrix_is_refused() {
        gemm(1.0, Matrix::rows(&[0.0; 5], 2, 3, 3), Matrix::rows(&[0.0; 3], 3, 1, 1), 0.0, &mut [0.0; 2], 1);
    }
}
