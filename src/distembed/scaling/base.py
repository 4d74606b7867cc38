"""What scalers share: bags come out, whatever container is asked for, and errors name a column."""

from __future__ import annotations

from typing import Any, Self

from ..bags.estimators import BagEstimator


class BagScaler(BagEstimator):
    """Base of the transformers that take bags to bags, column by column."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(auto_wrap_output_keys=None, **kwargs)

    def set_output(self, *, transform: Any = None) -> Self:
        """Do nothing: the output is bags, whatever container is asked for.

        It is here so that ``Pipeline.set_output`` can reach the steps that return arrays.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None
            Ignored.

        Returns
        -------
        self
        """
        return self


def name_of_dimension(scaler: BagScaler, j: int) -> str:
    """``dimension 1 ('dec')``, or ``dimension 1`` without column names."""
    names = getattr(scaler, "feature_names_in_", None)
    return f"dimension {j}" if names is None else f"dimension {j} ({names[j]!r})"
