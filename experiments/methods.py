"""Every embedding on the same 1,000 bags: what it estimates, what it needs, and how long it takes.

Writes docs/methods.md, with a second table of methods that compare bags with bags on the paper's regression task, see
components.py. Run with ``make methods`` (about fifteen minutes).
"""

from __future__ import annotations

import argparse
import warnings
from functools import partial
from pathlib import Path
from time import perf_counter

import components
import numpy as np

import distembed as de
from distembed import embeddings

HEAD = """# All embeddings

One word changes the method; everything around it stays:

```python
make_pipeline(de.UnitCube(), de.embeddings.get("js"), de.RandomFourierFeatures(), Ridge())
```

*Estimates* is what the squared Euclidean distance of two rows approximates. *PSD*: whether the kernel that is meant is
positive semi-definite; dot products of features always are. *Invariant* to changes of the points, the same in all bags,
as far as what is estimated goes. n is the number of points of a bag, l of dimensions, D of components. Times are those
of {n_bags:,} bags of {n_points} points in two dimensions, float32, best of {turns} turns, default settings; read the
ratios. Written by `make methods`.

"""
RIVALS = """
## Features and pairs of bags

What compares bags with bags takes time that grows with the square of their number. The task is the paper's: how many
Gaussians a two-dimensional mixture has, one to ten, from {n_points} points; {n_train:,} training bags, {n_test:,} new
ones. Every model that is trained chooses scale and penalty from the same grid on one tenth of the training bags;
*seconds* are those of search, training and prediction, on two cores. *Growth* is the power of the number of training
bags with which search and training grow, from an eighth of them on. The constant 5.5 has a root mean squared error of
2.87 in expectation.

"""
COLUMNS = (
    "name", "class", "estimates", "cost per bag", "PSD", "invariant to", "points in", "features", "fit, ms",
    "us per bag", "reference",
)  # fmt: skip


def bags_of(n_bags: int, n_points: int) -> de.Bags:
    """Gaussian clouds in the unit square."""
    rng = np.random.default_rng(0)
    centres = rng.uniform(0.3, 0.7, size=(n_bags, 1, 2))
    points = np.clip(centres + rng.normal(0, 0.1, size=(n_bags, n_points, 2)), 0, 1)
    return de.as_bags(points.astype(np.float32))


def seconds(call) -> float:
    """Seconds of one call."""
    start = perf_counter()
    call()
    return perf_counter() - start


def rows(n_bags: int, n_points: int, turns: int) -> list[tuple[str, ...]]:
    """One row a method; all take turns."""
    bags, fitted = bags_of(n_bags, n_points), {}
    best: dict[tuple[str, str], float] = {}
    for _ in range(turns):
        for name, method in embeddings.available().items():
            estimator = method.make()
            if "random_state" in estimator.get_params():
                estimator.set_params(random_state=0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for what in ("fit", "transform"):
                    took = seconds(partial(getattr(estimator, what), bags))
                    best[name, what] = min(best.get((name, what), np.inf), took)
            fitted[name] = estimator
    found = []
    for name, method in embeddings.available().items():
        features = fitted[name].transform(bags)
        if not np.all(np.isfinite(features)):
            raise AssertionError(f"{name}: features are not finite")
        times = (f"{best[name, 'fit'] * 1e3:,.1f}", f"{best[name, 'transform'] / n_bags * 1e6:.3g}")
        words = (method.estimates, method.cost, method.kernel, method.invariant, method.units)
        kind = f"`{method.kind.__name__}`"
        found.append((f"`{name}`", kind, *words, f"{features.shape[1]:,}", *times, method.reference))
    return found


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs" / "methods.md")
    parser.add_argument("--bags", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--train", type=int, default=1000, help="training bags of the second table")
    parser.add_argument("--test", type=int, default=500)
    options = parser.parse_args()
    n_points = 200
    lines = [COLUMNS, ("---",) * len(COLUMNS), *rows(options.bags, n_points, options.turns)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    head = HEAD.format(n_bags=options.bags, n_points=n_points, turns=options.turns)
    about = RIVALS.format(n_points=components.N_POINTS, n_train=options.train, n_test=options.test)
    text = head + table + "\n" + about + components.table(options.train, options.test)
    options.out.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
