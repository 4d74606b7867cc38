"""Whether probabilities of classes hold: expected calibration error and log loss on new bags, classes unequal.

    python experiments/reliability.py [--repeats 5] [--bags 60 200 1000] [--test 4000] [--bins]

Bags are 15 points of a plane, Gaussian about a mean that depends on the class, and overlap; classes have shares of .85
and .15, or .6, .3 and .1. "truth" are the probabilities of the law itself: no others have a smaller log loss, and its
calibration error is what chance leaves. With ``class_weight="balanced"`` new bags weigh as the model weighs classes.

The expected calibration error is the mean of |share of bags of a class - mean probability| over ten bins of equal
weight by probability, averaged over classes. ``--bins`` prints the bins for the rarest class too.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import distembed as de

SHARES = {"two": np.array([0.85, 0.15]), "three": np.array([0.6, 0.3, 0.1])}
MEANS = np.array([[0.0, 0.0], [0.55, 0.0], [0.0, 0.55]])
MODELS = ("logistic", "svm", "ridge", "auto")


def draw(shares, n_bags, seed):
    """Bags, their classes, and the probabilities of classes that their law gives them."""
    rng = np.random.default_rng(seed)
    codes = np.resize(np.repeat(np.arange(len(shares)), np.round(20 * shares).astype(int)), n_bags)
    means = MEANS[: len(shares)]
    points = rng.normal(means[codes][:, None], 1.0, size=(n_bags, 15, 2))
    logs = -0.5 * ((points[:, :, None] - means) ** 2).sum(axis=(1, 3)) + np.log(shares)
    truth = np.exp(logs - logs.max(axis=1, keepdims=True))
    return points, codes, truth / truth.sum(axis=1, keepdims=True)


def bins_of(probability, happened, weight, n_bins=10):
    """Mean probability, share of bags for which it came true, and weight, in bins of equal weight."""
    order = np.argsort(probability, kind="stable")
    position = np.cumsum(weight[order]) / weight.sum()
    number = np.minimum((n_bins * position).astype(int), n_bins - 1)
    mass = np.bincount(number, weight[order], minlength=n_bins)
    total = np.where(mass > 0, mass, 1.0)
    means = [np.bincount(number, (weight * each)[order], minlength=n_bins) / total for each in (probability, happened)]
    return *means, mass / mass.sum()


def calibration_error(found, codes, weight):
    """Expected calibration error, averaged over classes."""
    errors = []
    for k in range(found.shape[1]):
        said, came, mass = bins_of(found[:, k], (codes == k).astype(float), weight)
        errors.append(np.sum(mass * np.abs(said - came)))
    return float(np.mean(errors))


def log_loss(found, codes, weight):
    """Mean of -log p of the class of each bag."""
    return float(np.average(-np.log(np.maximum(found[np.arange(len(codes)), codes], 1e-6)), weights=weight))


def judged(model, shares, n_bags, n_test, class_weight, seed):
    """Probabilities for new bags, their classes and weights, and seconds of the fit."""
    bags, codes, _ = draw(shares, n_bags, 2 * seed)
    new, new_codes, truth = draw(shares, n_test, 2 * seed + 1)
    weight = np.ones(n_test) if class_weight is None else (1 / shares)[new_codes]
    if model == "truth":
        found = truth if class_weight is None else truth / shares / (truth / shares).sum(axis=1, keepdims=True)
        return found, new_codes, weight, 0.0
    settings = {"class_weight": class_weight, "random_state": seed}
    if model == "auto":
        learner = de.DistributionClassifier("auto", **settings)
    else:
        learner = de.DistributionClassifier("mean", model=model, n_components=500, **settings)
    start = time.perf_counter()
    learner.fit(bags, codes)
    return learner.predict_proba(new), new_codes, weight, time.perf_counter() - start


def main(argv=None):
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--bags", type=int, nargs="+", default=[60, 200, 1000])
    parser.add_argument("--test", type=int, default=4000)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--bins", action="store_true")
    given = parser.parse_args(argv)
    print("classes  weights   bags   model     calibration error  log loss  rare predicted  seconds")
    for classes, shares in SHARES.items():
        for class_weight in (None, "balanced"):
            for n_bags in given.bags:
                for model in ("truth", *given.models):
                    rows, parts = [], []
                    for seed in range(given.repeats):
                        found, codes, weight, seconds = judged(model, shares, n_bags, given.test, class_weight, seed)
                        rare = np.mean(found.argmax(axis=1) == len(shares) - 1)
                        scores = calibration_error(found, codes, weight), log_loss(found, codes, weight)
                        rows.append((*scores, rare, seconds))
                        parts.append((found[:, -1], codes == len(shares) - 1, weight))
                    error, loss, rare, seconds = np.mean(rows, axis=0)
                    print(
                        f"{classes:7}  {class_weight or 'none':8}  {n_bags:5}  {model:8}  {error:17.3f}  {loss:8.3f}  "
                        f"{rare:14.3f}  {seconds:7.2f}",
                        flush=True,
                    )
                    if given.bins:
                        p, happened, weight = (np.concatenate(each) for each in zip(*parts, strict=True))
                        for said, came, _ in zip(*bins_of(p, happened.astype(float), weight), strict=True):
                            print(f"{'':36}said {said:.3f}, came true {came:.3f}")


if __name__ == "__main__":
    main()
