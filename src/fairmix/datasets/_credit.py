"""Default of Credit Card Clients: UCI id 350, an Excel file of the old kind."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fairmix.datasets._dataset import Dataset
from fairmix.datasets._recipe import Recipe, strings
from fairmix.datasets._source import download, read_folder, unzip

URL = "https://archive.ics.uci.edu/static/public/350/default+of+credit+card+clients.zip"
HEADER_ROW = 1  # row 0 holds X1, X2, ..., row 1 the names

RECIPE = Recipe(
    name="credit",
    n_rows=30_000,
    continuous=("LIMIT_BAL", "AGE", "BILL_AMT1", "PAY_AMT1"),
    cardinalities={
        "SEX": 2,
        "MARRIAGE": 4,
        "PAY_0": 11,
        "PAY_2": 11,
        "PAY_3": 11,
        "PAY_4": 11,
        "PAY_5": 10,
        "PAY_6": 10,
    },
    counts={
        "education": {"graduate school": 10_585, "other": 5_385, "university": 14_030},
        "education2": {"other": 15_970, "university": 14_030},
        "default": {"0": 23_364, "1": 6_636},
    },
    description="""\
Default of Credit Card Clients, UCI id 350: 30,000 clients of a bank in Taiwan, 2005.
Groups: education (university 14,030, graduate school 10,585, other 5,385; largest balance 0.3838)
and education2 (university 14,030, other 15,970; largest balance 0.8785). University is EDUCATION 2,
graduate school 1, other 0, 3, 4, 5 and 6. Outcome: default (payment next month).
Licence CC BY 4.0, https://creativecommons.org/licenses/by/4.0/. DOI 10.24432/C55S3H.
Yeh, I.-C. and Lien, C.-h. (2009). The comparisons of data mining techniques for the predictive
accuracy of probability of default of credit card clients. Expert Systems with Applications
36(2):2473-2480.""",
)


def fetch_credit() -> Dataset:
    """Read the Credit data.

    ``credit.parquet`` in the folder named by the environment variable ``FAIRMIX_DATA`` is read
    when it is there; otherwise the data is downloaded from UCI once and kept in the cache folder
    of pooch (extra ``data``, which also has the reader of .xls). The counts of the result are
    verified; no checksum of UCI's .xls is known.

    Returns
    -------
    Dataset
        30,000 rows. The sensitive attributes are ``education`` (university, graduate school,
        other) and ``education2`` (university, other); ``default`` is the outcome.

    Notes
    -----
    The reader of UCI's .xls is tested on a sheet of the same layout, not on UCI's own bytes.

    Examples
    --------
    >>> credit = fetch_credit()  # doctest: +SKIP
    >>> credit.X.shape  # doctest: +SKIP
    (30000, 4)
    """
    table = read_folder("credit.parquet")
    if table is None:
        archive = download(URL, "default-of-credit-card-clients.zip")
        table = _parse(unzip(archive, "default of credit card clients.xls"))
    level = table["EDUCATION"].to_numpy()
    # The groups of the paper: its counts are met only if all other codes, also those that UCI does
    # not explain (0, 5 and 6), are one group.
    names = ["university", "graduate school"]
    education = np.select([level == 2, level == 1], names, default="other")
    education2 = np.where(level == 2, "university", "other")
    return RECIPE.prepare(
        table,
        sensitive={"education": education, "education2": education2},
        outcomes={"default": strings(table, "default payment next month")},
    )


def _parse(raw: bytes) -> pa.Table:
    try:
        import xlrd
    except ImportError as error:
        raise ImportError(
            "The Credit data is an .xls file, and the package that reads it, xlrd, is not "
            "installed. Run: pip install 'fairmix[data]'"
        ) from error
    sheet = xlrd.open_workbook(file_contents=raw).sheet_by_index(0)
    # Excel holds every number as a float; all of these are whole.
    return pa.table(
        {
            str(sheet.cell_value(HEADER_ROW, j)): np.array(
                sheet.col_values(j, HEADER_ROW + 1), dtype=np.float64
            ).astype(np.int64)
            for j in range(sheet.ncols)
        }
    )
