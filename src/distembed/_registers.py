"""Two loops in which every number is a vector register, for compiled code: a matrix product and a transposition.

Written in LLVM's own language, because its compiler does not find these by itself: it vectorises one loop at a time,
with sums kept in memory. Vectors are :data:`BYTES` bytes long on every processor; LLVM cuts them to what there is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["OPTIONS", "BYTES", "product", "transpose"]

BYTES = 64  # of a vector
MAX_ROWS = 5
_SQUARE = 8

OPTIONS: dict[str, Any] = {
    "fastmath": {"contract", "nsz", "arcp", "nnan", "ninf"},
    "nogil": True,
    "error_model": "numpy",
    "cache": True,
}


def _address(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    """Pointer to an element of a contiguous flat array."""
    return builder.gep(context.make_array(kind)(context, builder, array).data, [index])


def _vector(builder: Any, pointer: Any, n: int) -> Any:
    """The same address as that of a vector of n numbers."""
    return builder.bitcast(pointer, ir.VectorType(pointer.type.pointee, n).as_pointer())


def _step(context: Any, kind: Any) -> int:
    return int(context.get_abi_sizeof(context.get_data_type(kind.dtype)))


def _rows(n_rows: int) -> Callable[..., None]:
    """Code for so many rows of the matrix against one vector of columns."""

    @intrinsic  # type: ignore[untyped-decorator]
    def multiply(typing: Any, a: Any, a_at: Any, g: Any, x: Any, x_at: Any, x_row: Any, y: Any, y_at: Any, y_row: Any):
        def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            a, a_at, g, x, x_at, x_row, y, y_at, y_row = values
            kinds = signature.args
            number = context.get_data_type(kinds[3].dtype)
            size = _step(context, kinds[3])
            width = BYTES // size
            vector = ir.VectorType(number, width)
            a_pointer = _address(context, builder, kinds[0], a, a_at)
            x_pointer = _address(context, builder, kinds[3], x, x_at)
            y_pointer = _address(context, builder, kinds[6], y, y_at)
            sums = [cgutils.alloca_once_value(builder, ir.Constant(vector, None)) for _ in range(n_rows)]
            zero = ir.Constant(vector, [0.0] * width)
            for one in sums:
                builder.store(zero, one)
            undefined = ir.Constant(vector, ir.Undefined)
            same = ir.Constant(ir.VectorType(ir.IntType(32), width), [0] * width)
            with cgutils.for_range(builder, g, intp=g.type) as loop:
                column = builder.gep(x_pointer, [builder.mul(loop.index, x_row)])
                v = builder.load(_vector(builder, column, width), align=size)
                for r, one in enumerate(sums):
                    at = builder.add(loop.index, builder.mul(g, ir.Constant(g.type, r)))
                    factor = builder.load(builder.gep(a_pointer, [at]))
                    many = builder.insert_element(undefined, factor, ir.Constant(ir.IntType(32), 0))
                    many = builder.shuffle_vector(many, undefined, same)
                    term = builder.fmul(many, v, flags=("contract",))
                    builder.store(builder.fadd(builder.load(one), term, flags=("contract",)), one)
            for r, one in enumerate(sums):
                row = builder.gep(y_pointer, [builder.mul(y_row, ir.Constant(g.type, r))])
                builder.store(builder.load(one), _vector(builder, row, width), align=size)
            return context.get_dummy_value()

        return types.void(a, types.intp, types.intp, x, types.intp, types.intp, y, types.intp, types.intp), build

    return multiply  # type: ignore[no-any-return]


_rows_1, _rows_2, _rows_3, _rows_4, _rows_5 = (_rows(n) for n in range(1, MAX_ROWS + 1))


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def product(a: Any, a_at: int, m: int, g: int, x: Any, x_at: int, y: Any, y_at: int, n: int) -> None:
    """Compute Y = A X for A of shape (m, g) and X of shape (g, n), rows of X whole vectors.

    Each lies in a flat array from the given place on.
    """
    for start in range(0, n, BYTES // x.itemsize):
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
    """Eight rows of eight numbers, turned."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        x, x_at, x_row, y, y_at, y_row = values
        kinds = signature.args
        size = _step(context, kinds[0])
        source = _address(context, builder, kinds[0], x, x_at)
        target = _address(context, builder, kinds[3], y, y_at)

        def row(pointer: Any, step: Any, k: int) -> Any:
            at = builder.gep(pointer, [builder.mul(step, ir.Constant(step.type, k))])
            return _vector(builder, at, _SQUARE)

        rows = [builder.load(row(source, x_row, k), align=size) for k in range(_SQUARE)]
        mask = ir.VectorType(ir.IntType(32), _SQUARE)
        half = _SQUARE // 2
        low = ir.Constant(mask, [i // 2 + (_SQUARE if i % 2 else 0) for i in range(_SQUARE)])
        high = ir.Constant(mask, [half + i // 2 + (_SQUARE if i % 2 else 0) for i in range(_SQUARE)])
        for _ in range(3):
            pairs = [(rows[i], rows[i + half]) for i in range(half)]
            rows = [builder.shuffle_vector(a, b, part) for a, b in pairs for part in (low, high)]
        for k, values_ in enumerate(rows):
            builder.store(values_, row(target, y_row, k), align=size)
        return context.get_dummy_value()

    return types.void(x, types.intp, types.intp, y, types.intp, types.intp), build


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def transpose(x: Any, x_at: int, x_row: int, m: int, n: int, y: Any, y_at: int, y_row: int) -> None:
    """Copy m rows of n numbers, ``x_row`` apart, to n rows of m numbers, ``y_row`` apart."""
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
