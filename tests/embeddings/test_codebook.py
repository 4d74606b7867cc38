"""CodebookEmbedding: words, nearest words and shares against the judge."""

import numpy as np
import pytest

import distembed as de
import exact as judge
from distembed.compute.arrays import Scratch
from distembed.embeddings import CodebookEmbedding
from distembed.embeddings.codebook import NearestWord, draw_evenly, learn_words


def blobs(n_bags=8, n_points=30, n_dims=3, seed=0, dtype=float, weighted=False):
    rng = np.random.default_rng(seed)
    centres = rng.normal(0, 50, (5, n_dims))
    arrays = [
        (centres[rng.integers(5, size=n_points + i)] + rng.normal(size=(n_points + i, n_dims))).astype(dtype)
        for i in range(n_bags)
    ]
    weights = [rng.uniform(0, 1, len(a)) * (rng.uniform(size=len(a)) > 0.2) for a in arrays] if weighted else None
    return de.Bags.from_arrays(arrays, weights=weights)


# --------------------------------------------------------------------------------------------------------------
# Nearest words
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_dims", [1, 2, 9, 40])
@pytest.mark.parametrize("n_words", [1, 2, 60])
@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_nearest_words_are_the_judges(n_dims, n_words, shift):
    rng = np.random.default_rng(0)
    words, points = rng.normal(shift, 1, (n_words, n_dims)), rng.normal(shift, 1.5, (300, n_dims))
    np.testing.assert_array_equal(NearestWord(words)(points, Scratch()), judge.nearest_words(points, words))


def test_points_between_two_words_go_to_the_first():
    words = np.array([[3.0, 0.0], [1.0, 0.0], [1.0, 2.0], [3.0, 0.0]])
    points = np.array([[2.0, 0.0], [1.0, 1.0], [2.0, 1.0], [3.0, 0.0]])
    assert NearestWord(words)(points, Scratch()).tolist() == [0, 1, 0, 0]


def test_float32_arithmetic_alone_would_not_do():
    # Pairs of words that float32 can't tell apart from here.
    rng = np.random.default_rng(0)
    base = rng.normal(size=(20, 8))
    words = np.concatenate([base, base + 1e-8 * rng.normal(size=base.shape), [[100.0] * 8]])
    points = rng.normal(size=(400, 8))
    wanted = judge.nearest_words(points, words)
    found = NearestWord(words)(points, Scratch())
    np.testing.assert_array_equal(found, wanted)
    x, c = points.astype(np.float32), words.astype(np.float32)
    assert np.any(np.argmin(np.sum(c * c, axis=1) / 2 - x @ c.T, axis=1) != wanted)


@pytest.mark.parametrize("scale", [1e-200, 1e-30, 1e30, 1e150])
def test_units_do_not_matter(scale):
    rng = np.random.default_rng(0)
    words, points = rng.normal(size=(7, 2)), rng.normal(size=(50, 2))
    wanted = judge.nearest_words(points, words)
    np.testing.assert_array_equal(NearestWord(words * scale)(points * scale, Scratch()), wanted)


def test_points_too_far_away_for_float32_have_a_word():
    words, points = np.array([[-1.0], [1.0]]), np.array([[1e60], [-1e60], [1e300]])
    assert NearestWord(words)(points, Scratch())[:1].tolist() == judge.nearest_words(points[:1], words).tolist()
    assert set(NearestWord(words)(points, Scratch()).tolist()) <= {0, 1}


def test_blocks_of_points_change_nothing():
    rng = np.random.default_rng(0)
    words, points = rng.normal(size=(30, 4)), rng.normal(size=(1000, 4))
    nearest = NearestWord(words)
    wanted = nearest(points, Scratch())
    nearest.block_values = nearest.checked_values = 1
    np.testing.assert_array_equal(nearest(points, Scratch()), wanted)


