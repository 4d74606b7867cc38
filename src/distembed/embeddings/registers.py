r"""Matrix products and transpositions that stay in vector registers, for compiled code.

Written in LLVM's own language, because its compiler does not find these by itself: it vectorises one loop at a time and
keeps sums in memory. A vector is :data:`VECTOR` bytes on every processor; LLVM cuts it to the registers there are.

numba keeps compiled code on disk, and judges by the time of the caller's file alone whether it is still good: touch
:mod:`distembed.embeddings.compiled` after a change here.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from ..compute.compiled import OPTIONS

__all__ = ["VECTOR", "add_at", "product", "transpose"]

VECTOR = 64  # bytes
_SQUARE = 8  # rows and columns that are transposed at a time


def _address(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    """Pointer to an element of a contiguous flat array."""
    return builder.gep(context.make_array(kind)(context, builder, array).data, [index])


def _vector_at(builder: Any, pointer: Any, step: Any, k: Any, n: int) -> Any:
    """Pointer to n numbers, k steps on."""
    if isinstance(k, int):
        k = ir.Constant(step.type, k)
    at = builder.gep(pointer, [builder.mul(step, k)])
    return builder.bitcast(at, ir.VectorType(pointer.type.pointee, n).as_pointer())


def _size(context: Any, kind: Any) -> int:
    """Bytes of an element."""
    return int(context.get_abi_sizeof(context.get_data_type(kind.dtype)))


@intrinsic  # type: ignore[untyped-decorator]
def add_at(typing: Any, array: Any, index: Any, number: Any) -> Any:
    """Code for ``array[index] += number`` on integers, which no other thread comes between; the value before it."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        array, index, number = values
        at = _address(context, builder, signature.args[0], array, index)
        return builder.atomic_rmw("add", at, number, "acq_rel")

    return types.int64(array, types.intp, types.int64), build


def _rows(n_rows: int) -> Any:
    """Code for so many rows of the matrix times one vector of columns, the sums of all rows in registers."""

    @intrinsic  # type: ignore[untyped-decorator]
    def multiply(
        typing: Any, a: Any, a_at: Any, g: Any, x: Any, x_at: Any, x_row: Any, y: Any, y_at: Any, y_row: Any
    ) -> Any:
        def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            a, a_at, g, x, x_at, x_row, y, y_at, y_row = values
            kinds = signature.args
            size = _size(context, kinds[3])
            width = VECTOR // size
            vector = ir.VectorType(context.get_data_type(kinds[3].dtype), width)
            rows = _address(context, builder, kinds[0], a, a_at)
            source = _address(context, builder, kinds[3], x, x_at)
            target = _address(context, builder, kinds[6], y, y_at)
            zero, empty = ir.Constant(vector, [0.0] * width), ir.Constant(vector, ir.Undefined)
            first = ir.Constant(ir.IntType(32), 0)
            spread = ir.Constant(ir.VectorType(ir.IntType(32), width), [0] * width)
            sums = [cgutils.alloca_once_value(builder, zero) for _ in range(n_rows)]
            for one in sums:
                builder.store(zero, one)
            with cgutils.for_range(builder, g, intp=g.type) as loop:
                columns = builder.load(_vector_at(builder, source, x_row, loop.index, width), align=size)
                for r, one in enumerate(sums):
                    at = builder.add(loop.index, builder.mul(g, ir.Constant(g.type, r)))
                    factor = builder.insert_element(empty, builder.load(builder.gep(rows, [at])), first)
                    term = builder.fmul(builder.shuffle_vector(factor, empty, spread), columns, flags=("contract",))
                    builder.store(builder.fadd(builder.load(one), term, flags=("contract",)), one)
            for r, one in enumerate(sums):
                builder.store(builder.load(one), _vector_at(builder, target, y_row, r, width), align=size)
            return context.get_dummy_value()

        place = types.intp
        return types.void(a, place, place, x, place, place, y, place, place), build

    return multiply


# Five rows of two registers each leave room for the columns among sixteen.
_rows_1, _rows_2, _rows_3, _rows_4, _rows_5 = (_rows(n) for n in range(1, 6))


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def product(a: Any, a_at: int, m: int, g: int, x: Any, x_at: int, y: Any, y_at: int, n: int) -> None:
    """Compute Y = A X for A of shape (m, g) and X of shape (g, n), rows of X whole vectors.

    Each lies in a flat array from the given place on.
    """
    for start in range(0, n, VECTOR // x.itemsize):
        u, v = x_at + start, y_at + start
        k = 0
        while m - k >= 5:
            _rows_5(a, a_at + k * g, g, x, u, n, y, v + k * n, n)
            k += 5
        rest, at, to = m - k, a_at + k * g, v + k * n
        if rest == 4:
            _rows_4(a, at, g, x, u, n, y, to, n)
        elif rest == 3:
            _rows_3(a, at, g, x, u, n, y, to, n)
        elif rest == 2:
            _rows_2(a, at, g, x, u, n, y, to, n)
        elif rest == 1:
            _rows_1(a, at, g, x, u, n, y, to, n)


@intrinsic  # type: ignore[untyped-decorator]
def _square(typing: Any, x: Any, x_at: Any, x_row: Any, y: Any, y_at: Any, y_row: Any) -> Any:
    """Code for eight rows of eight numbers: three times the rows of both halves are interleaved."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        x, x_at, x_row, y, y_at, y_row = values
        kinds, n, half = signature.args, _SQUARE, _SQUARE // 2
        size = _size(context, kinds[0])
        source = _address(context, builder, kinds[0], x, x_at)
        target = _address(context, builder, kinds[3], y, y_at)
        order = ir.VectorType(ir.IntType(32), n)
        low = ir.Constant(order, [i // 2 + n * (i % 2) for i in range(n)])
        high = ir.Constant(order, [half + i // 2 + n * (i % 2) for i in range(n)])
        rows = [builder.load(_vector_at(builder, source, x_row, k, n), align=size) for k in range(n)]
        for _ in range(3):
            pairs = zip(rows[:half], rows[half:], strict=True)
            rows = [builder.shuffle_vector(a, b, part) for a, b in pairs for part in (low, high)]
        for k, row in enumerate(rows):
            builder.store(row, _vector_at(builder, target, y_row, k, n), align=size)
        return context.get_dummy_value()

    return types.void(x, types.intp, types.intp, y, types.intp, types.intp), build


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def transpose(x: Any, x_at: int, x_row: int, m: int, n: int, y: Any, y_at: int, y_row: int) -> None:
    """Copy m rows of n numbers, ``x_row`` apart, to n rows of m numbers, ``y_row`` apart, in flat arrays."""
    whole_m, whole_n = m - m % _SQUARE, n - n % _SQUARE
    for j in range(0, whole_n, _SQUARE):
        for k in range(0, whole_m, _SQUARE):
            _square(x, x_at + k * x_row + j, x_row, y, y_at + j * y_row + k, y_row)
        for k in range(whole_m, m):
            for i in range(j, j + _SQUARE):
                y[y_at + i * y_row + k] = x[x_at + k * x_row + i]
    for j in range(whole_n, n):
        for k in range(m):
            y[y_at + j * y_row + k] = x[x_at + k * x_row + j]
