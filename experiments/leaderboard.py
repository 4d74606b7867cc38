"""What the row "ensemble" of a leaderboard promises, and what new bags give.

Bags are normal clouds whose width and height follow a hidden number t; the target is t with noise, or its sign. With
noise alone nothing can be learned, with a weak signal R² is at most .2, with a strong one .9. For each law and number
of bags the default is fitted to fresh bags again and again; then it is scored on 1,500 new ones.

``bias`` is the mean difference of a row's score from that on new bags, in standard errors that the row shows; ``z²`` is
the mean squared difference in these errors, one where they are right. The first pair is for the best candidate.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

import distembed as de

SIGNALS = {"noise": 0.0, "weak": 0.45, "strong": 0.95}


def make_bags(n_bags: int, signal: float, classes: bool, rng: np.random.Generator) -> tuple[de.Bags, np.ndarray]:
    hidden = rng.normal(size=n_bags)
    arrays = []
    for t in hidden:
        points = rng.normal(size=(rng.integers(10, 60), 2))
        arrays.append(points * [np.exp(0.3 * t), 1.0] + [0.0, 0.4 * t])
    y = signal * hidden + np.sqrt(1 - signal**2) * rng.normal(size=n_bags)
    return de.Bags.from_arrays(arrays), (y > 0).astype(int) if classes else y


def score_on_new_bags(
    model: de.DistributionRegressor | de.DistributionClassifier, bags: de.Bags, y: np.ndarray
) -> float:
    if not hasattr(model, "predict_proba"):
        return model.score(bags, y)
    own = model.predict_proba(bags)[np.arange(len(y)), y]
    return float(np.log(np.maximum(own, 1e-4)).mean())


def differences(embedding: str, n_bags: int, signal: float, classes: bool, repeats: int) -> np.ndarray:
    """Best candidate, ensemble and new bags, and the errors of the first two: one row per repetition."""
    kind = de.DistributionClassifier if classes else de.DistributionRegressor
    found = []
    for seed in range(repeats):
        rng = np.random.default_rng([seed, n_bags, int(100 * signal), classes])
        bags, y = make_bags(n_bags, signal, classes, rng)
        new, truth = make_bags(1500, signal, classes, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of noise
            model = kind(embedding, random_state=seed).fit(bags, y)
        best = model.leaderboard_[0]
        whole = model.leaderboard_.ensemble
        errors = (best["standard_error"], whole["standard_error"])
        found.append((best["score"], whole["score"], score_on_new_bags(model, new, truth), *errors))
    return np.array(found)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--bags", type=int, nargs="+", default=[30, 100, 300])
    parser.add_argument("--laws", nargs="+", choices=SIGNALS, default=[*SIGNALS])
    parser.add_argument("--embedding", default="auto")
    asked = parser.parse_args(argv)
    print(
        f"{'law':8}{'targets':9}{'bags':>5}{'best':>8}{'bias':>6}{'z²':>6}{'ensemble':>10}{'bias':>6}{'z²':>6}{'new':>8}"
    )
    for law in asked.laws:
        for classes in (False, True):
            for n_bags in asked.bags:
                found = differences(asked.embedding, n_bags, SIGNALS[law], classes, asked.repeats)
                cells = ""
                for row, width in ((0, 8), (1, 10)):
                    gap = found[:, row] - found[:, 2]
                    errors = np.maximum(found[:, 3 + row], 1e-12)
                    bias = gap.mean() / errors.mean()
                    cells += f"{found[:, row].mean():{width}.3f}{bias:6.2f}{np.mean((gap / errors) ** 2):6.1f}"
                kind = "classes" if classes else "numbers"
                print(f"{law:8}{kind:9}{n_bags:5}{cells}{found[:, 2].mean():8.3f}", flush=True)


if __name__ == "__main__":
    main()