# --------------------------------------------------------------------------------------------------------------
# Words
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [50_000, 10], ids=["all", "parts"])
def test_words_are_the_centres_of_blobs(most):
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [1000.0, 0.0], [0.0, 1000.0]])
    bags = de.Bags.from_arrays([centres[rng.integers(3, size=200)] + rng.normal(size=(200, 2)) for _ in range(5)])
    words = learn_words(bags, 3, np.random.RandomState(1), most)
    assert np.abs(words[np.lexsort(words.round(-1).T)] - centres).max() < 1


def test_every_bag_has_the_same_say():
    # Were points to count alike, the word would be next to 1.
    bags = de.Bags.from_arrays([np.full(999, 1.0), np.array([3.0])])
    np.testing.assert_allclose(learn_words(bags, 1, np.random.RandomState(0)), [[2.0]], rtol=1e-12)


def test_weights_count_and_points_without_are_absent():
    bags = de.Bags.from_arrays([[0.0, 4.0, 1e9], [2.0, 2.0, -1e9]], weights=[[3, 1, 0], [1, 1, 0]])
    embedding = CodebookEmbedding(1, "l2", random_state=0).fit(bags)
    assert embedding.words_.tolist() == [[1.5]]  # the mean of 1 and 2
    assert embedding.transform(bags).tolist() == [[1.0], [1.0]]


def test_draws_are_even():
    bags = de.Bags.from_arrays([np.zeros(5000), np.ones(3), np.full(400, 2.0), np.full(7, 3.0)])
    drawn = draw_evenly(bags, 100, np.random.RandomState(0))
    assert drawn.sizes.tolist() == [45, 3, 45, 7]
    assert [points[0, 0] for points in drawn] == [0, 1, 2, 3]
    assert draw_evenly(bags, 10**6, np.random.RandomState(0)) == bags.replace(ids=None)


def test_each_point_of_a_bag_has_the_same_chance():
    bags, rng = de.Bags.from_arrays([np.arange(7.0), np.arange(2.0)]), np.random.RandomState(0)
    counts = np.zeros(7)
    for _ in range(4000):
        counts += np.bincount(draw_evenly(bags, 6, rng)[0][:, 0].astype(int), minlength=7)
    assert np.abs(counts / 4000 - 4 / 7).max() < 0.05


