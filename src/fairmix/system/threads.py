"""How many threads we take, and one inside a library meanwhile: bits depend on neither number."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import cache
from typing import Any

from joblib import cpu_count, effective_n_jobs
from joblib.parallel import get_active_backend
from threadpoolctl import ThreadpoolController

# How users, joblib and Dask limit the threads of libraries, workers of processes among them.
LIMIT = "OMP_NUM_THREADS"


class Gate:
    """Settings of the process: the first one in makes them, the last one out undoes them.

    Each of two threads that overlap would otherwise restore what it found. The one that entered
    second found the setting of the first, and so it would stay for good.

    Parameters
    ----------
    *settings : callables that give a context
        What holds while somebody is inside.
    """

    def __init__(self, *settings: Callable[[], AbstractContextManager[Any]]) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._inside = 0
        self._made = ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                for setting in self._settings:
                    self._made.enter_context(setting())
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._made.close()


@cache
def _blas() -> ThreadpoolController:
    # Kept, because looking for the libraries takes longer than a prediction of few rows.
    import scipy.linalg  # noqa: F401  SciPy has a BLAS of its own, which must be loaded to be found.

    return ThreadpoolController()


_one_blas_thread = Gate(lambda: _blas().limit(limits=1, user_api="blas"))


def one_blas_thread() -> AbstractContextManager[None]:
    """A context in which BLAS has one thread, for all threads of the process.

    How many threads share a product may change its last bits.

    Examples
    --------
    >>> from threadpoolctl import threadpool_info
    >>> with one_blas_thread():
    ...     {library["num_threads"] for library in threadpool_info() if "blas" in library["prefix"]}
    {1}
    """
    return _one_blas_thread


def one_thread() -> AbstractContextManager[Any]:
    """A context in which BLAS and OpenMP have one thread, as for k-means of scikit-learn.

    Examples
    --------
    >>> with one_thread():
    ...     1 + 1
    2
    """
    # Looked for anew only where scikit-learn's OpenMP may have been loaded since: the search takes
    # as long as a run of k-means of few rows.
    context: AbstractContextManager[Any] = _pools("sklearn.cluster" in sys.modules).limit(limits=1)
    return context


@cache
def _pools(kmeans_loaded: bool) -> ThreadpoolController:
    return ThreadpoolController()


def n_threads(n_jobs: int | None) -> int:
    """Threads that ``n_jobs`` means; None: as many as k-means of scikit-learn takes by itself.

    That is the limit of OpenMP, which ``OMP_NUM_THREADS``, threadpoolctl and the workers of joblib
    and Dask set, and at most one thread for each physical core that the process may use. A thread
    of joblib is one of several already, and takes no more.

    Examples
    --------
    >>> from threadpoolctl import threadpool_limits
    >>> with threadpool_limits(1):
    ...     n_threads(3), n_threads(None)
    (3, 1)
    """
    backend, configured = get_active_backend()
    nested = bool(backend.nesting_level) and LIMIT not in os.environ
    if n_jobs is not None or configured is not None or nested:
        return int(effective_n_jobs(n_jobs))
    limits: list[int] = [library.get_num_threads() for library in _openmp().lib_controllers]
    if LIMIT not in os.environ or not limits:
        limits.append(cpu_count(only_physical_cores=True))
    return max(1, min(limits))


@cache
def _openmp() -> ThreadpoolController:
    # Kept as for BLAS. Whoever asks has imported scikit-learn, which loads the library.
    return ThreadpoolController().select(user_api="openmp")
