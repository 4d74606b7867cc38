"""Donors of single cells: what cell-type proportions, pseudobulk and patpy's representations are next to ours.

    python experiments/single_cells.py DATA [--repeats 4] [--only NAME ...] [--tables blood] [--without-patpy]

DATA is the folder of `python -m reproduce real`, with kidney_igan.h5ad and covid_pbmc.cells.parquet. Two tables:

*Scores*: balanced accuracy of held-out donors on the folds of results/real.md, so its figures compare (pseudobulk with
logistic regression is its "means + logistic"). Proportions are the shares of cell types, with logistic regression, C
and class weights chosen as there; "auto + types" is the default classifier with types as a categorical column.

*patpy* (0.15.2, where it is installed): information retention as SPARE measures it without a network, the prediction
of a covariate by the three nearest donors (macro F1 above chance for classes, Spearman's correlation for numbers), and
the silhouette of classes as patpy scales it.
Writes results/single_cells.md.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from time import process_time

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

import distembed as de
from reproduce.claims import over_repetitions
from reproduce.real_sets import in_file_order
from reproduce.rivals import folds_of

RESULTS = Path(__file__).parents[1] / "results" / "single_cells.md"
GRID = {"C": [0.001, 0.01, 0.1, 1.0, 10.0, 100.0]}


def kidney(folder):
    """Patients and their glomeruli: bags with types, classes."""
    path = folder / "real" / "kidney_igan.h5ad"
    read = de.Bags.from_anndata(path, bag="sampleID", categorical=["Cell_type"], label="status")
    return in_file_order(path, "sampleID", *read)


def blood(folder):
    """Donors and their blood cells: bags with types, classes."""
    cells = pd.read_parquet(folder / "real" / "covid_pbmc.cells.parquet")
    cells = cells.astype(dict.fromkeys(("sample_id", "phenotype", "cluster_id"), str))
    columns = [name for name in cells if name.startswith("PC")] + ["cluster_id"]
    return de.Bags.from_frame(cells, "sample_id", columns, categorical=["cluster_id"], label="phenotype")


SETS = {"kidney": kidney, "blood": blood}


def proportions(bags):
    """Shares of the types of cells, the last column."""
    (j, labels), *_ = bags.categories.items()
    owner = np.repeat(np.arange(bags.n_bags), bags.sizes)
    counts = np.zeros((bags.n_bags, len(labels)))
    np.add.at(counts, (owner, bags.points[:, j].astype(int)), 1)
    return counts / bags.sizes[:, None]


def means(bags):
    """Pseudobulk: means of the columns, standardised over donors."""
    return standard(np.add.reduceat(bags.points[:, :-1], bags.offsets[:-1]) / bags.sizes[:, None])


def standard(rows):
    """Rows of mean 0 and deviation 1."""
    return (rows - rows.mean(axis=0)) / np.maximum(rows.std(axis=0), 1e-12)


def logistic(rows):
    """Predictions by logistic regression on rows."""

    def predict(known, new, y, seed):
        model = LogisticRegression(max_iter=3000, class_weight="balanced")
        return (
            GridSearchCV(model, GRID, scoring="balanced_accuracy", cv=folds_of(y[known], seed))
            .fit(rows[known], y[known])
            .predict(rows[new])
        )

    return predict


def ours(bags):
    """Predictions by the default classifier, types of cells as a categorical column."""

    def predict(known, new, y, seed):
        model = de.DistributionClassifier(class_weight="balanced", random_state=seed, n_jobs=1)
        return model.fit(bags[known], y[known]).predict(bags[new])

    return predict


METHODS = {
    "proportions": lambda bags: logistic(proportions(bags)),
    "proportions and pseudobulk": lambda bags: logistic(np.hstack([standard(proportions(bags)), means(bags)])),
    "auto + types": ours,
}


def scores(bags, y, method, n_repeats):
    """Balanced accuracy of each fold."""
    found = []
    for repeat in range(n_repeats):
        for known, new in folds_of(y, repeat).split(y, y):
            right = method(known, new, y, repeat) == y[new]
            found.append(np.mean([right[y[new] == each].mean() for each in np.unique(y[new])]))
    return found


def score_rows(folder, n_repeats, only, tables):
    """Lines of the first table."""
    for name, read in ((name, SETS[name]) for name in tables):
        bags, y = read(folder)
        y = y.astype(str)
        for label, make in METHODS.items():
            if only and label not in only:
                continue
            start = process_time()
            each = scores(bags, y, make(bags), n_repeats)
            seconds = (process_time() - start) / len(each)
            folds = folds_of(y, 0).get_n_splits()
            known = over_repetitions(each, 1 / (folds - 1))
            low, high = known.interval()
            yield f"| {name} | {label} | {np.mean(each):.3f} | {low:.3f} | {high:.3f} | {len(each)} | {seconds:.1f} |"


def patpy_rows(folder, gloscope=False):
    """Lines of the second table."""
    import anndata
    from patpy import tl

    cells = pd.read_parquet(folder / "real" / "covid_pbmc.cells.parquet")
    blood_ = anndata.AnnData(
        cells.filter(like="PC").to_numpy(),
        obs=cells[["sample_id", "phenotype", "cluster_id"]].astype(str).set_axis(cells.index.astype(str)),
    )
    kidney_ = anndata.read_h5ad(folder / "real" / "kidney_igan.h5ad")
    tables = {
        "blood": (blood_, "sample_id", "cluster_id", {"phenotype": "classification"}),
        "kidney": (kidney_, "sampleID", "Cell_type", {"status": "classification", "Age": "ranking"}),
    }
    for name, (adata, sample, kind, targets) in tables.items():
        spread = np.asarray(adata.X, float)
        adata.obsm["X_rep"] = (spread - spread.mean(axis=0)) / spread.std(axis=0)
        methods = {
            "ranks (ours)": de.single_cells.DonorRepresentation(sample, kind, "X_rep"),
            "ranks and types (ours)": de.single_cells.DonorRepresentation(sample, kind, "X_rep", with_types=True),
            "statistics (ours)": de.single_cells.DonorRepresentation(sample, kind, "X_rep", embedding="statistics"),
            "Pseudobulk": tl.Pseudobulk(sample, kind, "X_rep"),
            "GroupedPseudobulk": tl.GroupedPseudobulk(sample, kind, "X_rep"),
            "CellGroupComposition": tl.CellGroupComposition(sample, kind),
            "RandomVector": tl.RandomVector(sample, kind),
        }
        if gloscope and name == "blood":  # of 634 patients there are 200,000 pairs, each two queries of an index
            methods["GloScope_py"] = tl.GloScope_py(sample, kind, "X_rep")
        for label, method in methods.items():
            np.random.seed(0)  # noqa: NPY002  # what patpy draws from
            start = process_time()
            try:
                mine = adata.copy()
                method.prepare_anndata(mine)
                distances = np.asarray(method.calculate_distance_matrix(force=True), float)
                took = process_time() - start
                table = method._extract_metadata(list(targets))
                for target, task in targets.items():
                    y = table[target]
                    near = tl.evaluate_representation(distances.copy(), y, method="knn", task=task, n_neighbors=3)
                    apart = float("nan")
                    if task == "classification":
                        np.fill_diagonal(distances, 0)
                        apart = tl.evaluate_representation(distances.copy(), y, method="silhouette")["score"]
                    yield f"| {name} | {label} | {target} | {near['score']:.3f} | {apart:.3f} | {took:.1f} |"
            except Exception as error:  # reported as what it is
                yield f"| {name} | {label} | - | {type(error).__name__}: {' '.join(str(error).split())[:80]} | - | - |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--only", nargs="*", choices=METHODS)
    parser.add_argument("--tables", nargs="*", choices=SETS, default=list(SETS))
    parser.add_argument("--without-patpy", action="store_true")
    parser.add_argument("--gloscope", action="store_true", help="with patpy's GloScope_py, of minutes on blood alone")
    parser.add_argument("--output", type=Path, default=RESULTS)
    asked = parser.parse_args()
    lines = [
        "# Donors of single cells",
        "",
        "Made by `python experiments/single_cells.py`; see there for what is done.",
    ]
    lines += ["", "## Balanced accuracy", "", "| table | method | score | low | high | folds | seconds a fold |"]
    lines += ["|---|---|---|---|---|---|---|"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for line in score_rows(asked.data, asked.repeats, asked.only, asked.tables):
            print(line, flush=True)
            lines.append(line)
        if not asked.without_patpy:
            lines += ["", "## patpy: prediction of covariates by the three nearest donors", ""]
            lines += [
                "| table | representation | covariate | 3 nearest | silhouette | seconds |",
                "|---|---|---|---|---|---|",
            ]
            for line in patpy_rows(asked.data, asked.gloscope):
                print(line, flush=True)
                lines.append(line)
    asked.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
