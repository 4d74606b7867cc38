"""Settings of all tests."""

import gc


def pytest_collection_finish():
    """Modules and test cases live to the end: the garbage collector need not look at half a million objects again."""
    gc.collect()
    gc.freeze()
