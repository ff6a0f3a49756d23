"""Hypothesis profiles, and the data sets in the paper's preparation."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from repetition import LONG

# The long run follows the usual one in minutes; the campaigns of generators/reliability ask for
# more examples.
EXAMPLES = int(os.environ.get("FAIRMIX_EXAMPLES", "100" if LONG else "25"))
# No deadline: the first call of a test may compile, import or wait for a busy core.
settings.register_profile(
    "fairmix", max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fairmix")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only the long run does; tell what the rows of the matrix of inputs are for."""
    from inputs import Bad, Odd

    if not LONG:
        left_out = [item for item in items if item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    for item in items:
        row = item.callspec.params.get("row") if hasattr(item, "callspec") else None
        if isinstance(row, Bad | Odd):
            verdict = "refused" if isinstance(row, Bad) else "works"
            item.user_properties.append(("verdict", verdict))


@pytest.fixture
def make_table(request: pytest.FixtureRequest) -> Any:
    """A maker of tables whose rows live where the parameter says."""
    from cases import TABLES

    return TABLES[request.param](request)


@contextmanager
def client_of_threads(**how: Any) -> Iterator[Any]:
    """A cluster of threads, which starts at once; ``test_dask.py`` has processes."""
    distributed = pytest.importorskip("distributed")
    where = {"processes": False, "n_workers": 1, "threads_per_worker": 2}
    with (
        distributed.LocalCluster(**where, dashboard_address=":0") as cluster,
        distributed.Client(cluster, **how) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def cluster() -> Any:
    """A client, which what is not told of a cluster finds."""
    with client_of_threads() as client:
        yield client


@pytest.fixture(scope="module")
def to_dask() -> Any:
    """Puts files on a cluster, several runs of blocks in few rows."""
    pytest.importorskip("distributed")
    from fairmix.tables import dask as on_dask

    with (
        pytest.MonkeyPatch.context() as patch,
        client_of_threads(set_as_default=False) as client,
    ):
        patch.setattr(on_dask, "RUN_BLOCKS", 2)
        yield lambda files: on_dask.frames_from_files(files, client)


@dataclass(frozen=True)
class PaperData:
    """A data set as the paper prepares it: standardised columns, then rows of length one."""

    X: np.ndarray
    sensitive: dict[str, Any]
    categories: Any
    raw: Any


def _prepare(raw: Any) -> PaperData:
    from fairmix.datasets import paper_preprocessing

    return PaperData(paper_preprocessing(raw.X), raw.sensitive, raw.categories, raw)


def _need_data_folder(name: str) -> None:
    if not os.environ.get("FAIRMIX_DATA"):
        pytest.skip(f"{name} is not bundled: set FAIRMIX_DATA to a folder with {name}.parquet")


@pytest.fixture(scope="session")
def adult() -> PaperData:
    """Adult; sensitive: sex."""
    from fairmix.datasets import load_adult

    return _prepare(load_adult())


@pytest.fixture(scope="session")
def bank() -> PaperData:
    """Bank; sensitive: marital (three groups), married (two)."""
    _need_data_folder("bank")
    from fairmix.datasets import fetch_bank

    return _prepare(fetch_bank())


@pytest.fixture(scope="session")
def credit() -> PaperData:
    """Credit; sensitive: education (three groups), education2 (two)."""
    _need_data_folder("credit")
    from fairmix.datasets import fetch_credit

    return _prepare(fetch_credit())
