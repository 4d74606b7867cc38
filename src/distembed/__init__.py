"""Machine learning when each example is a distribution: a bag of points.

Bags go in; out come vectors whose dot products are kernels on Jensen-Shannon, Hellinger, total-variation and other
distances between the underlying densities, in time linear in the data. Any linear model does the rest.

What the rooms of the package offer in their ``__all__`` is found here too. They are imported when they are first used,
so ``import distembed`` and the command line start at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# The order of the stages: a room imports only from rooms before it, and a test says so.
ROOMS = (
    "compute", "bags", "sizes", "datasets", "scaling", "density", "distances", "basis", "features", "divergences",
    "embeddings", "kernels", "models", "files", "plot", "learners", "two_sample", "exploration", "theory",
    "single_cells", "estimator_checks", "tables", "cluster", "report", "cli",
)  # fmt: skip
_OPEN = (
    "bags",
    "scaling",
    "density",
    "distances",
    "basis",
    "features",
    "embeddings",
    "models",
    "files",
    "learners",
    "exploration",
    "single_cells",
)
_MODULES = tuple(room for room in ROOMS if room not in ("compute", "bags", "cli", "files", "models"))

if TYPE_CHECKING:
    from . import (  # noqa: F401
        cluster,
        datasets,
        distances,
        divergences,
        embeddings,
        estimator_checks,
        exploration,
        kernels,
        learners,
        plot,
        report,
        single_cells,
        sizes,
        tables,
        theory,
        two_sample,
    )
    from .bags import *  # noqa: F403
    from .basis import *  # noqa: F403
    from .density import *  # noqa: F403
    from .distances import *  # noqa: F403
    from .embeddings import *  # noqa: F403
    from .exploration import *  # noqa: F403
    from .features import *  # noqa: F403
    from .files import *  # noqa: F403
    from .learners import *  # noqa: F403
    from .models import *  # noqa: F403
    from .scaling import *  # noqa: F403
    from .single_cells import *  # noqa: F403


def __getattr__(name: str) -> Any:
    if name == "__all__":
        value: Any = sorted({*_MODULES, *(name for room in _OPEN for name in _room(room).__all__)})
    elif name in ROOMS:
        return _room(name)
    elif name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    else:
        rooms = (_room(room) for room in _OPEN)
        found = next((room for room in rooms if name in room.__all__), None)
        if found is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(found, name)
    globals()[name] = value
    return value


def _room(name: str) -> Any:
    return import_module(f".{name}", __name__)


def __dir__() -> list[str]:
    return [*__getattr__("__all__"), "__version__"]
