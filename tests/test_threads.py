"""How many threads are taken: as many as k-means takes, and no more than somebody has left."""

import numpy as np
import pytest
from joblib import Parallel, cpu_count, delayed, effective_n_jobs, parallel_config
from sklearn.model_selection import GridSearchCV
from threadpoolctl import threadpool_limits

from fairmix import FairMixture
from fairmix.datasets import make_grouped_blobs
from fairmix.system.threads import LIMIT, n_threads


def test_a_number_is_taken_as_it_is():
    assert (n_threads(1), n_threads(3)) == (1, 3)
    assert n_threads(-1) == effective_n_jobs(-1)


def test_none_is_the_limit_of_openmp(monkeypatch):
    monkeypatch.delenv(LIMIT, raising=False)
    for limit in (1, 2):
        with threadpool_limits(limit, user_api="openmp"):
            assert n_threads(None) == min(limit, cpu_count(only_physical_cores=True))
    # Whoever sets the variable means it, whatever the cores.
    monkeypatch.setenv(LIMIT, "5")
    with threadpool_limits(5, user_api="openmp"):
        assert n_threads(None) == 5


def test_a_configuration_of_joblib_counts():
    with parallel_config(n_jobs=3):
        assert n_threads(None) == 3


def test_a_thread_of_joblib_takes_one(monkeypatch):
    monkeypatch.delenv(LIMIT, raising=False)
    found = Parallel(n_jobs=2, backend="threading")(delayed(n_threads)(None) for _ in range(2))
    assert found == [1, 1]


class Counting(FairMixture):
    """Its score is the number of its threads."""

    def score(self, X, y=None, *, sensitive_features=None, sample_weight=None):
        return float(n_threads(self.n_jobs))


# Processes that import all of scikit-learn take their time.
@pytest.mark.long
def test_a_search_on_two_processes_does_not_take_more_threads_than_cores(monkeypatch):
    monkeypatch.delenv(LIMIT, raising=False)
    each = max(1, cpu_count() // 2)
    X, _, _ = make_grouped_blobs(60, 2, 2, random_state=0)
    found = GridSearchCV(
        Counting(2, fairness_strength=0, random_state=0), {"tol": [1e-3, 1e-2]}, cv=2, n_jobs=2
    ).fit(X)
    np.testing.assert_array_equal(found.cv_results_["mean_test_score"], [each, each])
