"""The Gram experiment on one seed; ``distembed reproduce gram`` runs ten."""

from distembed.reproduce import gram


def test_a_features_reproduce_the_kernel():
    found = gram.estimate("A features", 0)
    assert found["R2"] >= 0.993
    assert found["determination"] >= 0.985


def test_random_features_reproduce_the_kernel():
    found = gram.estimate("random features", 0)
    assert found["R2"] >= 0.992
    assert found["determination"] >= 0.98
