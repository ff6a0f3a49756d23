"""Names come from the package when they are asked for, and bring no more than they need."""

import json
import pydoc
import re
import subprocess
import sys
from importlib.metadata import version

import pytest

import fairmix

HEAVY = ("dask", "distributed", "matplotlib", "narwhals", "numpy", "onnx", "ot", "pandas", "polars")
HEAVY += ("pyarrow", "rich", "scipy", "sklearn")


def loaded_after(code):
    """Top-level packages that a fresh interpreter has after running some code."""
    report = "import json, sys; print(json.dumps(sorted({n.split('.')[0] for n in sys.modules})))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "code",
    [
        "import fairmix",
        "import fairmix; dir(fairmix); fairmix.__version__",
        "import fairmix.cli",
        "from typer.testing import CliRunner; from fairmix.cli import app\n"
        "assert 'Commands:' in CliRunner().invoke(app, ['--help']).output",
        "from typer.testing import CliRunner; from fairmix.cli import app\n"
        "assert '--max-gap' in CliRunner().invoke(app, ['fit', '--help']).output",
    ],
)
def test_the_package_and_the_help_load_nothing_heavy(code):
    loaded = loaded_after(code)
    assert "fairmix" in loaded
    # Older versions of typer load rich whenever a command has options.
    typer = tuple(map(int, version("typer").split(".")[:2]))
    assert not loaded & {*HEAVY} - ({"rich"} if typer < (0, 20) else set())


def test_the_package_does_not_load_the_command_line():
    assert not loaded_after("import fairmix") & {"typer", "click"}


def test_a_model_loads_no_optional_package():
    # Who loads a model to predict does not pay for what only a fit, or a file, needs.
    late = ("sklearn.cluster", "sklearn.linear_model", "pyarrow.parquet", "pyarrow.csv")
    code = f"import sys; assert sys.modules.keys().isdisjoint({late})"
    loaded = loaded_after(f"from fairmix import FairMixture\n{code}")
    assert "sklearn" in loaded
    assert not loaded & {"dask", "distributed", "matplotlib", "onnx", "ot", "polars", "typer"}


# Where pandas is installed, scikit-learn loads it, and it loads Arrow.
WITHOUT_PANDAS = """
import sys
class WithoutPandas:
    def find_spec(name, path=None, target=None):
        if name == "pandas":
            raise ImportError(name)
sys.meta_path.insert(0, WithoutPandas)
import numpy as np
from fairmix import FairMixture
X = np.random.default_rng(0).normal(size=(80, 1)).round(1)
one, other = X[:, 0] < 0.3, X[:, 0] < -0.3
for groups in (one, np.where(one, "f", "m"), np.stack([one, other], axis=1)):
    model = FairMixture(2, max_gap=0.5, max_iter=2, tol=1, n_init=1, random_state=0)
    model.fit(X, sensitive_features=groups, sample_weight=np.ones(80))
    model.predict(X, sensitive_features=groups)
    model.fairness_report(X, groups, n_boot=2)
"""


def test_arrays_do_without_arrow():
    # Only then the label of each row, which is Arrow's work: the line before it can fail.
    code = "assert 'pyarrow' not in sys.modules\nmodel.fit(X, sensitive_features=X[:, 0])"
    assert "pyarrow" in loaded_after(f"{WITHOUT_PANDAS}{code}")


@pytest.mark.parametrize("name", fairmix.__all__)
def test_every_public_name_resolves_to_one_object(name):
    found = getattr(fairmix, name)
    assert found.__name__ == name
    assert found is getattr(fairmix, name)
    assert name in dir(fairmix)


def test_the_names_for_type_checkers_are_those_at_run_time():
    assert sorted(fairmix._HOMES) == sorted(fairmix.__all__)


def test_rooms_are_attributes():
    rooms = fairmix._ROOMS
    code = "\n".join(f"assert fairmix.{room}.__name__ == 'fairmix.{room}'" for room in rooms)
    assert "fairmix" in loaded_after(f"import fairmix\n{code}")


def test_what_is_shown_is_public():
    rooms = {"baselines", "datasets", "export", "metrics", "plot", "report", "results", "studies"}
    assert set(dir(fairmix)) == {*fairmix.__all__, *rooms, "__version__"}
    shown = pydoc.plain(pydoc.render_doc(fairmix.FairMixture))
    names = set(re.findall(r"^ \|  (\w+)\(self", shown, re.MULTILINE))
    # Dunder methods are Python's and scikit-learn's.
    assert [name for name in names if name.startswith("_") and not name.endswith("__")] == []
    assert {"fit", "predict", "certify"} <= names


def test_a_function_is_not_hidden_by_a_module():
    rooms = "fairmix.studies, fairmix.export, fairmix.results"
    code = f"import {rooms}\nfrom fairmix import *\n"
    names = ", ".join(fairmix.__all__)
    assert "fairmix" in loaded_after(f"{code}assert all(map(callable, [{names}]))")


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'fairmix' has no attribute 'FairMixtures'"):
        fairmix.FairMixtures  # noqa: B018