def test_more_bags_than_points_to_draw():
    bags = de.Bags.from_arrays(np.arange(200.0).reshape(100, 2, 1))
    drawn = draw_evenly(bags, 10, np.random.RandomState(0))
    assert (drawn.n_bags, drawn.n_points) == (10, 10)
    assert len(np.unique(drawn.points // 2)) == 10
    words = CodebookEmbedding(5, max_points=10, random_state=0).fit(bags).words_
    assert words.shape == (5, 1)


def test_bags_that_give_all_keep_their_weights_and_others_have_equal_ones():
    rng = np.random.default_rng(0)
    bags = de.Bags.from_arrays(x := [rng.normal(size=n) for n in (50, 4, 60)], weights=[np.abs(y) for y in x])
    drawn = draw_evenly(bags, 40, np.random.RandomState(0))
    assert drawn.sizes.tolist() == [18, 4, 18]
    order = np.argsort(bags[1].ravel())
    np.testing.assert_array_equal(drawn[1], bags[1][order])
    np.testing.assert_array_equal(drawn.weights_of(1), bags.weights_of(1)[order])
    for i in (0, 2):
        assert np.isin(drawn[i], bags[i]).all()
        assert np.ptp(drawn.weights_of(i)) == 0


def test_the_chance_of_a_point_is_in_proportion_to_its_weight():
    masses, rng = np.array([1.0, 5, 0.5, 2, 1.5, 1e-9, 2]), np.random.RandomState(0)
    arrays, weights = [np.arange(n) for n in (2.0, 7.0, 7.0)], [[1, 1], masses, 1e300 * masses]
    bags = de.Bags.from_arrays(arrays, weights=weights)
    counts = np.zeros((2, 7))
    for _ in range(2000):
        drawn = draw_evenly(bags, 10, rng, chunk_bytes=200)
        counts += [np.bincount(drawn[i][:, 0].astype(int), minlength=7) for i in (1, 2)]
    assert np.abs(counts / 8000 - masses / masses.sum()).max() < 0.01


def test_words_are_where_the_weight_is_when_points_are_drawn():
    rng = np.random.default_rng(0)
    arrays = [np.r_[rng.normal(size=5000), 1000.0 + i] for i in range(20)]
    bags = de.Bags.from_arrays(arrays, weights=[np.r_[np.full(5000, 1e-9), 1.0]] * 20)
    words = CodebookEmbedding(3, max_points=1000, random_state=0).fit(bags).words_
    assert words.min() > 999
    assert words.max() < 1020


def test_a_draw_by_weight_has_the_mean_of_the_bag():
    rng = np.random.default_rng(0)
    bags = de.Bags.from_arrays(x := rng.normal(size=(1, 20_000)), weights=np.exp(x))
    wanted = np.average(x[0], weights=np.exp(x[0]))
    means = [draw_evenly(bags, 500, np.random.RandomState(i)).points.mean() for i in range(200)]
    assert abs(np.mean(means) - wanted) < 4 * np.std(means) / 200**0.5
    assert np.std(means) < 500**-0.5  # that of draws without stretches


@pytest.mark.parametrize("n_words", [3, 100])
def test_fewer_distinct_points_than_words_become_the_words(n_words):
    bags = de.Bags.from_arrays([[1.0, 5.0, 5.0], [5.0, 1.0]])
    with pytest.warns(UserWarning, match=r"fewer distinct points to make words of than n_words, .* lower n_words"):
        embedding = CodebookEmbedding(n_words, "hellinger", random_state=0).fit(bags)
    assert embedding.words_.tolist() == [[1.0], [5.0]]
    assert embedding.n_words_ == 2
    np.testing.assert_allclose(embedding.transform(bags) ** 2 * 2, [[1 / 3, 2 / 3], [0.5, 0.5]])
    assert embedding.get_feature_names_out().tolist() == ["hellinger_re0_word0", "hellinger_re0_word1"]


def test_the_warning_names_max_points_only_where_it_would_help():
    with pytest.warns(UserWarning, match=r"n_words_ is their number; lower n_words$"):
        CodebookEmbedding(2, random_state=0).fit([[[1.0], [1.0]]])
    with pytest.warns(UserWarning, match=r"n_words_ is their number; lower n_words, or raise max_points$"):
        CodebookEmbedding(3, max_points=4, random_state=0).fit([[[1.0], [1.0], [2.0], [2.0], [2.0], [2.0]]])


@pytest.mark.parametrize("largest", [1.7e308, 3e307])
def test_overflow_is_an_error_with_a_remedy(largest):
    points = np.random.default_rng(0).choice([-1.0, 0.5, 1.0], size=(4, 9, 2)) * largest
    with pytest.raises(ValueError, match=r"CodebookEmbedding: words must be finite, .* divide them by a constant"):
        CodebookEmbedding(3, random_state=0).fit(points)
    assert np.isfinite(CodebookEmbedding(3, random_state=0).fit_transform(points / 1e10)).all()


def test_as_many_distinct_points_as_words_need_no_warning():
    bags = de.Bags.from_arrays([[1.0, 5.0] * 50, [5.0, 1.0, 9.0]])
    assert CodebookEmbedding(3, random_state=0).fit(bags).words_.tolist() == [[1.0], [5.0], [9.0]]


def test_words_move_with_the_points():
    bags = blobs()
    moved = de.Bags(bags.points * 8 + 1024, bags.offsets)
    a, b = (CodebookEmbedding(6, random_state=0).fit(x) for x in (bags, moved))
    np.testing.assert_allclose(b.words_, a.words_ * 8 + 1024, rtol=1e-9)
    np.testing.assert_allclose(b.transform(moved), a.transform(bags), atol=1e-12)


# --------------------------------------------------------------------------------------------------------------
# The embedding
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_shares_are_the_judges(weighted, dtype):
    bags = blobs(weighted=weighted, dtype=dtype)
    embedding = CodebookEmbedding(9, "l2", random_state=0).fit(bags)
    wanted = [judge.word_shares(points, embedding.words_, bags.weights_of(i)) for i, points in enumerate(bags)]
    found = embedding.transform(bags)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, wanted, atol=1e-6 if dtype == np.float32 else 1e-14)


@pytest.mark.parametrize(
    ("kernel", "order", "tolerance"),
    [("js", 20, 1e-6), ("chi2", 20, 1e-5), ("hellinger", None, 1e-12), ("tv", 64, 0.01)],
)
def test_squared_distances_are_those_of_shares_of_words(kernel, order, tolerance):
    bags = blobs(weighted=True)
    embedding = CodebookEmbedding(9, kernel, order=order, random_state=0).fit(bags)
    rows = [judge.word_shares(points, embedding.words_, bags.weights_of(i)) for i, points in enumerate(bags)]
    wanted = [[judge.histogram_distance(h, g, kernel) for g in rows] for h in rows]
    features = embedding.transform(bags)
    found = np.sum((features[:, None] - features[None]) ** 2, axis=2)
    np.testing.assert_allclose(found, wanted, atol=tolerance)


def test_float32_points_have_the_words_of_float64():
    bags = blobs(30, 200, dtype=np.float32)
    embedding = CodebookEmbedding(40, "l2", random_state=0).fit(bags)
    again = CodebookEmbedding(40, "l2", random_state=0).fit(bags.astype(float))
    np.testing.assert_array_equal(embedding.words_, again.words_)
    np.testing.assert_array_equal(embedding.transform(bags), embedding.transform(bags.astype(float)).astype(np.float32))


def test_chunks_and_threads_change_nothing():
    bags = blobs(150, 20, weighted=True)
    wanted = CodebookEmbedding(20, random_state=0, n_jobs=1).fit_transform(bags)
    for n_jobs in (1, 2, 3):
        embedding = CodebookEmbedding(20, random_state=0, n_jobs=n_jobs)
        embedding.chunk_bytes = 20_000
        found = embedding.fit_transform(bags)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-15)


