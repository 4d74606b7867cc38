"""Results for single cells: donors as AnnData, and values of cells in the ``obs`` that the cells came from.

:meth:`distembed.Bags.from_anndata` reads cells as bags, one for each donor. What models and embeddings find goes back
by :func:`donors_to_anndata`, one row per donor, and by :func:`cells_to_obs`, one value per cell, so scanpy and its
relatives go on from there. For patpy, ``distembed.single_cells.DonorRepresentation`` is a sample representation as its
own are. It is made when it is first asked for, from :class:`PatpyMethods` and patpy's base class.

The functions cost what they write, O(n_donors) and O(n_cells), besides the predictions that are asked for.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bags import Bags, as_bags
from .bags.flat import few
from .bags.ids import bag_keys, canonical_text
from .bags.labels import points_of_rows
from .compute.atomic_files import write_whole
from .compute.checks import pandas_for
from .exploration import distances_between
from .exploration.rows import RANKS, make_rows
from .learners.covariates import read_table
from .learners.explain import Explanation
from .learners.prediction_table import columns_of, inner

__all__ = ["cells_to_obs", "donors_to_anndata"]


def donors_to_anndata(
    bags: Any,
    *,
    covariates: Any = None,
    predictions: Any = None,
    coverage: float | None = 0.9,
    features: Any = None,
    map: Any = None,  # noqa: A002
    distances: Any = None,
    key_added: str | None = None,
) -> Any:
    """Return donors as AnnData, one row per bag.

    Parameters
    ----------
    bags : Bags or anything that :func:`distembed.as_bags` reads
        Their ids become ``obs_names``, as text, and ``obs["n_points"]`` is the number of cells of each.
    covariates : table of n_bags rows, optional
        Columns of ``obs``, such as the table that :meth:`distembed.Bags.from_anndata` returns: in the order of the
        bags, or a data frame of pandas whose index is their ids. A learner that was fitted with covariates gets them.
    predictions : fitted learner, table or array of n_bags rows, optional
        Predictions for the bags. A learner adds ``prediction``, of classes ``probability_...``, and, where it held bags
        out in its fit, intervals ``low`` and ``high``, or the ``set`` of classes, names with ``|`` between them.
    coverage : float or None, default=0.9
        The probability with which intervals and sets hold the truth; None: without them.
    features : fitted transformer or learner of one embedding, table or array of shape (n_bags, n_features), optional
        What becomes ``X``; names of features become ``var_names``.
    map : Exploration, array of shape (n_bags, n_axes), or mapping of key to array, optional
        What becomes ``obsm["X_map"]``. An :class:`~distembed.exploration.Exploration` of these bags also adds ``group``
        and ``oddness_pvalue`` to ``obs``. A mapping has one entry of ``obsm`` for each key.
    distances : array of shape (n_bags, n_bags), str or embedding, optional
        What becomes ``obsp["distances"]``: a matrix, or what :func:`distembed.distances_between` takes, such as
        "ranks".
    key_added : str, optional
        As in scanpy: names get this and a ``_`` before them, and ``obsm`` has ``X_{key_added}_map``. Names of
        covariates stay.

    Returns
    -------
    AnnData of shape (n_bags, n_features)
        ``write_h5ad`` keeps it. Needs ``pip install 'distembed[anndata]'``.

    Examples
    --------
    >>> import distembed as de
    >>> bags, y, table = de.Bags.from_anndata(  # doctest: +SKIP
    ...     adata, bag="donor", rep="X_pca", label="status", covariates=["age"]
    ... )
    >>> model = de.DistributionClassifier().fit(bags, y, covariates=table)  # doctest: +SKIP
    >>> found = de.donors_to_anndata(bags, covariates=table, predictions=model, map=de.explore(bags))  # doctest: +SKIP
    >>> found.write_h5ad("donors.h5ad")  # doctest: +SKIP
    """
    anndata = _anndata("donors_to_anndata")
    pandas = pandas_for("donors_to_anndata")
    bags = as_bags(bags)
    before = "" if key_added is None else f"{key_added}_"
    columns: dict[str, Any] = {"n_points": bags.sizes}
    columns |= {} if covariates is None else _table(covariates, bags, pandas)
    added: dict[str, Any] = {}
    if predictions is not None:
        added |= _predictions(predictions, bags, covariates, coverage, pandas)
    obsm: dict[str, Any] = {}
    if isinstance(map, Mapping):
        obsm |= {str(key): _rows(values, bags, f"map[{key!r}]") for key, values in map.items()}
    elif map is not None:
        if hasattr(map, "groups") and hasattr(map, "odd"):
            added |= {"group": _labels(map.groups.labels, pandas), "oddness_pvalue": map.odd.pvalues}
            map = map.map.xy  # noqa: A001
        obsm[f"X_{before}map"] = _rows(map, bags, "map")
    columns |= _with_names(added, before, columns)
    names, values = (None, None) if features is None else _features(features, bags)
    obsp = {} if distances is None else {f"{before}distances": _distances(distances, bags)}
    obs = pandas.DataFrame(columns, index=pandas.Index(canonical_text(bags.ids).astype(object)))
    var = None if names is None else pandas.DataFrame(index=pandas.Index(names, dtype=object))
    return anndata.AnnData(X=values, obs=obs, var=var, obsm=obsm, obsp=obsp)


def cells_to_obs(adata: Any, values: Any, bag: str | list[str], *, bags: Any = None, key_added: str = "effect") -> None:
    """Write values of cells into the ``obs`` of the AnnData that bags were made from.

    Parameters
    ----------
    adata : AnnData
        Written to: each donor that is explained has all cells, in the order in which the bags were read. Cells of other
        donors have missing values.
    values : Explanation, or array of shape (n_points,)
        What ``model.explain(bags)`` returns: the value of each cell, the change of the prediction with its weight,
        goes to ``obs[key_added]``, and the rule of the region that it lies in to ``obs[f"{key_added}_region"]``. Or
        numbers or text for the points of `bags`.
    bag : str or list of str
        As in :meth:`distembed.Bags.from_anndata`.
    bags : Bags, optional
        Those that an array of values is about.
    key_added : str, default="effect"
        Name of the column.

    Examples
    --------
    >>> import distembed as de
    >>> de.cells_to_obs(adata, model.explain(bags), bag="donor")  # doctest: +SKIP
    >>> scanpy.pl.umap(adata, color=["effect", "effect_region"])  # doctest: +SKIP
    """
    pandas = pandas_for("cells_to_obs")
    if not isinstance(values, Explanation) and bags is None:
        raise TypeError(
            "cells_to_obs: bags must be given with an array of values, got None; pass the bags of the values"
        )
    about = values.bags if isinstance(values, Explanation) else as_bags(bags)
    rows = points_of_rows(about, bag_keys(adata.obs.__getitem__, bag), "cells_to_obs")
    if not isinstance(values, Explanation):
        array = np.asarray(values)
        if array.shape != (about.n_points,):
            raise ValueError(
                f"cells_to_obs: values must have shape ({about.n_points},), one per point of the bags, got shape "
                f"{array.shape}"
            )
        adata.obs[key_added] = _spread(array, rows, pandas)
        return
    adata.obs[key_added] = _spread(values.points, rows, pandas)
    owner = np.repeat(np.arange(about.n_bags), about.sizes)
    names = [
        None if k < 0 else values.regions[i][k].rule
        for i, k in zip(owner.tolist(), values.point_regions.tolist(), strict=True)
    ]
    adata.obs[f"{key_added}_region"] = _spread(np.array(names, object), rows, pandas)


def write_donors(path: Any, ids: Any, columns: Mapping[str, Any], as_features: bool = False) -> None:
    """Write columns with one value per donor to an .h5ad file, as ``obs``, or as the features in ``X``; whole or not.

    Parameters
    ----------
    path : path
        Of the file.
    ids : array-like of shape (n_bags,)
        Of the donors.
    columns : mapping of str to array-like of shape (n_bags,)
        The columns.
    as_features : bool, default=False
        Whether they become ``X``.

    Examples
    --------
    >>> write_donors("donors.h5ad", ["a", "b"], {"prediction": [0.5, 1.0]})  # doctest: +SKIP
    """
    anndata = _anndata("writing .h5ad files")
    pandas = pandas_for("writing .h5ad files")
    index = pandas.Index(canonical_text(np.asarray(ids)).astype(object))
    if as_features:
        var = pandas.DataFrame(index=pandas.Index([str(name) for name in columns], dtype=object))
        found = anndata.AnnData(np.column_stack([*columns.values()]), obs=pandas.DataFrame(index=index), var=var)
    else:
        found = anndata.AnnData(obs=pandas.DataFrame(dict(columns), index=index))
    write_h5ad(found, path)


def write_h5ad(found: Any, path: Any) -> None:
    """Write an AnnData object, whole or not at all: it is written elsewhere and then moved.

    Examples
    --------
    >>> write_h5ad(adata, "cells.h5ad")  # doctest: +SKIP
    """
    with tempfile.TemporaryDirectory() as folder, write_whole(path) as file:
        found.write_h5ad(Path(folder) / "written.h5ad")
        with (Path(folder) / "written.h5ad").open("rb") as written:
            shutil.copyfileobj(written, file)


def _spread(values: NDArray[Any], rows: NDArray[np.int64], pandas: Any) -> Any:
    """Return values of points for the rows of a table; text as categories, missing where a row has no point."""
    if values.dtype.kind in "biuf":
        found = np.full(len(rows), np.nan)
        found[rows >= 0] = values[rows[rows >= 0]]
        return found
    words = np.full(len(rows), None, object)
    words[rows >= 0] = values[rows[rows >= 0]]
    return pandas.Categorical(words)


def _anndata(owner: str) -> Any:
    try:
        return import_module("anndata")
    except ImportError as error:
        raise ImportError(f"{owner} needs anndata: pip install 'distembed[anndata]'") from error


def _table(table: Any, bags: Bags, pandas: Any) -> dict[str, Any]:
    """Return the columns of a table in the order of the bags; missing values are NaN or None."""
    found = {}
    for name, column in read_table(table, bags.ids).items():
        values = column.values.astype(object) if column.missing.any() else column.values
        if column.missing.any():
            number = column.kind in ("number", "")
            values[column.missing] = np.nan if number else None
            values = values.astype(float) if number else values
        found[name] = pandas.Categorical(values) if column.labelled else values
    return found


def _predictions(source: Any, bags: Bags, covariates: Any, coverage: float | None, pandas: Any) -> dict[str, Any]:
    if hasattr(source, "predict"):
        needs = getattr(inner(source), "encoder_", None) is not None
        return dict(columns_of(source, bags, coverage=coverage, covariates=covariates if needs else None))
    if isinstance(source, np.ndarray | list) and np.ndim(source) == 1:
        return {"prediction": _rows(source, bags, "predictions")}
    return _table(source, bags, pandas)


def _labels(codes: NDArray[Any], pandas: Any) -> Any:
    """Return groups as categories, for colours; those of bags between groups are missing."""
    return pandas.Categorical([None if code < 0 else str(code) for code in codes.tolist()])


def _with_names(added: dict[str, Any], before: str, taken: Mapping[str, Any]) -> dict[str, Any]:
    """Return columns under their names, which must be free."""
    both = [name for name in added if f"{before}{name}" in taken]
    if both:
        raise ValueError(f"covariates have columns that are added too: {few(both)}; rename them, or pass key_added")
    return {f"{before}{name}": values for name, values in added.items()}


def _features(source: Any, bags: Bags) -> tuple[list[str], Any]:
    """Return names and values of features."""
    names: Any = getattr(source, "columns", None)
    values = source
    transform = getattr(source, "transform_features", None) or getattr(source, "transform", None)
    if transform is not None and not hasattr(source, "shape"):
        values = transform(bags)
        named = getattr(source, "get_feature_names_out", None)
        names = None if named is None else named()
    values = _rows(values, bags, "features")
    known = [] if names is None else [str(name) for name in names]
    fits = len(known) == values.shape[1] == len(set(known))
    return known if fits else [f"feature_{j}" for j in range(values.shape[1])], values


def _distances(source: Any, bags: Bags) -> Any:
    if isinstance(source, str) or hasattr(source, "fit_transform"):
        return np.asarray(distances_between(bags, divergence=source))
    found = _rows(source, bags, "distances")
    if found.shape != (bags.n_bags, bags.n_bags):
        raise ValueError(
            f"distances must have shape {(bags.n_bags, bags.n_bags)}, one per pair of bags, got {found.shape}"
        )
    return found


def _rows(values: Any, bags: Bags, name: str) -> Any:
    """Return an array with one row per bag."""
    found = values if hasattr(values, "toarray") else np.asarray(values)
    if not found.ndim or found.shape[0] != bags.n_bags:
        raise ValueError(f"{name} must have one row per bag, {bags.n_bags:,}, got shape {found.shape}")
    return found


# --------------------------------------------------------------------------------------------------------------
# patpy
# --------------------------------------------------------------------------------------------------------------


class PatpyMethods:
    """What a sample representation of patpy consists of, for an embedding of distembed.

    ``distembed.single_cells.DonorRepresentation`` is this before patpy's ``SampleRepresentationMethod``, whose measures
    and pictures work on it: ``evaluate_representation``, ``plot_embedding``, ``to_adata`` and others.

    Parameters
    ----------
    sample_key, cell_group_key : str
        Columns of ``obs``: the donor, and the type of a cell, or None. Types count with `with_types`.
    layer : str, default="X_pca"
        A key of ``obsm`` or of ``layers``, or "X".
    seed : int, default=67
        Where the embedding draws anything.
    embedding : str or embedding, default="ranks"
        As in :func:`distembed.explore`: ranks, an embedding of the catalogue by name, behind the scaling that suits it,
        or an object that takes bags as they are read.
    with_types : bool, default=False
        Whether types of cells are coordinates too.

    Attributes
    ----------
    sample_representation : DataFrame of shape (n_samples, n_features)
        Features, indexed by sample in the order of ``samples``.

    Examples
    --------
    >>> from distembed.single_cells import DonorRepresentation  # doctest: +SKIP
    >>> method = DonorRepresentation("donor", "cell_type", layer="X_pca")  # doctest: +SKIP
    >>> method.prepare_anndata(adata)  # doctest: +SKIP
    >>> method.evaluate_representation("status", method="knn", task="classification")["score"]  # doctest: +SKIP
    """

    DISTANCES_UNS_KEY = "X_distembed_distances"

    def __init__(
        self,
        sample_key: str,
        cell_group_key: str | None = None,
        layer: str | None = "X_pca",
        seed: int = 67,
        embedding: Any = RANKS,
        with_types: bool = False,
    ) -> None:
        parent: Any = super()
        parent.__init__(sample_key=sample_key, cell_group_key=cell_group_key, layer=layer, seed=seed)
        self.sample_key = sample_key
        self.cell_group_key = cell_group_key
        self.layer = layer
        self.seed = seed
        self.embedding = embedding
        self.with_types = with_types

    def prepare_anndata(self, adata: Any) -> None:
        """Take an AnnData object, whose samples and types are looked up."""
        parent: Any = super()
        parent.prepare_anndata(adata)
        self._fitted = True

    def calculate_distance_matrix(self, force: bool = False) -> Any:
        """Return Euclidean distances between features of samples, which are kept in ``adata.uns``.

        Parameters
        ----------
        force : bool, default=False
            Compute them again where they are kept already.

        Returns
        -------
        ndarray of shape (n_samples, n_samples)
            In the order of ``samples``.
        """
        from scipy.spatial.distance import pdist, squareform

        parent: Any = super()
        self_: Any = self  # with what patpy's class has
        known = parent.calculate_distance_matrix(force=force)
        if known is not None and self_.sample_representation is not None:
            return known
        adata = self_.adata
        in_x = self.layer in (None, "X")
        where: dict[str, Any] = {} if in_x else {"rep" if self.layer in adata.obsm else "layer": self.layer}
        types = [self.cell_group_key] if self.with_types else None
        bags = Bags.from_anndata(adata, self.sample_key, categorical=types, **where)
        bags = bags.select(list(self_.samples))
        maker = make_rows("DonorRepresentation", self.embedding)
        if hasattr(maker, "set_params"):
            drawn = [name for name in maker.get_params() if name.split("__")[-1] == "random_state"]
            maker.set_params(**dict.fromkeys(drawn, self.seed))
        rows = np.asarray(maker.fit(bags).transform(bags), np.float64)
        self.sample_representation = pandas_for("DonorRepresentation").DataFrame(rows, index=list(self_.samples))
        distances = squareform(pdist(rows))
        adata.uns[self.DISTANCES_UNS_KEY] = distances
        return distances


def __getattr__(name: str) -> Any:
    """Make the class for patpy when it is first asked for: importing patpy takes seconds."""
    if name != "DonorRepresentation":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        base = import_module("patpy.tl").SampleRepresentationMethod
    except ImportError as error:
        raise ImportError("DonorRepresentation is a sample representation of patpy: pip install patpy") from error
    made = type(name, (PatpyMethods, base), {"__module__": __name__, "__doc__": PatpyMethods.__doc__})
    globals()[name] = made
    return made
