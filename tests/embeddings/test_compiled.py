"""The compiled engine against the stages written in NumPy, and against a scalar loop."""

import numpy as np
import pytest

from distembed import KDE, Bags, Cosine, Fourier, Grid, HDDEmbedding, RandomFourierFeatures

pytest.importorskip("numba")

from distembed.compute import checks
from distembed.compute import compiled as compiled_sines
from distembed.compute.arrays import Scratch
from distembed.embeddings import compiled as _compiled

pytestmark = pytest.mark.filterwarnings("ignore::distembed.basis.LowEnergyWarning")  # few functions, to be fast

TOLERANCE = {"float64": 1e-13, "float32": 4e-5}  # the NumPy engine takes float32 powers from a table


def make_bags(rng, n_bags=70, n_dims=2, dtype="float64", weighted=False):
    sizes = rng.integers(1, 60, size=n_bags)
    points = np.clip(rng.normal(rng.uniform(0.2, 0.8, n_dims), 0.2, size=(sizes.sum(), n_dims)), 0, 1).astype(dtype)
    weights = rng.integers(0, 3, size=sizes.sum()).astype(dtype) + np.eye(1, sizes.sum())[0] if weighted else None
    offsets = np.r_[0, np.cumsum(sizes)]
    if weighted:
        weights[offsets[:-1]] = 1.0  # no bag weighs nothing
    return Bags(points, offsets, weights=weights)


def both(bags, **options):
    fitted = HDDEmbedding(**options).fit(bags)
    return tuple(fitted.set_params(engine=engine).transform(bags) for engine in ("numba", "numpy"))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n_dims", [1, 2, 3])
@pytest.mark.parametrize("distance", ["js", "hellinger", "tv"])
def test_both_engines_agree(distance, n_dims, dtype):
    bags = make_bags(np.random.default_rng(n_dims), n_dims=n_dims, dtype=dtype)
    fused, plain = both(bags, distance=distance, n_basis=(5, 4, 3)[:n_dims], n_lambdas=4, bandwidth=0.1)
    assert fused.dtype == plain.dtype == dtype
    tolerance = 10 * TOLERANCE[dtype] if distance == "tv" else TOLERANCE[dtype]  # lambdas above 100 turn fast
    np.testing.assert_allclose(fused, plain, atol=tolerance)


@pytest.mark.parametrize("distance", ["js", "tv"])
def test_compiled_float32_is_as_good_as_float32_can_be(distance):
    bags = make_bags(np.random.default_rng(11), dtype="float32")
    fitted = HDDEmbedding(distance, n_basis=5, bandwidth=0.1, engine="numba").fit(bags)
    double = fitted.transform(bags.astype("float64"))
    np.testing.assert_allclose(fitted.transform(bags), double, atol=2e-6)


@pytest.mark.parametrize("boundary", ["periodic", "none", ("periodic", "reflect")])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("basis", [Cosine(), Fourier(), Cosine("total_degree")])
def test_boundaries_weights_and_bases(boundary, weighted, basis):
    bags = make_bags(np.random.default_rng(3), weighted=weighted)
    fused, plain = both(bags, density=KDE(boundary), basis=basis, n_basis=6, bandwidth=0.08, nodes=Grid((20, 24)))
    np.testing.assert_allclose(fused, plain, atol=1e-13)


class GuardedScratch(Scratch):
    """Memory with marks before and behind every array."""

    def __init__(self):
        super().__init__()
        self.guards = {}

    def __call__(self, name, shape, dtype):
        n, mark = np.prod(shape, dtype=int), 77
        if (name, dtype) not in self.guards:
            self.guards[name, dtype] = np.full(n + 128, mark, dtype)
        found = self.guards[name, dtype]
        assert found.size == n + 128
        return found[64:-64].reshape(shape)

    def check(self):
        for found in self.guards.values():
            assert np.all(found[:64] == 77)
            assert np.all(found[-64:] == 77)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("boundary", ["reflect", "periodic"])
