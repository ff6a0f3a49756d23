"""Adult: bundled, made by ``scripts/generate adult``."""

from __future__ import annotations

from importlib.resources import as_file, files

from fairmix.datasets._dataset import Dataset
from fairmix.datasets._recipe import Recipe, strings
from fairmix.datasets._source import read_parquet

RECIPE = Recipe(
    name="adult",
    n_rows=32_561,
    continuous=("age", "fnlwgt", "education-num", "capital-gain", "hours-per-week"),
    # The appendix of the paper lists sex among its seven and leaves marital-status out, but these
    # counts are those with marital-status (docs/paper-notes.md).
    cardinalities={
        "workclass": 9,
        "education": 16,
        "marital-status": 7,
        "occupation": 15,
        "relationship": 6,
        "race": 5,
        "native-country": 42,
    },
    counts={
        "sex": {"Female": 10_771, "Male": 21_790},
        "income": {"<=50K": 24_720, ">50K": 7_841},
    },
    description="""\
Adult (census income), the file adult.data of UCI id 2: 32,561 rows of the US census of 1994.
Groups: sex (Male 21,790, Female 10,771; largest balance 0.4943). Outcome: income.
Licence CC BY 4.0, https://creativecommons.org/licenses/by/4.0/. DOI 10.24432/C5XW20.
Becker, B. and Kohavi, R. (1996). Adult. UCI Machine Learning Repository.
Changed: white space stripped, written as Parquet. The value "?" is kept.""",
)


def load_adult() -> Dataset:
    """Load the Adult data, which comes with the package.

    Returns
    -------
    Dataset
        32,561 rows. ``X`` has age, fnlwgt, education-num, capital-gain and hours-per-week,
        ``categories`` the seven categorical columns of the paper, ``sex`` is the sensitive
        attribute and ``income`` the outcome, which is for evaluation only.

    Examples
    --------
    >>> adult = load_adult()
    >>> adult.X.shape
    (32561, 5)
    >>> sorted(set(adult.sex.tolist()))
    ['Female', 'Male']
    """
    # A package may be imported from a zip, where a resource has no path of its own.
    with as_file(files("fairmix.datasets") / "data" / "adult.parquet") as path:
        table = read_parquet(path)
    return RECIPE.prepare(
        table,
        sensitive={"sex": strings(table, "sex")},
        outcomes={"income": strings(table, "income")},
    )
