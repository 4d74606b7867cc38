"""Random bags through every embedding and learner."""

from __future__ import annotations

import signal
import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from soak import Part

TOLERANCE, SINGLE = 1e-6, 2e-3
ROUNDINGS = 100  # of a feature, which are allowed whatever the others are
MOST_SECONDS = 120  # of a case, which is some ten calls
NEEDS_CUBE = ("js", "hellinger", "tv", "chi2", "l2", "l2-points", "histogram")
SPEEDING = {"n_components": 100}


class TooSlow(Exception):
    """A case takes longer than it may."""


def random_bags(rng: np.random.Generator) -> tuple[Any, dict[str, Any]]:
    """Bags and what they are like."""
    import distembed as de

    n_bags, n_dims = int(rng.integers(2, 140)), int(rng.integers(1, 7))
    sizes = np.maximum(1, np.exp(rng.uniform(0, np.log(3_000), n_bags)).astype(int))
    if rng.random() < 0.8:
        sizes = np.minimum(sizes, 40)
    dtype = rng.choice(["float64", "float32", "float16", "int64", "int16", "uint8", "bool", "longdouble"])
    scale = 10.0 ** rng.uniform(-300, 300) if rng.random() < 0.3 else 10.0 ** rng.uniform(-3, 3)
    offset = 10.0 ** rng.uniform(0, 15) if rng.random() < 0.25 else 0.0
    ties = rng.random() < 0.3
    points = rng.normal(size=(int(sizes.sum()), n_dims)) + np.repeat(rng.normal(size=(n_bags, n_dims)), sizes, axis=0)
    if rng.random() < 0.15:
        points = rng.standard_cauchy(size=points.shape)
    if ties:
        points = np.round(points)
    if np.dtype(dtype).kind == "f":
        most = float(np.finfo(dtype).max) / 1e3
        scale = min(scale, 1e300) if dtype in ("float64", "longdouble") else min(scale, most / 1e3)
        with np.errstate(all="ignore"):
            points = np.clip(points * scale + (0.0 if dtype == "float16" else offset), -most, most)
    else:
        points = np.clip(points * 10, 0 if dtype in ("uint8", "bool") else -1_000, 200)
    points = points.astype(dtype)
    weights = None
    if rng.random() < 0.3:
        weights = rng.exponential(size=len(points)) * (rng.random(len(points)) < 0.7)
        weights[np.cumsum(sizes) - 1] = 1.0  # no bag is all zero
    facts = {"dims": n_dims, "dtype": str(dtype), "scale": f"{scale:.0e}", "offset": f"{offset:.0e}", "ties": ties,
             "weights": weights is not None, "points": len(points)}  # fmt: skip
    return de.Bags(points, np.append(0, np.cumsum(sizes)), weights), facts


def shuffled(bags: Any, rng: np.random.Generator) -> Any:
    """The same bags, the points of each in another order."""
    import distembed as de

    order = np.lexsort((rng.random(bags.n_points), np.repeat(np.arange(bags.n_bags), bags.sizes)))
    weights = None if bags.weights is None else bags.weights[order]
    return de.Bags(bags.points[order], bags.offsets, weights)


def compare(what: str, one: Any, two: Any, tolerance: float, epsilon: float) -> str | None:
    """What differs by too much, or None: by how far bags differ, apart from roundings of each feature itself."""
    one, two = np.asarray(one, float).reshape(len(one), -1), np.asarray(two, float).reshape(len(two), -1)
    sizes = np.abs(one).max(axis=0)
    unit = float(sizes.max(initial=0)) or 1.0
    with np.errstate(all="ignore"):
        spread = float(np.abs(one / unit - one.mean(axis=0) / unit).max(initial=0))
        off = np.maximum(np.abs(one / unit - two / unit).max(axis=0) - ROUNDINGS * epsilon * sizes / unit, 0)
    worst = float(off.max(initial=0)) / (spread or 1.0)
    return None if worst <= tolerance else f"{what} changes features by {worst:.2g} of how far bags differ"