@pytest.mark.parametrize("nodes", [(2,), (7,), (300,), (5, 33), (33, 5), (20, 2), (9, 4, 21)])
def test_nothing_is_written_beyond_the_memory_it_is_given(nodes, boundary, dtype):
    n_dims = len(nodes)
    bags = make_bags(np.random.default_rng(12), n_bags=61, n_dims=n_dims, dtype=dtype)
    n_basis = tuple(min(n, 4) for n in nodes)
    fitted = HDDEmbedding(n_basis=n_basis, bandwidth=0.3, density=KDE(boundary), nodes=Grid(nodes), engine="numba")
    engine = _compiled.CompiledEngine(fitted.fit(bags).stages_, np.dtype(dtype))
    scratch, out = GuardedScratch(), np.full((bags.n_bags + 2, fitted.stages_.n_features), 77, dtype)
    engine(bags, out[1:-1], scratch)
    scratch.check()
    assert np.all(out[[0, -1]] == 77)
    np.testing.assert_array_equal(out[1:-1], fitted.transform(bags))


@pytest.mark.parametrize("value", [-1e-7, 1.0000002, 1e30, -1e30])
@pytest.mark.parametrize("boundary", ["reflect", "periodic"])
def test_a_point_outside_the_cube_is_found_by_the_kernel_itself(value, boundary):
    points = np.full((90, 2), 0.5, "float32")
    fitted = HDDEmbedding(bandwidth=0.1, density=KDE(boundary), engine="numba").fit(Bags(points, [0, 40, 90]))
    points[77, 1] = value
    with pytest.raises(ValueError, match=r"unit cube.*point 37 of bag 1 has .* in dimension 1.*UnitCube"):
        fitted.transform(Bags(points, [0, 40, 90]))


def test_points_on_the_faces_and_far_from_every_node():
    corners = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0], [0.5, 0.5]])
    bags = Bags(corners, np.arange(6))
    for boundary in ("reflect", "periodic"):
        fused, plain = both(bags, density=KDE(boundary), bandwidth=0.02, nodes=Grid(40))
        assert np.all(np.isfinite(fused))
        np.testing.assert_allclose(fused, plain, atol=1e-13)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_row_depends_neither_on_its_lane_nor_on_its_neighbours_nor_on_threads(dtype):
    """To the bit, but for single products of BLAS: some kernels for AVX-512 add up columns in an order of their own."""
    bags = make_bags(np.random.default_rng(4), n_bags=200, dtype=dtype)
    embedding = HDDEmbedding(n_basis=5, bandwidth=0.1, engine="numba").fit(bags)
    whole = embedding.transform(bags)
    rounding = 4 * np.finfo(dtype).eps * np.linalg.norm(whole, axis=1).max() if dtype == "float32" else 0.0
    np.testing.assert_allclose(embedding.transform(bags[::-1])[::-1], whole, rtol=0, atol=rounding)
    np.testing.assert_allclose(embedding.transform(bags[37:41]), whole[37:41], rtol=0, atol=rounding)
    np.testing.assert_array_equal(embedding.set_params(n_jobs=2).transform(bags), whole)


def test_threads_share_all_bags_and_none_is_left_out():
    bags = make_bags(np.random.default_rng(14), n_bags=1500, dtype="float32")
    embedding = HDDEmbedding(n_basis=3, bandwidth=0.1, engine="numba", n_jobs=1).fit(bags[:50])
    alone = embedding.transform(bags)
    for _ in range(5):
        np.testing.assert_array_equal(embedding.set_params(n_jobs=4).transform(bags), alone)


