"""The same seed gives the same bits: again, in other processes, with threads, from files."""

import hashlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairmix import FairMixture, load
from fairmix.baselines import AlignedFairKMeans, FairletKMeans, VariationalFairKMeans
from fairmix.datasets import make_grouped_blobs
from repetition import LONG, long, one_in

N = 400
X, GROUPS, COMPONENTS = make_grouped_blobs(N, 3, 2, separation=2.0, random_state=0)
NAMES = np.array(["rot", "blau", "grün"])
FRAME = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": NAMES[COMPONENTS], "g": GROUPS.astype(str)})
CASES = {
    "blind": {},
    "aware": {"assignment": "aware"},
    "probabilities": {"gap_of": "probabilities"},
    "em": {"solver": "em", "fairness_strength": 2.0, "max_iter": 30, "tol": 1e-2},
    "gd": {"solver": "gd", "fairness_strength": 2.0, "max_iter": 60, "tol": 1e-2},
    "batches": {"batch_size": 100, "max_iter": 40, "tol": 1e-2},
    "sub-sample": {"subsample": 200},
    "several starts": {"n_init": 2},
}
# What a child process does: the same fits, and a digest of all that each gives.
CHILD = """
import sys
sys.path.insert(0, sys.argv[1])
from test_determinism import digest, fitted
for case in sys.argv[3:]:
    print(digest(fitted(case, n_jobs=int(sys.argv[2]))))
"""


def fitted(case, table=FRAME, **settings):
    chosen = {"max_gap": 0.05, "random_state": 7} | CASES[case] | settings
    model = FairMixture(3, **chosen)
    return model.fit(table, sensitive_features="g")


def digest(model):
    """A checksum over every bit of the fitted map, its labels and its figures."""
    seen = hashlib.sha256()
    groups = FRAME["g"] if model.fitted_.model.aware else None
    psi = model.predict_proba(FRAME, sensitive_features=groups)
    parts = [model.fitted_.model.theta, model.rates_, model.weights_, psi]
    parts += [model.fitted_.model.offsets] if model.fitted_.model.offsets is not None else []
    parts += [np.array([model.gap_, model.soft_gap_, model.balance_, model.lower_bound_])]
    parts += [model.history_[name] for name in ("objective", "log_likelihood", "gap")]
    for part in parts:
        seen.update(np.ascontiguousarray(part).tobytes())
    seen.update(model.predict(FRAME, sensitive_features=groups).tobytes())
    return seen.hexdigest()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("case", one_in(4, CASES))
def test_again_with_threads_and_after_a_restart_of_the_estimator(case, tmp_path):
    model = fitted(case)
    expected = digest(model)
    assert digest(fitted(case, n_jobs=2)) == expected
    # A second fit of the same object, and its file.
    assert digest(model.fit(FRAME, sensitive_features="g")) == expected
    assert digest(load(model.save(tmp_path / "model.fairmix"))) == expected


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("hash_seed", "n_jobs"), [long("0", "1"), ("4242", "2")])
def test_in_other_processes_whatever_the_hash_seed(hash_seed, n_jobs):
    cases = ["blind", "aware", "batches"]
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONWARNINGS": "ignore"}
    words = [sys.executable, "-c", CHILD, str(Path(__file__).parent), n_jobs, *cases]
    found = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.split() == [digest(fitted(case)) for case in cases]


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_from_files(suffix, tmp_path):
    path = tmp_path / f"rows{suffix}"
    if suffix == ".parquet":
        FRAME.to_parquet(path, row_group_size=150)
    else:
        FRAME.to_csv(path, index=False)
    # Groups of a CSV file are text that may look like numbers: 0 and 1 are the same names.
    expected = digest(fitted("blind"))
    for n_jobs in (1, 2):
        assert digest(fitted("blind", path, n_jobs=n_jobs)) == expected


@pytest.mark.repeats
def test_fits_side_by_side_do_not_disturb_each_other():
    cases = ["blind", "aware", "sub-sample"] if LONG else ["blind", "aware"]
    expected = {case: digest(fitted(case)) for case in cases}
    with ThreadPoolExecutor(4) as pool:
        found = dict(zip(2 * cases, pool.map(lambda c: digest(fitted(c)), 2 * cases), strict=False))
    assert found == expected


def test_a_generator_of_seeds_moves_on_and_an_int_does_not():
    state = np.random.RandomState(0)
    first = fitted("aware", random_state=state)
    assert digest(fitted("aware", random_state=np.random.RandomState(0))) == digest(first)
    assert state.randint(2**31) != np.random.RandomState(0).randint(2**31)
    sampled = [first.set_params(random_state=3).sample(5)[0].tolist() for _ in range(2)]
    assert sampled[0] == sampled[1]


@pytest.mark.parametrize("method", [FairletKMeans, VariationalFairKMeans, AlignedFairKMeans])
def test_baselines(method):
    found = [method(3, random_state=5).fit(X, sensitive_features=GROUPS) for _ in range(2)]
    assert found[0].labels_.tobytes() == found[1].labels_.tobytes()
    assert found[0].cluster_centers_.tobytes() == found[1].cluster_centers_.tobytes()
