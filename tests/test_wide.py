"""Few rows of many columns: time and memory grow with the cells, not with the columns squared."""

import os
import resource
import subprocess
import sys
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from fairmix.cli.screen import listed
from fairmix.kernels.totals import Rows
from fairmix.mixture import propensity
from fairmix.mixture.propensity import fit_propensity
from fairmix.tables import locations, sources, text

N_ROWS, N_COLUMNS = 40, 20_000
# What a fit of them may take. Time of the processor, so that a busy machine changes nothing.
SECONDS, MEGABYTES = 60, 1024
GROUPS = np.arange(N_ROWS) % 2
FIT = f"""
import numpy as np
from fairmix import FairMixture
X = np.random.default_rng(0).normal(size=({N_ROWS}, {N_COLUMNS}))
model = FairMixture(3, max_gap=0.1, min_group_size=1, random_state=0)
model.fit(X, sensitive_features=np.arange({N_ROWS}) % 2)
assert model.gap_ <= 0.1 + model.resolution_, model.gap_
"""


def limit(seconds):
    """The system ends a process that takes longer, or refuses it more memory."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    # Threads and libraries reserve addresses that they never use; data segments count what is used.
    resource.setrlimit(resource.RLIMIT_DATA, (MEGABYTES << 20, MEGABYTES << 20))


def run(*words, fits=1):
    # One thread: each has a stack and an arena, which are reserved and hardly used.
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *words],
        preexec_fn=partial(limit, SECONDS * fits),
        env={**os.environ, **threads},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stderr)


def test_a_wide_table_is_fitted():
    run("-c", FIT)


@pytest.mark.long
def test_a_wide_file_is_fitted_from_the_command_line(tmp_path):
    X = np.random.default_rng(0).normal(size=(N_ROWS, N_COLUMNS)).round(3)
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(N_COLUMNS)])
    frame.assign(sex=np.where(GROUPS, "f", "m")).to_csv(tmp_path / "wide.csv", index=False)
    words = ["-s", "sex", "-k", "3", "--min-group-size", "1", "--jobs", "1", "--quiet"]
    # With the front, which is five more fits.
    run("-m", "fairmix", "fit", tmp_path / "wide.csv", *words, "-o", tmp_path / "out", fits=6)
    assert "What other bounds would cost" in (tmp_path / "out" / "report.html").read_text("utf-8")


def test_the_regression_of_wide_tables_finds_what_newton_finds(monkeypatch):
    rng = np.random.default_rng(0)
    rows = Rows(rng.normal(size=(200, 60)), None)
    groups = (rows.numeric[:, 0] + rng.normal(size=200) > 0).astype(np.intp)
    newton = fit_propensity(rows, groups, 2, weight=None)(rows)
    # One coefficient fewer than the linear and squared terms of the columns.
    monkeypatch.setattr(propensity, "NEWTON_COEFFICIENTS", 119)
    wide = fit_propensity(rows, groups, 2, weight=None)(rows)
    assert np.abs(newton - wide).max() > 0
    np.testing.assert_allclose(wide, newton, atol=1e-3)


def test_rows_of_many_columns_are_read_together(tmp_path):
    names = [f"column_{j}" for j in range(3_000)]
    # 32 rows and 1.9 MB, of which a narrow file would make two batches.
    lines = [",".join(names), *(",".join(["0.12345678901234567"] * len(names)) for _ in range(32))]
    (tmp_path / "wide.csv").write_text("\n".join(lines))
    assert (tmp_path / "wide.csv").stat().st_size > text.CSV_BYTES
    file = text.TextFile.open(locations.find_files(tmp_path / "wide.csv")[0])
    batches = list(file.batches(dict.fromkeys(names, pa.float64())))
    assert [len(batch) for batch in batches] == [32]


def test_a_screen_does_not_list_every_column():
    assert listed([f"c{j}" for j in range(20_000)], 100).endswith("c99 and 19,900 more")


def test_a_repeated_name_among_very_many_is_found_at_once(tmp_path):
    names = [f"c{j}" for j in range(100_000)]
    calls = 0

    class Counted(str):
        __hash__ = str.__hash__

        def __eq__(self, other):
            nonlocal calls
            calls += 1
            return str.__eq__(self, other)

    counted = [Counted(name) for name in names]
    sources._refuse_repeated(counted, tmp_path)
    with pytest.raises(ValueError, match="more than one column 'c7'"):
        sources._refuse_repeated([*names, "c7"], tmp_path)
    # To compare each with each would take 10,000,000,000.
    assert calls < 10 * len(names)
