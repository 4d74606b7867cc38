"""Which knob to turn: the largest stage of an error budget, in words and as parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import ceil, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import basis as bases
from .. import distances
from ..bags import Bags
from ..density import nodes as node_kinds
from .view import View

if TYPE_CHECKING:
    from .budget import Stage

SMALL = 0.01  # an error of the kernel that nothing needs to be done about
HALF = 0.5  # of the error of points, that another stage must have to be named first
MOST_NODES = 2**18  # that are advised


def advise(view: View, bags: Bags, stages: Mapping[str, Stage], n_components: int) -> dict[str, Any]:
    """The largest stage and its knob, in words and as parameters: ``advice`` and ``remedy`` of an error budget.

    Parameters
    ----------
    view : View
        The embedding from inside.
    bags : Bags
        That were looked at.
    stages : mapping of str to Stage
        Largest first.
    n_components : int
        Random features in use.
    """
    embedding, names = view.embedding, list(stages)
    worst = names[0]
    if stages[worst].rms < SMALL:
        return {"advice": f"no stage is off by {SMALL} or more: nothing needs turning"}
    lead, remedy = "most of the error comes from", dict[str, Any]()
    others = [name for name in names[1:] if name != "bandwidth"]  # which points trade against
    if worst == "points" and others and stages[others[0]].rms > HALF * stages["points"].rms:
        lead, worst = "besides too few points per bag, the error comes from", others[0]  # a knob before more data
    if worst == "points":
        smooth, wider = stages.get("bandwidth"), ""
        if smooth is not None and 2 * smooth.rms < stages["points"].rms:
            wider = f", or try bandwidth_scale={1.4 * embedding.bandwidth_scale:.2g}"
        said = (
            f"too few points per bag ({np.median(bags.sizes):.0f} in the median): take larger bags, or distances "
            f"without that noise by distembed.sizes.split_half_distances{wider}"
        )
    elif worst == "bandwidth":
        by = 0.7 if view.narrow is None else float(np.min(view.narrow / view.stages.bandwidth))
        remedy = {"bandwidth_scale": float(f"{by * embedding.bandwidth_scale:.2g}")}
        said = f"smoothing: lower the bandwidth to bandwidth_scale={remedy['bandwidth_scale']:g}"
    elif worst == "lambdas":
        said, remedy = _more_lambdas(embedding)
    elif worst == "basis":
        doubled = tuple(2 * n for n in embedding.stages_.n_basis)
        remedy = {"n_basis": doubled[0] if len(set(doubled)) == 1 else doubled}
        nodes = _room_for(view, doubled)
        said = f"too few basis functions: raise n_basis to {remedy['n_basis']}"
        if nodes is not None:
            remedy["nodes"], said = nodes, f"{said}, with nodes={nodes!r}"
    elif worst == "nodes":
        said, remedy = _more_nodes(view, stages["nodes"].rms)
    else:
        second = max(stage.rms for name, stage in stages.items() if name != worst)
        times = max(2.0, (stages[worst].rms / max(second, SMALL / 2)) ** 2)
        remedy = {"n_components": 100 * ceil(times * n_components / 100)}
        said = f"too few random features: raise n_components to {remedy['n_components']}"
    return {"advice": f"{lead} {said}", "remedy": remedy}


def _more_lambdas(embedding: Any) -> tuple[str, dict[str, Any]]:
    n, automatic = len(embedding.lambdas_), len(distances.get(embedding.distance).auto_quadrature()[0])
    if embedding.lambda_rule == "random":
        remedy: dict[str, Any] = {"lambda_rule": "gauss", "n_lambdas": max(n, 5)}
        return f"too few lambdas: use lambda_rule='gauss' with n_lambdas={max(n, 5)}", remedy
    if n < automatic:
        return "too few lambdas: use n_lambdas='auto'", {"n_lambdas": "auto"}
    more = min(2 * n, distances.MAX_LAMBDAS)
    return f"too few lambdas: raise n_lambdas to {more}", {"n_lambdas": more}


def _more_nodes(view: View, error: float) -> tuple[str, dict[str, Any]]:
    finer, kind = view.finer, view.stages.node_kind
    if isinstance(finer, node_kinds.GridNodes):
        nodes: Any = node_kinds.Grid(finer.shape[0] if len(set(finer.shape)) == 1 else finer.shape)
        size = nodes.size if isinstance(nodes.size, int) else tuple(nodes.size)
        return f"too few nodes: use nodes=Grid({size}), {prod(finer.shape):,} nodes", {"nodes": nodes}
    # Errors of random nodes fall with the root of their number; to halve the error takes four times as many.
    n = min(view.stages.nodes.n_nodes * min(16, max(4, ceil((error / SMALL) ** 2))), MOST_NODES)
    nodes = replace(kind, n=max(n, finer.n_nodes))
    return f"too few nodes: use nodes={type(kind).__name__}({nodes.n})", {"nodes": nodes}


def _room_for(view: View, n_basis: tuple[int, ...]) -> Any:
    """Nodes for more basis functions, where there are too few; None where they will do, or are chosen by themselves."""
    kind = view.stages.node_kind
    if isinstance(kind, node_kinds.Grid):
        given = () if kind.size is None else view.stages.nodes.shape
        short = any(size < 2 * n for size, n in zip(given, n_basis, strict=False))
        return (
            node_kinds.Grid(tuple(max(size, 2 * n) for size, n in zip(given, n_basis, strict=True))) if short else None
        )
    wanted = 4 * len(bases.get(view.embedding.basis).indices(n_basis))
    return replace(kind, n=wanted) if wanted > view.stages.nodes.n_nodes else None
