r"""Structured orthogonal frequencies: H D₁ H D₂ H D₃ by fast Walsh-Hadamard transforms (Yu et al. 2016).

A block of s = 2^L frequencies has the directions U = s^(-3/2) H D₁ H D₂ H D₃: H is the s x s Hadamard matrix of signs,
the D are diagonals of random signs. U is orthogonal, and its product with a vector takes 3 s L additions instead of s²
multiplications; what has to be kept is 3 s signs and s lengths.

**Lengths and small blocks.** Rows of U, times lengths drawn from a chi distribution of s degrees, have nearly the
marginals of Gaussian vectors. The bias of a kernel value, the worst over differences of length 1/2, 1 and 2 along one
axis, two axes, all axes and a random direction, from 400,000 frequencies in each case:

============  =====  =====  =====  =====  =====
s                 4      8     16     32     64
============  =====  =====  =====  =====  =====
length √s       .30    .11   .041   .019   .010
length chi_s    .14   .032   .004  <.003  <.003
============  =====  =====  =====  =====  =====

The mean square error at equal numbers of frequencies is the same for both lengths. So lengths are chi's, and no block
is smaller than 32; rows are padded with zeros, which costs no accuracy: what lowers the variance is that the angles of
a block are coordinates in an orthogonal basis, however many of the row's own are zero.

**Transforms as matrix products.** H of size s is a Kronecker product of small ones, H_16 for every four bits, so a
transform is one product with each along one axis of a tensor. Each product also moves its axis to the other end,
which costs BLAS nothing: on columns (axes, rows) they go round to (rows, axes), and back. All are single products of
16 x 16 by 16 x n, at 0.18 ns a value and bit (float32, one core at 95 Gflop/s); a butterfly in NumPy takes 2.5 ns.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from scipy.linalg import hadamard

from ..compute.arrays import Array, Scratch

_SMALLEST = 32
_BITS = 4  # of an index in one small product: 16 x 16


def block_size(n_dims: int) -> int:
    """The power of two, at least 32, that holds ``n_dims``.

    Examples
    --------
    >>> block_size(3), block_size(64), block_size(65)
    (32, 64, 128)
    """
    return max(_SMALLEST, 1 << (n_dims - 1).bit_length())


def draw(n: int, n_dims: int, rng: np.random.RandomState) -> tuple[Array, Array]:
    """Signs and lengths of n frequencies for rows of ``n_dims`` values.

    Returns
    -------
    signs : ndarray of shape (3, n_blocks, block_size) of int8
        Diagonals of D₁, D₂ and D₃ of each block.
    lengths : ndarray of shape (n,)
        Lengths with the distribution of a Gaussian vector's.

    Examples
    --------
    >>> signs, lengths = draw(70, 20, np.random.RandomState(0))
    >>> signs.shape, lengths.shape
    ((3, 3, 32), (70,))
    """
    size = block_size(n_dims)
    signs = rng.randint(0, 2, size=(3, -(-n // size), size), dtype=np.int8)
    return 2 * signs - 1, np.sqrt(rng.chisquare(size, size=n))


def frequency_matrix(signs: Array, lengths: Array, n_dims: int) -> Array:
    """The frequencies as columns, ndarray of shape (n_dims, n) of the type of ``lengths``.

    The projections of the unit vectors: n_dims n log(block_size) operations.

    Examples
    --------
    >>> signs, lengths = draw(32, 32, np.random.RandomState(0))
    >>> w = frequency_matrix(signs, lengths, 32)
    >>> np.allclose(w.T @ w, np.diag(lengths**2))
    True
    """
    out = np.empty((n_dims, len(lengths)), lengths.dtype)
    HadamardProjection(signs, lengths, lengths.dtype)(np.eye(n_dims, dtype=lengths.dtype), out, Scratch())
    return out


class HadamardProjection:
    """Products of rows with the frequencies, without their matrix.

    Parameters
    ----------
    signs, lengths : ndarray
        As :func:`draw` returns them.
    dtype : dtype
        float32 or float64: of the rows and of all work.

    Notes
    -----
    A call costs 3 n_blocks block_size log₂(block_size) additions a row, done as 4 times as many multiplications.

    Examples
    --------
    >>> signs, lengths = draw(50, 20, np.random.RandomState(0))
    >>> X, out = np.ones((3, 20)), np.empty((3, 50))
    >>> HadamardProjection(signs, lengths, X.dtype)(X, out, Scratch())
    >>> np.allclose(out, X @ frequency_matrix(signs, lengths, 20))
    True
    """

    strip_values = 2**17  # transformed at a time: two such arrays stay in the cache
    strip_rows = (16, 64)

    def __init__(self, signs: Array, lengths: Array, dtype: Any) -> None:
        _, self._n_blocks, self._size = signs.shape
        self._dtype = np.dtype(dtype)
        first, second, third = signs.astype(self._dtype)
        # H of signs is √s times orthogonal. One of the three roots is left for the lengths, the other two are taken
        # here, where they are exact and keep all that follows between the size of the input and that of the output.
        self._third = np.ascontiguousarray(third.T)[:, :, None] / self._dtype.type(self._size)
        self._second = second[:, None, :]
        self._first = np.ascontiguousarray(first.T)[:, :, None]
        self._lengths = (lengths / np.sqrt(self._size)).astype(self._dtype)

    def __call__(self, X: Array, out: Array, scratch: Scratch) -> None:
        """Write the products of rows X (n_rows, n_dims) with n frequencies to ``out`` (n_rows, n)."""
        low, high = self.strip_rows
        step = min(high, max(low, self.strip_values // self._size))
        n_together = max(1, self.strip_values // (step * self._size))
        for row in range(0, len(X), step):
            columns = scratch("columns", X[row : row + step].T.shape, self._dtype)
            np.copyto(columns, X[row : row + step].T)
            for block in range(0, self._n_blocks, n_together):
                last = min(block + n_together, self._n_blocks)
                done = self._blocks(columns, slice(block, last), scratch)
                for b, angles in enumerate(done, block):
                    where = slice(b * self._size, min((b + 1) * self._size, len(self._lengths)))
                    n = where.stop - where.start
                    np.multiply(angles[:, :n], self._lengths[where], out=out[row : row + step, where])

    def _blocks(self, columns: Array, blocks: slice, scratch: Scratch) -> Array:
        """√s U x of some blocks for the rows x in ``columns`` (n_dims, n_rows): (n_blocks, n_rows, s or less)."""
        n_dims, n_rows = columns.shape
        n_blocks = blocks.stop - blocks.start
        size = self._size
        one, two = (scratch(name, (n_blocks * n_rows * size,), self._dtype) for name in ("hadamard", "hadamard two"))
        as_columns = (size, n_blocks, n_rows)
        as_rows = (n_blocks, n_rows, size)
        view = one.reshape(as_columns)
        np.multiply(columns[:, None], self._third[:n_dims, blocks], out=view[:n_dims])
        view[n_dims:] = 0
        one, two = _to_rows(one, two, size)
        view = one.reshape(as_rows)
        view *= self._second[blocks]
        one, two = _to_columns(one, two, size)
        view = one.reshape(as_columns)
        view *= self._first[:, blocks]
        kept = size
        if self._n_blocks == 1:  # rows that nobody asked for: the first half of H's are those of (H/2, H/2)
            kept = 1 << (len(self._lengths) - 1).bit_length()
            if kept < size:
                folded = two[: kept * n_rows]
                np.add.reduce(one.reshape(-1, kept * n_rows), axis=0, out=folded)
                one, two = folded, one[: kept * n_rows]
        one, two = _to_rows(one, two, kept)
        return one.reshape(n_blocks, n_rows, kept)


def _to_rows(one: Array, two: Array, size: int) -> tuple[Array, Array]:
    """Transform the first axis of (size, n) in ``one``, which becomes the last; the answer comes first."""
    for small in _factors(size, one.dtype):
        n = len(small)
        np.matmul(one.reshape(n, -1).T, small, out=two.reshape(-1, n))
        one, two = two, one
    return one, two


def _to_columns(one: Array, two: Array, size: int) -> tuple[Array, Array]:
    """Transform the last axis of (n, size) in ``one``, which becomes the first; the answer comes first."""
    for small in reversed(_factors(size, one.dtype)):
        n = len(small)
        np.matmul(small, one.reshape(-1, n).T, out=two.reshape(n, -1))
        one, two = two, one
    return one, two


@cache
def _factors(size: int, dtype: np.dtype[Any]) -> list[Array]:
    """Hadamard matrices, as few and as equal as 16 x 16 allows, whose Kronecker product is that of ``size``."""
    bits = size.bit_length() - 1
    n = -(-bits // _BITS)
    return [hadamard(1 << ((bits + i) // n), dtype=dtype) for i in range(n)]
