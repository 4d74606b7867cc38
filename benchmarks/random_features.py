"""Random features: from what width structured frequencies win, and the dense ones against a bare matrix product.

    python benchmarks/random_features.py [--rows 2048] [--repeats 9]

Times are the best of several turns, the sides taking turns in one process; a comparison first checks the answers. Only
ratios of one run mean anything, and only on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import time
from functools import partial

import numpy as np
from scipy.linalg import hadamard
from threadpoolctl import threadpool_limits

import distembed as de
import exact

WIDTHS = (128, 256, 512, 600, 1024, 2048, 4096, 8192)


def best_in_turns(sides, repeats):
    """Seconds of the fastest call of each function; a busy moment of the machine meets all of them alike."""
    seconds = dict.fromkeys(sides, np.inf)
    for _ in range(repeats):
        for name, function in sides.items():
            start = time.perf_counter()
            function()
            seconds[name] = min(seconds[name], time.perf_counter() - start)
    return seconds


def check_against_the_matrix(fitted, X):
    """The fast transform is the product with explicit Hadamard matrices, factor by factor."""
    _, n_blocks, size = fitted.signs_.shape
    H = hadamard(size, dtype=np.float32) / np.float32(np.sqrt(size))
    rows = np.zeros((len(X), size), np.float32)
    rows[:, : X.shape[1]] = X
    first, second, third = fitted.signs_
    blocks = [(((rows * third[b]) @ H * second[b]) @ H * first[b]) @ H for b in range(n_blocks)]
    angles = np.hstack(blocks)[:, : len(fitted.lengths_)] * fitted.lengths_
    want = np.hstack([np.sin(angles), np.cos(angles)]) * np.sqrt(2 / fitted.n_components)
    np.testing.assert_allclose(fitted.transform(X), want, atol=5e-5)


def crossover(ms=WIDTHS, n_rows=2048, repeats=9, n_jobs=None):
    """Rows (m, D, seconds dense, seconds hadamard, dense / hadamard) of ``transform``, float32, D = m, 2m and 5,000."""
    table = []
    rng = np.random.default_rng(0)
    for m in ms:
        X = rng.normal(size=(n_rows, m)).astype(np.float32)
        for n_components in sorted({m + m % 2, 2 * m, 5000}):
            # Independent frequencies take the time of orthogonal ones, without their factorisation in fit.
            kinds = {"dense": "independent", "hadamard": "hadamard"}
            fitted = {
                name: de.RandomFourierFeatures(
                    n_components, sigma=np.sqrt(m), frequencies=kind, random_state=0, n_jobs=n_jobs
                ).fit(X[:2])
                for name, kind in kinds.items()
            }
            check_against_the_matrix(fitted["hadamard"], X[:3])
            sides = {name: partial(side.transform, X) for name, side in fitted.items()}
            seconds = best_in_turns(sides, repeats)
            dense, fast = seconds["dense"], seconds["hadamard"]
            table.append((m, n_components, dense, fast, dense / fast))
    return table


def share_of_product(n_rows=12_000, repeats=9, dtype=np.float32, n_jobs=None, m=600, n_components=5000, n=2048):
    """Speed of dense ``transform``, counting the operations of its product alone, over that of an (n, n) product.

    With ``n_jobs=1`` the product has one thread too.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, m)).astype(dtype)
    square = rng.normal(size=(n, n)).astype(dtype)
    fitted = de.RandomFourierFeatures(n_components, sigma=np.sqrt(m), frequencies="independent", n_jobs=n_jobs)
    fitted.fit(X[:2])
    want = exact.random_fourier_features(X[:2].astype(float), fitted.frequencies_.T.astype(float))
    np.testing.assert_allclose(fitted.transform(X[:2]), np.hstack([want[:, 0::2], want[:, 1::2]]), atol=2e-5)
    with threadpool_limits(n_jobs, user_api="blas"):
        seconds = best_in_turns({"product": lambda: square @ square, "features": lambda: fitted.transform(X)}, repeats)
    return (n_rows * m * n_components / 2 / seconds["features"]) / (n**3 / seconds["product"])


def main(ms=WIDTHS, n_rows=2048, repeats=9):
    for n_jobs, threads in ((None, "default threads"), (1, "one thread")):
        print(f"transform of {n_rows} rows, float32, {threads}")
        print(f"  {'m':>6s} {'D':>6s} {'dense':>10s} {'hadamard':>10s} {'dense / hadamard':>17s}")
        for m, n_components, dense, fast, ratio in crossover(ms, n_rows, repeats, n_jobs):
            print(f"  {m:6d} {n_components:6d} {dense * 1e3:7.1f} ms {fast * 1e3:7.1f} ms {ratio:17.2f}")
        for dtype in (np.float32, np.float64):
            share = share_of_product(repeats=repeats, dtype=dtype, n_jobs=n_jobs)
            print(f"dense {np.dtype(dtype)}, m = 600, D = 5,000, sines and cosines included: {share:.2f} of a product")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2048)
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    main(n_rows=options.rows, repeats=options.repeats)
