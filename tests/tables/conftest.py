"""Sizes of pieces, small enough for small tables to have many."""

import pytest

from distembed.tables import formats


@pytest.fixture
def piece_sizes(monkeypatch):
    """Return a function that sets the rows of a piece, and the bytes of CSV that are read at once."""

    def set_sizes(rows=formats.ROWS, block=formats.BLOCK):
        monkeypatch.setattr(formats, "ROWS", rows)
        monkeypatch.setattr(formats, "BLOCK", block)

    return set_sizes