def test_bags_of_different_mixtures_are_told_apart():
    rng = np.random.default_rng(0)
    kinds = np.arange(20) % 2
    centres = rng.normal(0, 100, (2, 10))
    share = np.where(kinds == 0, 0.3, 0.7)
    arrays = [centres[(rng.uniform(size=300) < s).astype(int)] + rng.normal(size=(300, 10)) for s in share]
    rows = CodebookEmbedding(20, random_state=0).fit_transform(arrays)
    d2 = np.sum((rows[:, None] - rows[None]) ** 2, axis=2)
    same = kinds[:, None] == kinds
    assert d2[~same].min() > d2[same].max()


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"n_words": 0}, ValueError, r"CodebookEmbedding\(n_words=...\): must be an integer in \[1, .*, got 0"),
        ({"n_words": 10**6}, ValueError, r"CodebookEmbedding\(n_words=...\): must be an integer in \[1, 142857\]"),
        ({"n_words": 2.0}, TypeError, r"CodebookEmbedding\(n_words=...\)"),
        (
            {"max_points": 50},
            ValueError,
            r"CodebookEmbedding\(max_points=...\): must be .* \[100, inf\), got 50; k-means",
        ),
        ({"kernel": "rbf"}, ValueError, r"CodebookEmbedding\(kernel=...\): must be one of 'js'"),
        (
            {"map": "none"},
            ValueError,
            r"CodebookEmbedding\(map='none'\): gives the values themselves",
        ),
        ({"random_state": "a"}, ValueError, "'a' cannot be used to seed"),
    ],
)
def test_errors_say_what_to_do(options, error, text):
    with pytest.raises(error, match=text):
        CodebookEmbedding(**options).fit(blobs())