def look_at(model: Any, bags: Any, of: str, rng: np.random.Generator) -> str | None:
    """What a fitted model gets wrong, or None; ``of`` is its method."""
    answer = getattr(model, of)
    rows = np.asarray(answer(bags))
    if rows.dtype.kind not in "fiu":  # classes
        rows = np.asarray(model.predict_proba(bags))
        answer = model.predict_proba
    if not np.isfinite(rows).all():
        return f"{np.count_nonzero(~np.isfinite(rows)):,} of {rows.size:,} features are not finite"
    epsilon, ranges = float(np.finfo(bags.dtype).eps), np.ptp(bags.points.astype(float) / 4, axis=0)
    digits = np.abs(bags.points / 4).max(axis=0) * epsilon / np.where(ranges > 0, ranges, 1)  # lost by offsets
    if np.any(digits > 1e-3) or not ranges.all():
        return None  # points of a column are one, apart from roundings, and features may be their noise
    limits = ((TOLERANCE if bags.dtype == np.float64 else SINGLE) + 2 * float(digits.max()), epsilon)
    wrong = compare("the order of points", rows, answer(shuffled(bags, rng)), *limits)
    few = np.sort(rng.choice(bags.n_bags, min(3, bags.n_bags), replace=False))
    others = rows.copy()
    others[few] = answer(bags[few])
    wrong = wrong or compare("the rest of the call", rows, others, *limits)
    others[few[:1]] = answer(bags[few[:1]])
    wrong = wrong or compare("being alone", rows, others, *limits)
    if of == "transform":
        for name, values in (("n_jobs", (1, 2)), ("engine", ("numpy", "numba"))):
            inner = model[-1] if hasattr(model, "steps") else model
            if wrong is None and name in inner.get_params(deep=False):
                found = []
                for value in values:
                    inner.set_params(**{name: value})
                    found.append(np.asarray(answer(bags)))
                wrong = compare(name, *found, *limits)
    return wrong


def case(rng: np.random.Generator, names: list[str], number: int) -> tuple[str, str, int]:
    """One case: what it was, what came of it ("held", "refused" or a finding), and the number of bags."""
    from sklearn.pipeline import make_pipeline

    import distembed as de

    bags, facts = random_bags(rng)
    name = names[number % len(names)]
    kind = ("embedding", "embedding", "embedding", "regressor", "classifier")[(number // len(names)) % 5]
    what = f"{kind} {name} of {bags.n_bags} bags ({', '.join(f'{k} {v}' for k, v in facts.items())})"
    try:
        if kind == "embedding":
            embedding = de.embeddings.get(name)
            if "random_state" in embedding.get_params(deep=False):
                embedding.set_params(random_state=0)
            in_cube = name.startswith(NEEDS_CUBE)
            model = make_pipeline(de.UnitCube(), embedding) if in_cube else embedding
            wrong = look_at(model.fit(bags), bags, "transform", rng)
        elif kind == "regressor":
            y = rng.normal(size=bags.n_bags)
            model = de.DistributionRegressor(name, tune=None, random_state=0, **SPEEDING).fit(bags, y)
            wrong = look_at(model, bags, "predict", rng)
        else:
            y = np.array(["no", "yes"])[np.arange(bags.n_bags) % 2]
            model = de.DistributionClassifier(name, tune=None, random_state=0, **SPEEDING).fit(bags, y)
            wrong = look_at(model, bags, "predict", rng)
    except ValueError as error:
        said = str(error)
        clear = len(said) > 20 and (";" in said or "must" in said)
        return what, "refused" if clear else f"a ValueError without a remedy: {said}", bags.n_bags
    return what, wrong or "held", bags.n_bags


def bags(part: Part) -> None:
    """Cases until the bags or the time are used up."""
    import distembed as de

    def late(*_: Any) -> None:
        raise TooSlow

    names = list(de.embeddings.available())
    signal.signal(signal.SIGALRM, late)
    done = number = 0
    slowest = (0.0, "")
    while part.goes_on(done):
        rng = np.random.default_rng([part.seed, number])
        start = time.monotonic()
        signal.alarm(MOST_SECONDS)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                what, came, n_bags = case(rng, names, number)
        except TooSlow:
            what, came, n_bags = f"{names[number % len(names)]}, case {number}", f"takes more than {MOST_SECONDS} s", 1
        except Exception as error:
            what, came, n_bags = f"{names[number % len(names)]}, case {number}", f"{type(error).__name__}: {error}", 1
        finally:
            signal.alarm(0)
        seconds = time.monotonic() - start
        slowest = max(slowest, (seconds, what))
        done += n_bags
        number += 1
        part.counts["bags"], part.counts["cases"] = done, number
        if came in ("held", "refused"):
            part.counts[came] += 1
        else:
            part.finding(f"case {number - 1}, {what}: {came}")
    part.notes.append(f"slowest case: {slowest[0]:.0f} s, {slowest[1]}")