def test_a_point_outside_the_cube_ends_the_work_of_all_threads():
    bags = make_bags(np.random.default_rng(15), n_bags=1500)
    embedding = HDDEmbedding(n_basis=3, bandwidth=0.1, engine="numba", n_jobs=3).fit(bags[:50])
    for at in (0, bags.n_points // 2, -1):
        points = bags.points.copy()
        points[at, 1] = 1.5
        with pytest.raises(ValueError, match="unit cube"):
            embedding.transform(Bags(points, bags.offsets))
    assert np.all(np.isfinite(embedding.transform(bags)))


def test_powers_are_right_to_the_last_places():
    for scalar, exact in ((np.float32, 2e-6), (np.float64, 1e-14)):
        p = np.random.default_rng(0).gamma(0.3, 1, size=4096).astype(scalar)
        p[:3] = 0, 1, 1e-30
        mantissa, log, root, real, imaginary = (np.empty_like(p) for _ in range(5))
        bits, (logs, sines, cosines, half) = compiled_sines.constants(scalar is np.float32)
        word = f"i{p.itemsize}"
        _compiled._logs_and_roots(p, p.view(word), mantissa, mantissa.view(word), bits, logs, log, root)
        for turning in (0.3, 7.0):
            turns = scalar(turning * np.log(2) / (2 * np.pi))
            _compiled._turn(log, root, turns, scalar(0.5), half, sines, cosines, real, imaginary)
            value = 0.5 * np.exp((0.5 + 1j * turning) * np.log(np.maximum(p.astype(float), 1e-300)))
            value[p == 0] = 0
            np.testing.assert_allclose(real + 1j * imaginary, value, atol=(1 + turning) * exact)


def test_more_bags_than_lanes_and_not_a_multiple_of_them():
    bags = make_bags(np.random.default_rng(5), n_bags=131)
    fused, plain = both(bags, n_basis=4, bandwidth=0.1)
    np.testing.assert_allclose(fused, plain, atol=1e-13)


@pytest.mark.parametrize("density", [KDE(per_bag=True), "histogram"])
def test_what_is_not_compiled_is_refused_by_name(density):
    bags = make_bags(np.random.default_rng(6))
    with pytest.raises(ValueError, match=r"engine='numba'.*engine='auto'"):
        HDDEmbedding(density=density, bandwidth="scott", engine="numba").fit(bags)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("frequencies", ["orthogonal", "hadamard"])
def test_random_features_agree(frequencies, dtype):
    X = np.random.default_rng(7).normal(size=(90, 20)).astype(dtype)
    fitted = RandomFourierFeatures(300, frequencies=frequencies, random_state=0).fit(X)
    fused, plain = (fitted.set_params(engine=engine).transform(X) for engine in ("numba", "numpy"))
    np.testing.assert_allclose(fused, plain, atol=1e-14 if dtype == "float64" else 2e-7)


def test_auto_takes_compiled_code_for_large_work_only(monkeypatch):
    X = np.random.default_rng(8).normal(size=(10, 3))
    fitted = RandomFourierFeatures(20, random_state=0).fit(X)
    small = fitted.transform(X)
    calls = []
    monkeypatch.setattr(compiled_sines, "_sines_and_cosines", lambda *arguments: calls.append(arguments))
    np.testing.assert_array_equal(fitted.transform(X), small)
    assert not calls
    monkeypatch.setattr(checks, "LARGE_WORK", 100)
    monkeypatch.setattr(checks, "COLD_WORK", 100)
    fitted.transform(X)
    assert calls


def test_auto_compiles_only_what_takes_numpy_longer(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    between = (checks.LARGE_WORK + checks.COLD_WORK) / 2
    assert not checks.wants_numba("HDDEmbedding", "auto", between)
    assert checks.wants_numba("HDDEmbedding", "auto", checks.COLD_WORK)
    assert checks.wants_numba("HDDEmbedding", "numba", 0)
    (tmp_path / "embeddings_1").mkdir()
    (tmp_path / "embeddings_1" / "compiled._embed-1.py311.nbi").touch()  # as numba leaves it
    assert checks.wants_numba("HDDEmbedding", "auto", between)
    assert not checks.wants_numba("HDDEmbedding", "auto", checks.LARGE_WORK / 2)
    with checks.in_pieces(2):
        assert checks.wants_numba("HDDEmbedding", "auto", checks.LARGE_WORK / 2)
        assert not checks.wants_numba("HDDEmbedding", "numpy", checks.LARGE_WORK / 2)
    assert not checks.wants_numba("HDDEmbedding", "auto", checks.LARGE_WORK / 2)


@pytest.mark.parametrize("estimator", [HDDEmbedding(bandwidth=0.1), RandomFourierFeatures(10)])
def test_without_numba_the_error_names_the_extra(estimator, monkeypatch):
    monkeypatch.setattr(checks, "find_spec", lambda name: None)
    X = np.random.default_rng(9).uniform(size=(4, 30, 2) if isinstance(estimator, HDDEmbedding) else (4, 2))
    with pytest.raises(ImportError, match=r"engine=.*'numba' needs.*distembed\[fast\]"):
        estimator.set_params(engine="numba").fit(X)
    estimator.set_params(engine="auto").fit(X)
    with pytest.raises(ValueError, match=r"engine=.*must be one of 'auto', 'numpy', 'numba', got 'cuda'"):
        estimator.set_params(engine="cuda").fit(X)
