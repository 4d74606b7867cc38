"""What divergences of pairs share: reading groups of bags, units of their points, and kernels between points."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..bags import Bags, as_bags, concat
from ..compute.arrays import Array, Scratch
from ..compute.checks import InputError
from ..density.estimate import shares_of

Kernel = Callable[[Array], Callable[[Array, Scratch], Array]]

_FARTHEST = 8e307  # differences do not overflow
_FAR = 2.0**16  # squared length in units of sigma up to which |x|² + |y|² - 2xy keeps eleven digits of the kernel


def number_or_nan(text: str) -> float:
    """The number that a text says, such as the exponent in a name; NaN if it says none.

    Examples
    --------
    >>> number_or_nan("0.9"), number_or_nan("nine")
    (0.9, nan)
    """
    try:
        return float(text)
    except ValueError:
        return float("nan")


def read_bags(owner: str, name: str, X: Any) -> Bags:
    """Bags without points of weight zero; categorical columns are refused.

    Examples
    --------
    >>> read_bags("mmd", "X", Bags([[0], [1]], [0, 2], categories={0: ["f", "m"]}))
    Traceback (most recent call last):
    ...
    distembed...InputError: mmd(X=...): must have continuous columns only, got the categorical columns ['x0']; use ...
    """
    bags = as_bags(X)
    if bags.categories is not None:
        raise InputError(
            f"{owner}({name}=...): must have continuous columns only, got the categorical columns "
            f"{list(bags.category_labels)}; use HDDEmbedding, which takes them, or leave them out"
        )
    return bags.drop_weightless()


def read_groups(owner: str, X: Any, Y: Any) -> list[Bags]:
    """``[X]`` or ``[X, Y]`` as bags of one width, see :func:`read_bags`; Y may be None.

    Examples
    --------
    >>> read_groups("mmd", [[1.0]], [[[1.0, 2.0]]])
    Traceback (most recent call last):
    ...
    distembed...InputError: mmd(Y=...): must have points of 1 dimension(s), as X, got 2; pass bags with the same ...
    """
    groups = [read_bags(owner, "X", X)] + ([] if Y is None else [read_bags(owner, "Y", Y)])
    check_width(owner, "Y", groups[-1].n_dims, "X", groups[0].n_dims)
    return groups


def check_width(owner: str, name: str, n_dims: int, other: str, wanted: int) -> None:
    """Refuse an argument whose points have another number of coordinates than those of another argument.

    Examples
    --------
    >>> check_width("mmd", "Y", 2, "X", 2)
    """
    if n_dims != wanted:
        raise InputError(
            f"{owner}({name}=...): must have points of {wanted} dimension(s), as {other}, got {n_dims}; pass bags with "
            "the same coordinates"
        )


def refuse_single(owner: str, groups: list[Bags], remedy: str) -> None:
    """Refuse bags of one point, by name.

    Examples
    --------
    >>> refuse_single("mmd", [Bags.from_arrays([[1.0, 2.0]])], "leave it out")
    """
    for bags, name in zip(groups, "XY", strict=False):
        if bags.sizes.min() < 2:
            raise InputError(
                f"{owner}({name}=...): must have at least 2 points of positive weight in each bag, got 1 in "
                f"{bags.name_of(int(np.argmin(bags.sizes)))}; {remedy}"
            )


def together(groups: list[Bags]) -> Bags:
    """All bags of the groups, without ids and names.

    Examples
    --------
    >>> together([Bags.from_arrays([[1.0]], ids=["a"]), Bags.from_arrays([[2.0]], ids=["a"])]).n_bags
    2
    """
    return concat([bags.replace(ids=None, columns=None) for bags in groups])


def in_units(groups: list[Bags], centre: Array, units: float | Array) -> list[Bags]:
    """The bags relative to a point and in given units, where overflow is merely far.

    Examples
    --------
    >>> in_units([Bags.from_arrays([[1.0, 1e308]])], np.array([3.0]), 0.25)[0].points.tolist()
    [[-8.0], [8e+307]]
    """
    with np.errstate(over="ignore"):  # so far away that no kernel reaches there
        return [bags.replace(points=np.clip((bags.points - centre) / units, -_FARTHEST, _FARTHEST)) for bags in groups]


# --------------------------------------------------------------------------------------------------------------
# Sums of kernels
# --------------------------------------------------------------------------------------------------------------


def products_are_safe(groups: list[Bags]) -> bool:
    """Whether all points are so near zero that |x|² + |y|² - 2xy has no cancellation to speak of.

    Examples
    --------
    >>> products_are_safe([Bags.from_arrays([[1.0]])]), products_are_safe([Bags.from_arrays([[1.0, 1e6]])])
    (True, False)
    """
    with np.errstate(over="ignore"):
        return all(float(np.einsum("ij,ij->i", bags.points, bags.points).max()) <= _FAR for bags in groups)


def gaussian_pairs(x: Array, y: Array, by_products: bool, scratch: Scratch) -> Array:
    """Kernels exp(-|x - y|²/2) between all rows of x and of y, by one matrix product or by differences.

    Examples
    --------
    >>> gaussian_pairs(np.array([[0.0]]), np.array([[0.0], [2.0]]), True, Scratch()).round(6)
    array([[1.      , 0.135335]])
    """
    exponents = scratch("exponents", (len(x), len(y)), np.float64)
    if by_products:
        np.matmul(x, y.T, out=exponents)
        exponents -= 0.5 * np.einsum("ij,ij->i", y, y)
        exponents -= 0.5 * np.einsum("ij,ij->i", x, x)[:, None]
        np.minimum(exponents, 0.0, out=exponents)  # rounding
    else:
        gaps = scratch("gaps", exponents.shape, np.float64)
        exponents[...] = 0.0
        with np.errstate(over="ignore"):
            for a, b in zip(x.T, y.T, strict=True):
                np.subtract(a[:, None], b, out=gaps)
                gaps *= gaps
                exponents -= gaps
        exponents *= 0.5
    return np.asarray(np.exp(exponents, out=exponents))


def gaussian_kernel(groups: list[Bags]) -> Kernel:
    """The kernel exp(-|x - y|²/2) of bags as :class:`KernelBlocks` takes it, by the way that suits all of their points.

    Examples
    --------
    >>> kernel = gaussian_kernel([Bags.from_arrays([[0.0, 2.0]])])
    >>> kernel(np.array([[0.0]]))(np.array([[0.0], [2.0]]), Scratch()).round(6)
    array([[1.      ],
           [0.135335]])
    """
    by_products = products_are_safe(groups)  # rows of points are the long ones: those are contiguous
    return lambda nodes: lambda points, scratch: gaussian_pairs(nodes, points, by_products, scratch).T


class KernelBlocks:
    """Kernels k(u, y) between the points u of one group of bags and the points y of another, a block at a time.

    Parameters
    ----------
    nodes, bags : Bags
        The points u and y.
    kernel : callable
        Makes, of some nodes, a function from points and a scratch to kernels of shape (n_points, n_nodes).

    Attributes
    ----------
    node_shares, shares : ndarray of shape (n_points,)
        Mass of each point, of sum one in each bag.

    Examples
    --------
    >>> bags = Bags.from_arrays([[0.0, 2.0], [1.0]])
    >>> blocks = KernelBlocks(bags, bags, gaussian_kernel([bags]))
    >>> found = blocks(slice(2, 3), slice(0, 2), Scratch())
    >>> [(points, own, starts, kernels.shape) for points, own, starts, kernels in found]
    [(slice(0, 3, None), slice(0, 2, None), array([0, 2]), (3, 1))]
    """

    strip_points = 256  # of a bag at a time
    strip_values = 2**16  # kernels at a time: they stay in the cache

    def __init__(self, nodes: Bags, bags: Bags, kernel: Kernel) -> None:
        self.nodes = nodes
        self.bags = bags
        self.kernel = kernel
        self.node_shares = shares_of(nodes)
        self.shares = shares_of(bags)

    def strips(self, i: int) -> list[slice]:
        """The nodes of bag i, some at a time."""
        start, stop = self.nodes.offsets[i : i + 2].tolist()
        step = self.strip_points
        return [slice(a, min(a + step, stop)) for a in range(start, stop, step)]

    def __call__(self, nodes: slice, bags: slice, scratch: Scratch) -> Iterator[tuple[slice, slice, Array, Array]]:
        """Some points of these bags, the bags they belong to, where those start among them, and their kernels."""
        kernels_of = self.kernel(self.nodes.points[nodes])
        offsets = self.bags.offsets
        begin, end = offsets[[bags.start, bags.stop]].tolist()
        step = max(1, self.strip_values // (nodes.stop - nodes.start))
        for left in range(begin, end, step):
            right = min(left + step, end)
            low, high = (np.searchsorted(offsets, [left, right - 1], side="right") - [1, 0]).tolist()
            starts = np.maximum(offsets[low:high] - left, 0)
            yield slice(left, right), slice(low, high), starts, kernels_of(self.bags.points[left:right], scratch)
