"""What tests of the contract of transformers of bags share."""

from __future__ import annotations

from distembed.estimator_checks import bag_transformer_checks


def broken_rules(estimator, skip=()):
    """Rules that a transformer breaks, by name, with the text of the error: all of them, not only the first."""
    errors = {}
    for name, check in bag_transformer_checks(estimator, skip=skip):
        try:
            check()
        except AssertionError as error:
            errors[name] = str(error)
    return errors
