"""Held-out rows in files and on a cluster are measured as the same rows in a table are."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest

from fairmix import FairMixture, FileSource

# Two blocks, the second one short.
N_ROWS = 20_000


def draw(n_rows, seed):
    rng = np.random.default_rng(seed)
    cluster = rng.integers(2, size=n_rows)
    people = pd.DataFrame(
        {
            "income": 4.0 * cluster + rng.normal(size=n_rows),
            "town": np.array(["Oslo", "Rome"], dtype=object)[
                np.where(rng.random(n_rows) < 0.8, cluster, 1 - cluster)
            ],
            "sex": np.where(rng.random(n_rows) < 0.4 + 0.2 * cluster, "f", "m").astype(object),
            "race": np.array(["a", "b"], dtype=object)[rng.integers(2, size=n_rows)],
            "w": rng.uniform(0.5, 2, size=n_rows),
        }
    )
    people.loc[rng.random(n_rows) < 0.05, "income"] = np.nan
    return people


@pytest.fixture(scope="module")
def people():
    return draw(N_ROWS, 1)


@pytest.fixture(scope="module")
def files(people, tmp_path_factory):
    folder = tmp_path_factory.mktemp("people")
    people[:7000].to_parquet(folder / "0.parquet", index=False)
    people[7000:].to_parquet(folder / "1.parquet", index=False)
    return folder


def fitted(**settings):
    given = {"max_gap": 0.1, "standardize": True, "random_state": 0, "tol": 1e-2} | settings
    names = ["sex", "race"] if given.get("attributes") else "sex"
    unused = [] if given.get("attributes") else ["race"]
    X = draw(400, 0).drop(columns=["w", *unused])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return FairMixture(2, **given).fit(X, sensitive_features=names)


MODELS = {
    "blind": {"fairness_strength": 0},
    "aware": {"assignment": "aware"},
    "each": {"assignment": "aware", "attributes": "each", "max_gap": 0.3},
    "split": {"assignment": "aware", "ties": "split"},
}


@pytest.fixture(scope="module")
def models():
    return {name: fitted(**settings) for name, settings in MODELS.items()}


def groups_of(name):
    return ["sex", "race"] if name == "each" else "sex"


def features_of(name):
    return [] if name == "each" else ["race"]


def without(people, name, files, tmp_path):
    """The table, and files of it, with the columns that the model knows."""
    table = people.drop(columns=features_of(name))
    if not features_of(name):
        return table, files
    for number, part in enumerate((table[:7000], table[7000:])):
        part.to_parquet(tmp_path / f"{number}.parquet", index=False)
    return table, tmp_path


@pytest.mark.parametrize("name", MODELS)
def test_files_give_the_figures_of_a_table(name, models, people, files, tmp_path):
    model, groups = models[name], groups_of(name)
    folder = tmp_path / "rows"
    folder.mkdir()
    table, paths = without(people, name, files, folder)
    X = table.drop(columns="w")
    given = {"sensitive_features": groups} if name != "blind" else {}

    path = model.predict_proba(_unweighted(paths), output=tmp_path / "p.parquet", **given)
    assert np.array_equal(
        pq.read_table(path).to_pandas().to_numpy(), model.predict_proba(X, **given)
    )
    assert pq.read_schema(path).names == ["cluster_0", "cluster_1"]
    path = model.score_samples(_unweighted(paths), output=tmp_path / "d.parquet")
    assert np.array_equal(pq.read_table(path)["log_density"].to_numpy(), model.score_samples(X))

    assert model.score(paths, sample_weight="w") == model.score(table, sample_weight="w")
    for figure in ("score", "bic", "aic", "icl"):
        assert getattr(model, figure)(_unweighted(paths)) == getattr(model, figure)(X)

    far_report = model.fairness_report(paths, groups, sample_weight="w", n_boot=3)
    near_report = model.fairness_report(table, groups, sample_weight="w", n_boot=3)
    assert far_report.to_dict() == near_report.to_dict()
    if name != "split":
        far_found = model.certify(_unweighted(paths), groups)
        assert far_found == model.certify(X, groups)


def _unweighted(paths):
    """A source without the weights, which the model does not know."""
    names = pq.read_schema(next(paths.glob("*.parquet"))).names
    return FileSource(paths, columns=tuple(name for name in names if name != "w"))


def test_streams(models, people):
    model = models["aware"]
    X = people.drop(columns=["w", "race"])
    lazy = pl.from_pandas(X).lazy()
    assert model.score(lazy) == model.score(X)
    far_report = model.fairness_report(lazy, "sex", n_boot=3)
    assert far_report.to_dict() == model.fairness_report(X, "sex", n_boot=3).to_dict()


@pytest.mark.parametrize("name", MODELS)
def test_a_cluster_gives_the_figures_of_a_table(name, models, people, cluster):
    import dask.dataframe as dd

    model, groups = models[name], groups_of(name)
    table = people.drop(columns=features_of(name))
    X = table.drop(columns="w")
    far_table, far_X = (dd.from_pandas(frame, npartitions=3) for frame in (table, X))
    given = {"sensitive_features": groups} if name != "blind" else {}
    found = model.predict_proba(far_X, **given)
    assert np.array_equal(found.compute(), model.predict_proba(X, **given))
    assert np.array_equal(model.score_samples(far_X).compute(), model.score_samples(X))
    assert model.score(far_table, sample_weight="w") == model.score(table, sample_weight="w")
    assert model.score(far_X, sample_weight=far_table["w"]) == model.score(
        X, sample_weight=table["w"]
    )
    assert model.icl(far_X) == model.icl(X)
    far_report = model.fairness_report(far_X, groups, n_boot=3)
    assert far_report.to_dict() == model.fairness_report(X, groups, n_boot=3).to_dict()
    if name != "split":
        assert model.certify(far_X, groups) == model.certify(X, groups)


def test_a_dask_array(people, cluster):
    import dask.array as da

    X = people[["income"]].to_numpy()
    groups = people["sex"].to_numpy(str)
    model = FairMixture(2, assignment="aware", max_gap=0.1, random_state=0, tol=1e-2)
    model.fit(X[:400], sensitive_features=groups[:400])
    far_X, far_groups = da.from_array(X, chunks=(7000, 1)), da.from_array(groups, chunks=6000)
    found = model.predict_proba(far_X, sensitive_features=far_groups)
    assert found.shape == (N_ROWS, 2)
    assert np.array_equal(found.compute(), model.predict_proba(X, sensitive_features=groups))
    densities = model.score_samples(far_X)
    assert densities.shape == (N_ROWS,)
    assert np.array_equal(densities.compute(), model.score_samples(X))
    assert model.bic(far_X) == model.bic(X)
    far_report = model.fairness_report(far_X, far_groups, n_boot=3)
    assert far_report.summary == model.fairness_report(X, groups, n_boot=3).summary
    assert model.certify(far_X, far_groups).value == model.certify(X, groups).value


def test_probabilities_are_certified(people, files, tmp_path):
    model = FairMixture(2, gap_of="probabilities", max_gap=0.1, random_state=0, tol=1e-2)
    X = people[["income", "town", "sex"]]
    model.fit(X[:400], sensitive_features="sex")
    far_X = FileSource(files, columns=("income", "town", "sex"))
    found = model.certify(far_X, "sex")
    assert found == model.certify(X, "sex")
    assert found.of == "probabilities"
    X[:400].to_parquet(tmp_path / "seen.parquet", index=False)
    with pytest.warns(UserWarning, match="rows that the model was fitted to"):
        model.certify(tmp_path / "seen.parquet", "sex")


def test_what_is_needed_is_said(models, people, files, tmp_path):
    model = models["aware"]
    paths = _unweighted(files)
    with pytest.raises(ValueError, match="its probabilities need not fit there"):
        model.predict_proba(paths, sensitive_features="sex")
    with pytest.raises(ValueError, match="its densities need not fit there"):
        model.score_samples(paths)
    with pytest.raises(ValueError, match="Leave output out: the probabilities are returned"):
        model.predict_proba(people, output=tmp_path / "p.parquet")
    with pytest.raises(ValueError, match="the map uses the group of each row"):
        model.predict_proba(paths, output=tmp_path / "p.parquet")
    with pytest.raises(ValueError, match="is one of the files of X"):
        model.score_samples(paths, output=files / "0.parquet")
    far_away = people[["income", "town", "sex"]].assign(income=1e200)
    far_away.to_parquet(tmp_path / "far.parquet", index=False)
    with pytest.raises(ValueError, match="densities overflow"):
        model.score(tmp_path / "far.parquet")
    assert not (tmp_path / "p.parquet").exists()
