"""The container of bags: what bags are, what they are made from, selected by, written to and shown as.

:class:`Bags` is the container for users, and :class:`~distembed.bags.flat.FlatBags` below it the flat arrays, their
selection, and what computations need of them. Bags are made of arrays (here, and by :func:`as_bags` and
:func:`concat`), or by a reader for each kind of source, which returns `Parts`: ``ragged.py`` has sequences and ragged
arrays, ``frames.py`` tables, ``anndata.py`` and ``fcs.py`` these files. ``checks.py`` is the only door: all that comes
from outside is validated, in one pass over the points. Files are NumPy archives without pickle.
"""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..compute.atomic_files import write_whole
from ..compute.checks import check_choice
from ..compute.npz import npz_headers
from . import anndata, checks, fcs, frames, missing, ragged
from .categories import check_categories, common
from .checks import validate
from .flat import FlatBags, Parts, few, no_bags
from .ids import align_targets, as_ids, positions_of, refuse_repeated

# version 1 knew no categories, version 2 no empty bags; files without them are still written as such
_FORMAT = "distembed.Bags"
_VERSION = 3
# What np.load and the zip archive below it raise for bytes that are no archive, or a damaged one.
_UNREADABLE = (ValueError, TypeError, EOFError, OSError, RuntimeError, KeyError, zipfile.BadZipFile, zlib.error)
MOST_COLUMNS = 20  # that notebooks show
_MOST_POINTS = 100_000  # that are looked at for a picture
_BARS = 24


