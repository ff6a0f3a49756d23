"""Load: many threads and processes on one model, and memory that does not grow."""

import gc
import multiprocessing
import threading
import tracemalloc
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

from fairmix import FairMixture, load
from fairmix.datasets import make_grouped_blobs
from repetition import times

X, GROUPS, _ = make_grouped_blobs(300, 3, 2, separation=2.0, random_state=0)
THREADS, PROCESSES = 8, times(2, 4)
CALLS = times(200, 4_000)
# Growth over all calls that is no leak: caches and counters, not rows. A leak of one small array
# per call would be far more.
SPARE_BYTES = 200_000
STATUS = Path("/proc/self/status")


@pytest.fixture(scope="module")
def model():
    fitted = FairMixture(3, max_gap=0.05, random_state=0)
    return fitted.fit(X, sensitive_features=GROUPS)


def fit(seed):
    model = FairMixture(3, max_gap=0.05, assignment="aware", random_state=seed)
    return model.fit(X, sensitive_features=GROUPS).labels_.tobytes()


def answers(model):
    """Everything that a model says of some rows, as bytes."""
    return (
        model.predict(X).tobytes(),
        model.predict_proba(X).tobytes(),
        model.score_samples(X).tobytes(),
    )


def work_with_file(path, seed):
    """What a process does: it loads, predicts and fits."""
    return answers(load(path)), fit(seed)


def test_threads_predict_and_fit_at_once(model, record_property):
    expected, fits = answers(model), [fit(seed) for seed in range(2)]
    gate = threading.Barrier(THREADS)

    def work(number):
        gate.wait()
        if number < 2:
            return fit(number) == fits[number]
        return all(answers(model) == expected for _ in range(5))

    with ThreadPoolExecutor(THREADS) as pool:
        assert list(pool.map(work, range(THREADS))) == [True] * THREADS
    record_property("threads", THREADS)


@pytest.mark.repeats
def test_processes_predict_with_one_file_and_fit(model, tmp_path, record_property):
    path = model.save(tmp_path / "model.fairmix")
    expected = [(answers(model), fit(seed)) for seed in range(PROCESSES)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(PROCESSES, mp_context=context) as pool:
        found = list(pool.map(work_with_file, [path] * PROCESSES, range(PROCESSES)))
    assert found == expected
    record_property("processes", PROCESSES)


def test_threads_save_over_one_file(model, tmp_path):
    path = model.save(tmp_path / "model.fairmix")
    content = path.read_bytes()

    def work(number):
        if number % 2:
            model.save(path)
        return load(path).n_components

    with ThreadPoolExecutor(THREADS) as pool:
        assert list(pool.map(work, range(4 * THREADS))) == [3] * 4 * THREADS
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def resident():
    """Bytes of this process in memory."""
    lines = STATUS.read_text(encoding="utf-8").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


@pytest.mark.repeats
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_memory_does_not_grow_with_calls(n_jobs, model, record_property):
    model = model.__sklearn_clone__().set_params(n_jobs=n_jobs).fit(X, sensitive_features=GROUPS)
    rows = X[:5]
    for _ in range(50):
        model.predict(rows)
    gc.collect()
    threads = threading.active_count()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        pages = resident() if STATUS.exists() else 0
        for _ in range(CALLS):
            model.predict(rows)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    record_property("calls", CALLS)
    record_property("grown_bytes", grown)
    assert grown < SPARE_BYTES
    assert threading.active_count() <= threads
    if STATUS.exists():
        # The books of tracemalloc are in it, so only a leak of kilobytes per call shows here.
        assert resident() - pages < SPARE_BYTES + 2_000 * CALLS
