"""Methods that are compared on the same bags, and how their errors are drawn.

Every method chooses its settings in the same way, among as many: five widths of its smoothing (the bandwidth of a
density, the width of bins, the square root of the sigma of points), five sigmas of the kernel (none for linear
kernels) and eleven penalties (and ten of support vectors), by the search of the learners.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

import numpy as np

from distembed.bags import Bags
from distembed.compute.arrays import Array
from distembed.density import KDE, MonteCarlo
from distembed.embeddings import HDDEmbedding

from .study import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


WIDTHS = (0.5, 0.71, 1.0, 1.41, 2.0)
FAR = 1.5  # times the least error: too far away for a picture
NARROW = (0.25, 0.35, 0.5, 0.71, 1.0)  # the median distance between points is a wide guess for their sigma


@dataclass(frozen=True)
class Method:
    """An embedding of the catalogue with the RBF kernel by random features, or with its linear kernel.

    ``widths`` are multiples of its own width of smoothing among which it chooses.
    """

    name: str
    embedding: str
    linear: bool = False
    widths: tuple[float, ...] = WIDTHS


RANDOM = (
    Method("JS", "js"),
    Method("Hellinger", "hellinger"),
    Method("TV", "tv"),
    Method("L2", "l2"),
    Method("MMD", "mmd", widths=NARROW),
    Method("histogram JS", "histogram-js"),
    Method("histogram chi2", "histogram-chi2"),
)
METHODS = (*RANDOM, *(replace(method, name=f"{method.name}, linear", linear=True) for method in RANDOM))
LITERAL = Method("JS, literal recipe", "literal")
Curves = Mapping[str, Sequence[tuple[float, float, float]]]  # of methods by name: seconds, error, standard error
COLOURS = {
    "JS": "#d1495b", "Hellinger": "#edae49", "TV": "#8d5a97", "L2": "#00798c", "MMD": "#30638e",
    "histogram JS": "#5b8c5a", "histogram chi2": "#7a7a7a", "KL": "#222222",
    "Hellinger, views": "#3d5a80", "Hellinger, views, exact kernel": "#98c1d9",
}  # fmt: skip


def literal_recipe(seed: int) -> HDDEmbedding:
    """The paper's recipe to the letter.

    That is five random lambdas, 5,000 random nodes, a Fourier basis and kernels that know no boundary, with the
    bandwidth by likelihood.
    """
    return HDDEmbedding(
        "js", bandwidth="likelihood", lambda_rule="random", n_lambdas=5, nodes=MonteCarlo(5000), basis="fourier",
        density=KDE("none"), random_state=seed,
    )  # fmt: skip


def fit_and_predict(
    model: Any, bags: Bags, y: Array, new: Bags, decide: Callable[[Bags], Array] | None = None, **given: Any
) -> dict[str, Any]:
    """Predictions for new bags, what was chosen, and the seconds of one core that search, fit and prediction took.

    ``decide`` predicts in place of ``model.predict``; what else is given goes to ``model.fit``.
    """
    start = perf_counter()
    cpu = process_time()
    model.fit(bags, y, **given)
    trained = process_time()
    predicted = (decide or model.predict)(new)
    found = {"predicted": predicted, "seconds": perf_counter() - start, "cpu_seconds": process_time() - cpu}
    found["cpu_seconds_training"] = trained - cpu
    found |= {f"chosen_{name}": value for name, value in model.best_params_.items() if value is not None}
    if model.search_ is not None:
        found["searched"] = len(model.search_.trials)
    return found


def rmse(predicted: Array, truth: Array) -> tuple[float, float]:
    """Root mean squared error, and its standard error by the delta method.

    Examples
    --------
    >>> error, deviation = rmse(np.array([2.0, 3.0, 3.0]), np.array([0.0, 3.0, 3.0]))
    >>> round(error, 3), round(deviation, 3)
    (1.155, 0.471)
    """
    squares = (np.asarray(predicted, float) - truth) ** 2
    root = float(np.sqrt(squares.mean()))
    return root, float(squares.std() / np.sqrt(len(squares)) / (2 * root)) if root else 0.0


def draw_curves(
    panels: Mapping[str, Curves], error: str, *, log_time: bool, levels: Mapping[str, Mapping[str, float]] | None = None
) -> Figure:
    """Error against time, one line per method, one point per training size, one panel per title, as in the paper.

    Parameters
    ----------
    panels : mapping of title to curves
        A curve has seconds, error and standard error of each training size.
    error : str
        Label of the error axis.
    log_time : bool
        Whether time is on a logarithmic scale.
    levels : mapping of title to mapping of name to float, optional
        Horizontal lines.

    Notes
    -----
    Curves whose errors are all half as large again as the least, and levels far above all curves, would squeeze the
    others: they are told in the title.
    """
    from matplotlib.ticker import LogLocator, NullFormatter

    figure = new_figure(5.6 * len(panels), 4.6)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (title, curves) in zip(axes, panels.items(), strict=True):
        least = {name: min(error for _, error, _ in points) for name, points in curves.items()}
        far = FAR * min(least.values())
        shown = {name: points for name, points in curves.items() if least[name] <= far}
        left_out = [f"{name} {least[name]:.2f}" for name in curves if name not in shown]
        for name, points in shown.items():
            linear = name.endswith(", linear")
            axis.errorbar(
                *zip(*points, strict=True), label=name, color=COLOURS.get(name.removesuffix(", linear"), "#999999"),
                marker="o" if not linear else "s", markersize=4, linewidth=1.4, capsize=2,
                linestyle="--" if linear else "-",
            )  # fmt: skip
        highest = max(error for points in shown.values() for _, error, _ in points)
        for name, value in (levels or {}).get(title, {}).items():
            if value <= 1.1 * highest:
                where = {"transform": axis.get_yaxis_transform(), "ha": "right", "va": "bottom"}
                axis.axhline(value, color="#999999", linewidth=0.8, linestyle=":")
                axis.text(0.995, value, f"{name} {value:.2f}", fontsize=7, **where)
            else:
                left_out.append(f"{name} {value:.2f}")
        if log_time:
            axis.set_xscale("log")
            axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.xaxis.set_major_formatter("{x:g}")
            axis.xaxis.set_minor_formatter(NullFormatter())
        axis.set(xlabel="seconds of one core, search and training and prediction", ylabel=error)
        axis.set_title(title + (f"\nnot shown: {'; '.join(left_out)}" if left_out else ""), loc="left", fontsize=8)
        axis.grid(alpha=0.25, linewidth=0.5)
        axis.spines[["top", "right"]].set_visible(False)
    handles = {label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    place = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
    axes[-1].legend([*handles.values()], [*handles], fontsize=7, frameon=False, **place)
    return figure