class Bags(FlatBags):
    """Immutable, ragged collection of bags of points, flat in memory.

    Parameters
    ----------
    points : array-like of shape (n_points, n_dims)
        The points of all bags, bag after bag; finite. float32 and float64 are kept, float16 becomes float32;
        integers, booleans and long doubles become float64; text, objects and complex numbers are refused.
    offsets : array-like of int of shape (n_bags + 1,)
        Bag i is ``points[offsets[i]:offsets[i + 1]]``: from 0 to n_points, strictly increasing, no bag empty unless
        `empty` allows it.
    weights : array-like of shape (n_points,), optional
        One number per point, in the dtype of `points`: finite, nonnegative, of positive sum in every bag.
    ids : array-like of shape (n_bags,), optional
        One unique id a bag; text becomes a 'U' array, dates NumPy's, and times with a zone text in UTC. Without ids,
        bags are numbered from zero.
    columns : sequence of str of length n_dims, optional
        The names of the coordinates.
    categories : mapping of column to sequence of labels, optional
        The categorical columns, by position or name, and their labels (text, numbers or booleans, distinct). Such a
        column holds codes: 0 stands for its first label. `from_frame` makes codes of labels.
    empty : {"error", "allow"}, default="error"
        Whether bags may have no points: a customer without events, a plot without animals. Learners predict such bags
        from covariates, or from the training bags that were empty, see :mod:`distembed.learners.empty`; everything
        else refuses them.

    Notes
    -----
    C-contiguous float arrays are not copied: a `Bags` holds a read-only view, so writing into the original
    later changes the bags. The checks cost one pass over the points. Two `Bags` are equal if points, dtype,
    offsets, weights, ids, columns and categories are; absent ids count as 0, 1, ... and absent names as x0, x1, ...

    ``bags[i]`` is the read-only (n_i, n_dims) array of one bag. Slices, boolean masks and integer positions
    (repeats and negatives allowed) give `Bags`; ids repeat with their bags. Consecutive bags share memory
    with the original, all else is one gather, O(points selected). An empty selection is an error.

    Examples
    --------
    >>> import numpy as np
    >>> from distembed.bags import Bags
    >>> bags = Bags(np.arange(10.0).reshape(5, 2), offsets=[0, 2, 5], ids=["a", "b"])
    >>> bags
    Bags(n_bags=2, n_points=5, n_dims=2, sizes=2..3, dtype=float64, ids='a'..'b')
    >>> bags[0]
    array([[0., 1.],
           [2., 3.]])
    >>> bags[[1]].ids.tolist(), bags[bags.sizes > 2].n_points
    (['b'], 3)

    A bag of people, each with an age and a sex:

    >>> Bags([[31, 0], [64, 1], [47, 1]], [0, 3], columns=["age", "sex"], categories={"sex": ["f", "m"]})
    Bags(n_bags=1, n_points=3, n_dims=2, sizes=3, dtype=float64, columns=age, sex, categorical=sex (2))
    """

    __slots__ = ()

    def __init__(
        self,
        points: ArrayLike,
        offsets: ArrayLike,
        weights: Any = None,
        ids: Any = None,
        columns: Any = None,
        categories: Any = None,
        empty: str = "error",
    ) -> None:
        parts = checks.validate(points, offsets, weights, ids, columns, empty)
        if categories is not None:
            parts = parts._replace(categories=check_categories(categories, parts))
        object.__setattr__(self, "_parts", parts.readonly())

    @classmethod
    def from_arrays(
        cls,
        arrays: Iterable[Any],
        weights: Iterable[Any] | None = None,
        ids: Any = None,
        columns: Any = None,
        categories: Any = None,
        empty: str = "error",
    ) -> Self:
        """Return bags from a sequence with one array a bag.

        Parameters
        ----------
        arrays : iterable of array-likes of shape (n_i, n_dims) or (n_i,)
            1-D arrays are 1-D points. The result is float32 only if every array is. Data frames are put in one
            order of columns by name, that of `columns` or else of the first of them; columns whose type is categorical
            hold categories.
        weights, ids, columns, categories : optional
            As in `Bags`, but weights bag by bag: an iterable of array-likes of shape (n_i,).
        empty : {"error", "allow"}, default="error"
            As in `Bags`: whether an array may be empty, such as ``[]``.

        Returns
        -------
        Bags
            Copied into one flat array, O(n_points).

        Examples
        --------
        >>> from distembed.bags import Bags
        >>> Bags.from_arrays([[1.0, 2.0, 3.0], [4.0]]).sizes
        array([3, 1])
        >>> Bags.from_arrays([[1.0, 2.0], []], empty="allow")
        Bags(n_bags=2, n_points=2, n_dims=1, sizes=0..2, empty=1, dtype=float64)
        """
        check_choice("Bags.from_arrays", "empty", empty, checks.EMPTY_CHOICES)
        arrays = list(arrays)
        if any(isinstance(array, Bags) for array in arrays):
            raise TypeError("arrays must hold one array a bag, got Bags; to join several Bags use concat")
        ids = None if ids is None else as_ids(ids)
        points, offsets, columns, categories = ragged.stack(arrays, ids, columns, categories, empty)
        flat = None if weights is None else ragged.stack_weights(list(weights), np.diff(offsets), ids)
        return cls(points, offsets, flat, ids, columns, categories, empty)

    @overload
    @classmethod
    def from_frame(
        cls,
        df: Any,
        bag: Any,
        columns: Any = ...,
        weights: str | None = ...,
        categorical: Any = ...,
        nan: Any = ...,
        *,
        label: None = ...,
        empty: str = ...,
    ) -> Self: ...

    @overload
    @classmethod
    def from_frame(
        cls,
        df: Any,
        bag: Any,
        columns: Any = ...,
        weights: str | None = ...,
        categorical: Any = ...,
        nan: Any = ...,
        *,
        label: str,
        empty: str = ...,
    ) -> tuple[Self, NDArray[Any]]: ...

    @classmethod
    def from_frame(
        cls,
        df: Any,
        bag: str | Sequence[str],
        columns: Sequence[str] | str | None = None,
        weights: str | None = None,
        categorical: Sequence[str] | Mapping[str, Any] | str | None = None,
        nan: str | Mapping[str, float] = "error",
        *,
        label: str | None = None,
        empty: str = "error",
    ) -> Self | tuple[Self, NDArray[Any]]:
        """Return bags from a long table with one row per point.

        Parameters
        ----------
        df : pandas or polars DataFrame, pyarrow Table, or mapping of names to arrays
            Rows in any order.
        bag : str or list of str
            The column with the id of each row's bag; its values become the ids. Values of several columns are
            joined by /, such as ``2013-01-01/JFK`` for ``bag=["date", "origin"]``: numbers and dates as text, the
            latter without the time where it is midnight, and a backslash before a / inside a value. A Series with
            these columns as its index fits such bags.
        columns, weights : sequence of str and str, optional
            The coordinates and the column of point weights. By default every other column is a coordinate, in order,
            except text, dates, constants, numbers of rows and an index without a name: a warning names those that are
            left out, and why. A column of numbers with a stray word in it is an error.
        categorical : sequence of str, or mapping of str to sequence of labels, optional
            Those of `columns` that hold labels: text, whole numbers, booleans. Columns whose type is categorical, also
            of numbers, are always among them; by default one with a single label in each bag, or with another in most
            rows, is left out. Labels are sorted, or as
            a pandas Categorical, polars Enum or ordered pyarrow dictionary has them. A mapping fixes them: new bags
            take those of old ones by ``categorical=old.category_labels``. A label that is not among these becomes
            "other", which is added to them, with a warning; to a model it is a label without any training point, unless
            the training bags had an "other".
        nan : {"error", "drop", "indicator"}, or mapping of column to number
            How to handle missing values (NaN, None, null) in `columns`. "error" counts them by column. "drop" leaves
            out every point that lacks a value; a bag that loses all its points is an error. "indicator" fills a value
            in by the mean of all present ones of its column, and adds, after all columns, a column ``name missing`` of
            0 and 1 for every column that lacks values; a missing label becomes the label "missing". New bags take the
            columns and fills of old ones by ``nan=old.missing_fills``, or by ``nan=model.missing_fills_``.
        label : str, optional
            A column with one value per bag, to be returned too, which is then no coordinate; one that varies in a bag,
            or lacks values, is an error.
        empty : {"error", "allow"}, default="error"
            Whether a bag may lose all its points by ``nan="drop"``, as the rows do that a left join has for bags
            without points. Bags that the table does not name are added by ``bags.select(ids, empty="allow")``.

        Returns
        -------
        Bags, or (Bags, ndarray of shape (n_bags,)) with `label`
            In order of first appearance, rows of a bag in the order of the table. Rows that stand grouped are
            not moved; then a single column, or a C-ordered block of a pandas frame, is not even copied.

        Examples
        --------
        >>> from distembed.bags import Bags
        >>> bags = Bags.from_frame({"x": [1, 2, 3], "cluster": ["b", "a", "b"]}, bag="cluster")
        >>> bags.ids.tolist(), bags[0].tolist()
        (['b', 'a'], [[1.0], [3.0]])

        >>> cells = {"patient": ["b", "a", "b"], "size": [1.0, 2.0, 3.0], "status": ["ill", "well", "ill"]}
        >>> bags, y = Bags.from_frame(cells, bag="patient", label="status")
        >>> bags.columns, y.tolist()
        (('size',), ['ill', 'well'])

        >>> flights = {"day": [1, 1, 2], "origin": ["JFK", "LGA", "JFK"], "delay": [5.0, -1.0, 30.0]}
        >>> Bags.from_frame(flights, bag=["day", "origin"]).ids.tolist()
        ['1/JFK', '1/LGA', '2/JFK']

        >>> people = {"age": [31, 64, 47], "sex": ["f", "m", "m"], "town": ["A", "A", "B"]}
        >>> train = Bags.from_frame(people, bag="town", categorical=["sex"])
        >>> train[0].tolist(), train.category_labels
        ([[31.0, 0.0], [64.0, 1.0]], {'sex': ('f', 'm')})
        >>> new = {"age": [25], "sex": ["m"], "town": ["C"]}
        >>> Bags.from_frame(new, bag="town", categorical=train.category_labels)[0].tolist()
        [[25.0, 1.0]]

        >>> gaps = {"age": [31, None, 47], "town": ["A", "A", "B"]}
        >>> train = Bags.from_frame(gaps, bag="town", nan="indicator")
        >>> train.columns, train[0].tolist()
        (('age', 'age missing'), [[31.0, 0.0], [39.0, 1.0]])
        >>> Bags.from_frame({"age": [25], "town": ["C"]}, bag="town", nan=train.missing_fills)[0].tolist()
        [[25.0, 0.0]]
        """
        check_choice("Bags.from_frame", "empty", empty, checks.EMPTY_CHOICES)
        bags = cls(*frames.frame_parts(df, bag, columns, weights, categorical, nan, label, empty), empty)
        return bags if label is None else (bags, frames.frame_labels(df, bag, label))

    @overload
    @classmethod
    def from_anndata(
        cls,
        adata: Any,
        bag: Any = ...,
        rep: str | None = ...,
        *,
        layer: str | None = ...,
        columns: Any = ...,
        covariates: None = ...,
        categorical: Any = ...,
        label: None = ...,
        nan: Any = ...,
        groupby: Any = ...,
        use_rep: str | None = ...,
    ) -> Self: ...

    @overload
    @classmethod
    def from_anndata(
        cls,
        adata: Any,
        bag: Any = ...,
        rep: str | None = ...,
        *,
        layer: str | None = ...,
        columns: Any = ...,
        covariates: None = ...,
        categorical: Any = ...,
        label: str,
        nan: Any = ...,
        groupby: Any = ...,
        use_rep: str | None = ...,
    ) -> tuple[Self, NDArray[Any]]: ...

    @overload
    @classmethod
    def from_anndata(
        cls,
        adata: Any,
        bag: Any = ...,
        rep: str | None = ...,
        *,
        layer: str | None = ...,
        columns: Any = ...,
        covariates: Sequence[str] | str,
        categorical: Any = ...,
        label: str | None = ...,
        nan: Any = ...,
        groupby: Any = ...,
        use_rep: str | None = ...,
    ) -> tuple[Self, NDArray[Any] | None, Any]: ...

    @classmethod
    def from_anndata(
        cls,
        adata: Any,
        bag: str | Sequence[str] | None = None,
        rep: str | None = None,
        *,
        layer: str | None = None,
        columns: Sequence[str] | str | None = None,
        covariates: Sequence[str] | str | None = None,
        categorical: Sequence[str] | Mapping[str, Any] | str | None = None,
        label: str | None = None,
        nan: str | Mapping[str, float] = "error",
        groupby: str | Sequence[str] | None = None,
        use_rep: str | None = None,
    ) -> Any:
        """Return bags from AnnData, one cell, a row of ``X``, per point, and what belongs to their donors.

        Parameters
        ----------
        adata : AnnData, or path of an .h5ad file
            Any object with ``X``, ``obs`` and ``obsm``, backed or in memory. A file is read by h5py alone
            (``distembed[h5ad]``), block by block; matrices may be sparse.
        bag : str or list of str
            The column of ``obs`` with the id of each row's bag, such as its donor; its values become the ids.
            Several, such as donor and sample, are joined as in `from_frame`.
        rep : str, optional
            A key of ``obsm``, such as "X_pca", whose columns are the coordinates X_pca_0, X_pca_1, ...; by default
            those of ``X``, called as the variables are. Points are dense: of thousands of genes, choose some or a rep.
        layer : str, optional
            A key of ``layers``, whose values are taken in place of those of ``X``.
        columns : sequence of str, optional
            Some of these columns; none of them, ``columns=[]``, where those of `categorical` are enough.
        covariates : sequence of str, optional
            Columns of ``obs`` with one value per bag, such as age and sex, to be returned as a table; one that varies
            in a bag is an error that names it. A bag may lack a value.
        categorical : sequence of str, or mapping of str to sequence of labels, optional
            Columns of ``obs`` that are coordinates too, such as the type of each cell; they stand after the others.
            Labels are in the order of the categories, or sorted. A mapping fixes them, as in `from_frame`: new bags
            take those of old ones by ``categorical=old.category_labels``.
        label : str, optional
            A column of ``obs`` with one value per bag, to be returned too; one that varies in a bag is an error.
        nan : {"error", "drop", "indicator"}, or mapping of column to number
            Handling of missing values in points, as in `from_frame`.
        groupby, use_rep : optional
            Other names of `bag` and `rep`, those that scanpy uses.

        Returns
        -------
        Bags
            In the order of ``adata.obs.groupby(bag)``: that of the categories of the column, or else sorted; cells of a
            bag in the order of ``obs``. Memory is that of the points and a block of 4 million values.
        y : ndarray of shape (n_bags,), with `label` or `covariates`
            The labels, in the order of the bags; None without `label`.
        covariates : DataFrame of shape (n_bags, n_covariates), with `covariates`
            Indexed by the ids of the bags, as the argument `covariates` of learners takes it. Needs pandas.

        See Also
        --------
        distembed.donors_to_anndata : Features, predictions and maps of donors as AnnData.
        distembed.cells_to_obs : Values of cells, such as those of an explanation, as columns of ``obs``.

        Examples
        --------
        >>> from types import SimpleNamespace
        >>> import numpy as np
        >>> from distembed.bags import Bags
        >>> obs = {"donor": ["b", "a", "b"], "status": ["ill", "well", "ill"], "type": ["T", "B", "B"]}
        >>> cells = SimpleNamespace(X=np.eye(3), obs=obs, obsm={"X_pca": np.ones((3, 2))}, var_names=["g", "h", "k"])
        >>> bags, y = Bags.from_anndata(cells, bag="donor", label="status")
        >>> bags
        Bags(n_bags=2, n_points=3, n_dims=3, sizes=1..2, dtype=float64, ids='a'..'b', columns=g, h, k)
        >>> y.tolist(), Bags.from_anndata(cells, bag="donor", rep="X_pca").columns
        (['well', 'ill'], ('X_pca_0', 'X_pca_1'))
        >>> bags, y, table = Bags.from_anndata(cells, "donor", "X_pca", categorical=["type"], covariates=["status"])
        >>> bags[1].tolist(), bags.category_labels, y, table["status"].to_dict()
        ([[1.0, 1.0, 1.0], [1.0, 1.0, 0.0]], {'type': ('B', 'T')}, None, {'a': 'well', 'b': 'ill'})
        """
        of_bag, rep, names = anndata.check_names(bag, groupby, rep, use_rep, label, covariates, categorical)
        bags = cls(*anndata.anndata_parts(adata, of_bag, rep, layer, columns, categorical, nan))
        y = None if label is None else anndata.bag_labels(adata, of_bag, label, bags.ids)
        if covariates is not None:
            return bags, y, anndata.bag_covariates(adata, of_bag, names, bags.ids)
        return bags if label is None else (bags, y)

    @classmethod
    def from_fcs(
        cls,
        source: Any,
        channels: Sequence[str] | str | None = None,
        cofactor: float | Mapping[str, float] | None = None,
        nan: str | Mapping[str, float] = "error",
        *,
        compensate: bool | str = "auto",
    ) -> Self:
        """Return bags from FCS files of flow cytometry, one bag per file.

        Parameters
        ----------
        source : path, or sequence of paths
            A folder, whose .fcs files are read in natural order (p2 before p10) and whose other files are ignored, or
            files in the order given. Needs flowio: ``distembed[fcs]``.
        channels : sequence of str, optional
            The coordinates, in this order, by their names $PnS or, where a channel has none of its own, $PnN. By
            default those that all files have, in the order of the first; a warning names the others. Files may have
            them in any order; one that lacks a channel that is named is an error.
        cofactor : float, or mapping of channel to float, optional
            Take asinh(x / cofactor) of every value x, or of those of some channels; 5 is usual for mass cytometry, 150
            for fluorescence, and scatter stays linear. By default values are linear: gains and logarithmic amplifiers
            that the files state are undone.
        nan : {"error", "drop", "indicator"}, or mapping of column to number
            How to handle missing values in points, as in `from_frame`.
        compensate : {"auto", True, False}, default="auto"
            Whether to undo the spill-over of dyes by the matrix $SPILLOVER (or SPILL) of each file, before all else.
            "auto": where a file has one, of channels that it has; files that were compensated and renamed have not.
            With True a file without it is an error.

        Returns
        -------
        Bags
            Their ids are the names of the files, with suffix.

        Examples
        --------
        >>> import tempfile
        >>> import flowio
        >>> from distembed.bags import Bags
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name, channels in (("p10.fcs", ["CD4", "CD8"]), ("p2.fcs", ["CD8", "CD4"])):
        ...         with open(f"{folder}/{name}", "wb") as file:
        ...             _ = flowio.create_fcs(file, [1.0, 2.0, 3.0, 4.0], channels)
        ...     bags = Bags.from_fcs(folder)
        >>> bags.ids.tolist(), bags.columns, bags[1].tolist()
        (['p2.fcs', 'p10.fcs'], ('CD8', 'CD4'), [[2.0, 1.0], [4.0, 3.0]])
        """
        return cls(*fcs.fcs_parts(source, channels, cofactor, nan, compensate))

    @property
    def missing_fills(self) -> dict[str, float]:
        """What stands for missing values, by column: what `from_frame` takes as `nan` for new bags.

        Empty unless the bags were read with ``nan="indicator"``.

        Examples
        --------
        >>> from distembed.bags import Bags
        >>> Bags.from_frame({"x": [1.0, float("nan"), 4.0], "id": [0, 0, 1]}, "id", nan="indicator").missing_fills
        {'x': 2.5}
        """
        return missing.fills_of(self.points, self.columns)

    def align(self, targets: Any, extra: str = "error") -> NDArray[Any]:
        """Return one target per bag, in the order of `ids`.

        Parameters
        ----------
        targets : mapping of id to target, or pandas Series or DataFrame indexed by id
            The ids of these bags, in any order; 7, 7.0 and ``"7"`` are one id, as are a date and its text.
        extra : {"error", "ignore"}
            How to handle targets of other ids.

        Returns
        -------
        ndarray of shape (n_bags,), or (n_bags, n_columns) for a DataFrame
            A missing, unknown or repeated id is an error that names it.

        Examples
        --------
        >>> from distembed.bags import Bags
        >>> bags = Bags.from_arrays([[1.0], [2.0]], ids=["a", "b"])
        >>> bags.align({"b": 20, "a": 10})
        array([10, 20])
        >>> bags.align({"b": 20, "c": 30, "a": 10}, extra="ignore")
        array([10, 20])
        """
        return align_targets(self.ids, targets, extra)

    def select(self, ids: Any, empty: str = "error") -> Self:
        """Return the bags that have these ids, in the order of the ids; an unknown one is an error, or an empty bag.

        Parameters
        ----------
        ids : sequence of ids
            Those of some bags, each as often as its bag is wanted.
        empty : {"error", "allow"}, default="error"
            With "allow", an id that no bag has stands for a bag without points, as in `Bags`: give the ids of a table
            of labels to get a bag for each of them.

        Returns
        -------
        Bags

        Examples
        --------
        >>> from distembed.bags import Bags
        >>> Bags.from_arrays([[1.0], [2.0], [3.0]], ids=["a", "b", "c"]).select(["c", "a"]).ids.tolist()
        ['c', 'a']
        >>> Bags.from_arrays([[1.0], [2.0]], ids=["a", "b"]).select(["b", "z"], empty="allow").sizes
        array([1, 0])
        """
        check_choice("Bags.select", "empty", empty, checks.EMPTY_CHOICES)
        if empty == "error":
            return self[positions_of(self.ids, ids)]
        asked = as_ids(ids)
        rows = positions_of(self.ids, asked, unknown="allow")
        return self.with_empty(asked[rows < 0])[np.where(rows < 0, np.cumsum(rows < 0) - 1 + self.n_bags, rows)]

    def with_empty(self, ids: Any) -> Self:
        """Return these bags followed by bags without points.

        Parameters
        ----------
        ids : array-like of shape (n_empty,)
            Of the empty bags; they may repeat, but must not be among those of the bags.

        Examples
        --------
        >>> from distembed.bags import Bags
        >>> Bags.from_arrays([[1.0]], ids=["a"]).with_empty(["b", "c"]).sizes
        array([1, 0, 0])
        """
        new = as_ids(ids) if len(ids) else self.ids[:0]
        old = self.ids
        both = [old, new] if old.dtype.kind == new.dtype.kind else [old.astype(object), new.astype(object)]
        offsets = np.concatenate([self.offsets, np.full(len(new), self.n_points)])
        return self.replace(offsets=offsets, ids=np.concatenate(both))

    def to_frame(self, library: str = "pandas", bag: str = "bag", weights: str = "weight") -> Any:
        """Return a long table with one row per point.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow"}
            Whose table to make.
        bag, weights : str
            Names of the column of ids and, if the points have weights, of the column of weights.

        Returns
        -------
        DataFrame or Table of n_points rows
            Id, coordinates (x0, x1, ... where `columns` is None), weight. Categorical columns have their labels.
            `from_frame` reads it back, given the ``category_labels`` as `categorical`.

        Examples
        --------
        >>> from distembed.bags import Bags
        >>> Bags.from_arrays([[1.0, 2.0], [3.0]]).to_frame("pyarrow").column_names
        ['bag', 'x0']
        """
        refuse_repeated(self.ids, "a table would merge those bags: give ids that differ")
        checks.refuse_empty(self, "Bags.to_frame has one row per point")
        return frames.build_frame(library, bag, weights, self.named_parts())

    def save(self, path: str | os.PathLike[str], compress: bool = False) -> None:
        """Write the bags to a NumPy .npz archive, at exactly `path`, without pickle.

        The archive is written next to `path` and then moved there, so no reader meets half a file. Ids must be
        numbers, text, bytes or dates; other objects are refused.

        Examples
        --------
        >>> import tempfile
        >>> from distembed.bags import Bags
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Bags.from_arrays([[1.0, 2.0], [3.0]]).save(f"{folder}/b.npz")
        ...     Bags.load(f"{folder}/b.npz").sizes
        array([2, 1])
        """
        refuse_repeated(self.ids, "give ids that differ before saving")
        write_npz(path, self.parts, compress)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the bags that `save` wrote; nothing in the file is run, and all of it is validated."""
        return cls.trusted(*read_npz(path))

    def _repr_html_(self) -> str:
        return bags_html(self)


def as_bags(obj: Any) -> Bags:
    """Return `obj` as `Bags`, without copying points where their layout allows it.

    Parameters
    ----------
    obj : Bags, sequence of arrays, 3-D array, awkward Array, pyarrow list array, Series of lists, or grouped frame
        - a list, tuple or object array of one (n_i, n_dims) or (n_i,) array or data frame per bag, which are copied;
        - ``frame.groupby(...)`` of pandas, or ``group_by`` of polars: one bag per group, in the order of the groups, of
          the other columns, or of those that were chosen, ``frame.groupby("id")[["x", "y"]]``; ids as in
          :meth:`Bags.from_frame`, which has more to say about weights, labels and missing values;
        - a pandas Series with one array a bag, whose index names the bags unless it is 0, 1, ...;
        - a 3-D array of shape (n_bags, n, n_dims) holds bags of equal size;
        - awkward ``n * var * d``, ``n * var`` and ``n * var * {x: ..., y: ...}``;
        - pyarrow lists (also large, fixed-size, chunked) of numbers, of lists of numbers, or of structs.

    Returns
    -------
    Bags
        `Bags` as they are; a bag without points is an error. Names of record fields and of frames' columns become
        `columns`.

    Examples
    --------
    >>> import numpy as np
    >>> from distembed.bags import as_bags
    >>> as_bags(np.zeros((10, 50, 3)))
    Bags(n_bags=10, n_points=500, n_dims=3, sizes=50, dtype=float64)

    >>> import pandas as pd
    >>> flights = pd.DataFrame({"day": [2, 1, 2], "origin": ["JFK", "LGA", "JFK"], "delay": [5.0, -1.0, 30.0]})
    >>> as_bags(flights.groupby(["day", "origin"])).ids.tolist()
    ['1/LGA', '2/JFK']
    """
    if isinstance(obj, Bags):
        checks.refuse_empty(obj)
        return obj
    if isinstance(obj, list | tuple):
        return Bags.from_arrays(obj)
    return Bags(*ragged.ragged_parts(obj))


def concat(collections: Iterable[Bags]) -> Bags:
    """Return the bags of several `Bags`, one after another.

    Parameters
    ----------
    collections : iterable of Bags
        Of equal width and `categories`, and of equal `columns` where they have them. Either all have ids, which must
        not repeat, or none has. Where only some have weights, the points of the others weigh one.

    Returns
    -------
    Bags
        float32 only if all are.

    Examples
    --------
    >>> from distembed.bags import Bags, concat
    >>> concat([Bags.from_arrays([[1.0]]), Bags.from_arrays([[2.0, 3.0]])]).sizes
    array([1, 2])
    """
    if isinstance(collections, Bags):
        raise TypeError("concat takes a list of Bags, got one Bags; write concat([a, b])")
    parts = list(collections)
    for i, part in enumerate(parts):
        if not isinstance(part, Bags):
            raise TypeError(f"concat takes Bags, got {type(part).__name__} at position {i}; use as_bags")
    joined = _join([part.parts for part in parts])
    categories = common([part.parts for part in parts], joined.columns)
    return parts[0].replace(**joined._replace(categories=categories)._asdict())


def _join(parts: Sequence[Parts]) -> Parts:
    """Return valid parts one after another, or raise the error that names those that disagree."""
    if not parts:
        raise no_bags("concat got an empty list")
    widths = [part.points.shape[1] for part in parts]
    names = [part.columns for part in parts]
    first = next((i for i, columns in enumerate(names) if columns is not None), 0)
    for i, part in enumerate(parts):
        if widths[i] != widths[0]:
            raise ValueError(
                f"concat needs bags of equal width, got n_dims={widths[i]} at position {i} and "
                f"n_dims={widths[0]} at position 0; give all of them the same columns, e.g. by "
                "Bags.from_frame(..., columns=[...])"
            )
        if (part.ids is None) != (parts[0].ids is None):
            given, absent = (0, i) if part.ids is None else (i, 0)
            raise ValueError(
                f"concat needs ids in all collections or in none, got ids at position {given} and none at "
                f"position {absent}; give those bags ids with Bags(b.points, b.offsets, b.weights, ids=...)"
            )
        if part.columns not in (None, names[first]):
            raise ValueError(
                f"concat needs equal columns, got {part.columns} at position {i} and {names[first]} at position "
                f"{first}; reorder or rename them before joining"
            )
    ids = None
    if parts[0].ids is not None:
        given_ids = [part.ids for part in parts if part.ids is not None]
        same = len({array.dtype.kind for array in given_ids}) == 1
        ids = np.concatenate([array if same else array.astype(object) for array in given_ids])
        refuse_repeated(ids, "rename them before joining")
    points = np.concatenate([part.points for part in parts])
    weights = None
    if any(part.weights is not None for part in parts):
        filled = [np.ones(len(part.points)) if part.weights is None else part.weights for part in parts]
        weights = np.concatenate(filled).astype(points.dtype, copy=False)
    sizes = np.concatenate([np.diff(part.offsets) for part in parts])
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    return Parts(points, offsets, weights, ids, names[first])


# --------------------------------------------------------------------------------------------------------------
# Written
# --------------------------------------------------------------------------------------------------------------


def write_npz(path: str | os.PathLike[str], parts: Parts, compress: bool) -> None:
    """Write parts to an .npz archive, whole or not at all."""
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"can't save bags to {str(target)!r}: folder {str(target.parent)!r} does not exist")
    if parts.ids is not None and parts.ids.dtype.kind == "O":
        kinds = sorted({type(value).__name__ for value in parts.ids})
        raise TypeError(f"ids must be numbers, text, bytes or dates to be saved, got objects ({', '.join(kinds)})")
    text = None if parts.categories is None else json.dumps(parts.categories)
    plain = {**parts._asdict(), "categories": text}
    entries: dict[str, Any] = {name: np.asarray(value) for name, value in plain.items() if value is not None}
    version = _VERSION if (np.diff(parts.offsets) == 0).any() else 1 if text is None else 2
    # `format` lists the entries, so that one lost to a damaged directory is missed.
    head: dict[str, Any] = {"format": np.array([_FORMAT, *entries]), "version": np.array(version)}
    with write_whole(target) as file:
        (np.savez_compressed if compress else np.savez)(file, **head, **entries)


def read_npz(path: str | os.PathLike[str]) -> Parts:
    """Return the validated parts in an archive of `write_npz`, without pickle."""
    if Path(path).exists() and not Path(path).is_file():  # a pipe would wait for who writes
        raise ValueError(f"can't read bags from {os.fspath(path)!r}: it is not a regular file")
    with Path(path).open("rb") as file:
        try:
            if file.read(6) == b"\x93NUMPY":
                raise ValueError("it holds a single array, and was not written by Bags.save")
            npz_headers(file, os.fstat(file.fileno()).st_size)
            file.seek(0)
            archive = np.load(file, allow_pickle=False)
            if not {"format", "version"} <= set(archive.files):
                raise ValueError("it was not written by Bags.save")
            found, *names = np.atleast_1d(archive["format"]).tolist()
            if found != _FORMAT:
                raise ValueError("it was not written by Bags.save")
            version = int(archive["version"])
            if version > _VERSION:
                raise ValueError(
                    f"its format version is {version}, and this distembed reads up to {_VERSION}; upgrade distembed"
                )
            absent = {"points", "offsets", *names} - set(archive.files)
            if absent:
                raise ValueError(f"it lacks {few(sorted(absent))}")
            entries = {key: archive[key] if key in names else None for key in Parts._fields}
            columns = None if entries["columns"] is None else entries["columns"].tolist()
            text = entries.pop("categories")
            empty = "allow" if version > 2 else "error"
            parts = validate(**{**entries, "columns": columns}, empty=empty)
            if text is not None:
                parts = parts._replace(categories=check_categories(json.loads(str(text)), parts))
            return parts
        except _UNREADABLE as error:
            raise ValueError(f"can't read bags from {os.fspath(path)!r}: {error}") from error


# --------------------------------------------------------------------------------------------------------------
# Shown in notebooks
# --------------------------------------------------------------------------------------------------------------


def bags_html(bags: FlatBags) -> str:
    """A table of the columns under a line of the sizes; O(n_points) at most, of a hundred thousand points.

    Examples
    --------
    >>> from distembed.bags import Bags
    >>> text = bags_html(Bags.from_arrays([[1.0, 2.0], [3.0]], columns=["<x>"]))
    >>> text.count("<svg"), "&lt;x&gt;" in text
    (2, True)
    """
    from ..compute.svg import html_table, number, sparkline  # loads SciPy

    parts = bags.named_parts()
    sizes = bags.sizes
    points = bags.points[:: max(1, bags.n_points // _MOST_POINTS)]
    rows = []
    for j, name in enumerate((parts.columns or ())[:MOST_COLUMNS]):
        values = points[:, j]
        labels = (bags.categories or {}).get(j)
        if labels is None:
            counts = np.histogram(values, _BARS)[0]
            facts = [number(each) for each in np.quantile(values, [0, 0.5, 1])]
        else:
            counts = np.bincount(values.astype(int), minlength=len(labels))
            facts = [f"{len(labels)} labels", str(labels[int(counts.argmax())]), ""]
        rows.append([name, *facts, sparkline(counts, f"distribution of {name}")])
    filled = np.maximum(sizes, 0.5)  # of empty bags there is no logarithm
    spread = np.histogram(np.log(filled), _BARS)[0] if sizes.min() < sizes.max() else np.array([len(sizes)])
    facts = [number(each) for each in np.quantile(sizes, [0, 0.5, 1])]
    rows.insert(0, ["(points per bag)", *facts, sparkline(spread, "bag sizes, on a logarithmic scale")])
    left = bags.n_dims - MOST_COLUMNS
    title = f"Bags: {bags.n_bags:,} bags, {bags.n_points:,} points, {bags.n_dims} columns"
    note = f"... {left} more columns" if left > 0 else ""
    return html_table(["column", "lowest", "median", "highest", "distribution"], rows, title, note)
