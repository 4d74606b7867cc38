"""Settings of all tests."""

import gc
import os

import pytest

# Before Python 3.11.8 the profiler of Dask's workers, which asks for the frames of all threads, may wait forever.
os.environ["DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED"] = "False"


def pytest_collection_finish():
    """Modules and test cases live to the end: the garbage collector need not look at half a million objects again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def small_members():
    """Ensembles have forests of few trees and sums of few features: no test depends on how many there are."""
    from distembed.models.forest import ForestHead

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("distembed.models.forest.FOLD_TREES", 20)
        patch.setattr(ForestHead.__init__, "__defaults__", ("forest", None, 20, None))
        patch.setattr("distembed.models.kernel_head.KernelHead.most_sums", 300)
        yield
