"""The rooms keep to their doors."""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from fairmix import FairMixture
from fairmix.datasets import make_grouped_blobs
from fairmix.kernels import sweep

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "fairmix"


def test_import_contracts_hold():
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command; lint_imports_command()",
            "--no-cache",
            "--no-logo",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def room_of(path):
    """The first step below the package: a folder, or a module at the root."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(tree):
    """Modules of the package that a file imports from, each with a name; all are absolute."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the room"
            for alias in node.names:
                yield [*(node.module or "").split("."), alias.name]
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.split(".")


def of_self(node):
    """Whether an attribute is of the object itself."""
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def reads(tree):
    """Attributes that a file reads of something else than its own object."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) if not of_self(node):
                yield name
            case ast.Call(
                func=ast.Name("getattr" | "hasattr" | "setattr"),
                args=[_, ast.Constant(str(name)), *_],
            ):
                yield name


def definitions(tree):
    """Names that a file defines: functions, classes, variables, attributes of self."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(name, ast.Store()):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Store()) if of_self(node):
                yield name


def private_names_across_rooms(sources):
    """Underscore names that files read and only other rooms define: (room, name) to the files.

    ``sources`` has the text of each file. Names that no room defines are those of other packages.
    """
    trees = {path: ast.parse(text) for path, text in sources.items()}
    defined = defaultdict(set)
    for path, tree in trees.items():
        defined[room_of(path)] |= set(filter(is_private, definitions(tree)))
    anywhere = set().union(*defined.values())
    found = defaultdict(set)
    for path, tree in trees.items():
        room = room_of(path)
        foreign = anywhere - defined[room]
        names = [name for name in reads(tree) if name in foreign]
        for top, *way in imports(tree):
            if top == "fairmix" and way[0] != room:
                # The room itself may begin with an underscore, as _version does.
                names += filter(is_private, way[1:])
        for name in names:
            found[room, name].add(path.name)
    return found


def test_no_room_reads_an_underscore_name_of_another():
    sources = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    found = private_names_across_rooms(sources)
    assert found == {}, "read a public name instead"


def test_what_reading_an_underscore_name_is():
    sources = {
        "one/a.py": "from fairmix._version import __version__\n_limit = 3\nself._model = 1\n",
        "one/b.py": "from fairmix.one._parts import _some\nx._limit, x._replace, y.__len__\n",
        "two/c.py": "from fairmix.one import _limit\nimport fairmix.one._parts\nself._model\n",
        "two/d.py": "getattr(x, '_model', None)\ny._limit\nx._replace\n",
    }
    found = private_names_across_rooms({PACKAGE / name: text for name, text in sources.items()})
    assert found == {
        ("two", "_limit"): {"c.py", "d.py"},
        ("two", "_model"): {"d.py"},
        ("two", "_parts"): {"c.py"},
    }


# ----------------------------------------------------------------------------------- seams
# Where rooms meet: a pass and its rows, solvers, criteria, limits, families, a whole fit.
SEAMS = (
    "kernels/sweep.py",
    "tables/_base.py",
    "solvers/_base.py",
    "criteria/_base.py",
    "criteria/limits.py",
    "mixture/families/_base.py",
    "fitting/learn.py",
    "fitting/schedule.py",
)


def untyped(source):
    """Functions whose signature has an Any."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            given = node.args
            every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
            types = [node.returns, *(one.annotation for one in every if one is not None)]
            names = (name for one in types if one is not None for name in ast.walk(one))
            if any(isinstance(name, ast.Name) and name.id == "Any" for name in names):
                yield node.name


def test_no_signature_of_a_seam_has_an_any():
    for name in SEAMS:
        assert [*untyped((PACKAGE / name).read_text(encoding="utf-8"))] == [], name


def test_what_an_any_is():
    source = (
        "def one(x: int, *y: list[Any]): ...\ndef two() -> Any: ...\ndef three(x: AnyLimit): ..."
    )
    assert [*untyped(source)] == ["one", "two"]


# ------------------------------------------------------------------------------- said once
def code_lines(source):
    """Lines that do something: no comment, docstring, import or lone bracket."""
    silent = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Expr(ast.Constant(str())):
                silent.update(range(node.lineno, node.end_lineno + 1))
    for number, line in enumerate(source.splitlines(), 1):
        text = line.strip()
        if number not in silent and not text.startswith("#") and re.search(r"\w", text):
            yield number, text


def repeated(sources, length=6):
    """Places of runs of equal lines that stand more than once."""
    runs = defaultdict(list)
    for name, source in sources.items():
        lines = list(code_lines(source))
        for first in range(len(lines) - length + 1):
            run = tuple(text for _, text in lines[first : first + length])
            runs[run].append(f"{name}:{lines[first][0]}")
    return [places for places in runs.values() if len(places) > 1]


def test_no_six_lines_stand_twice():
    files = {str(path.relative_to(PACKAGE)): path for path in sorted(PACKAGE.rglob("*.py"))}
    found = repeated({name: path.read_text(encoding="utf-8") for name, path in files.items()})
    assert found == []


def test_what_standing_twice_is():
    body = "".join(f"    x{i} = {i}\n" for i in range(6))
    sources = {"a.py": f"def one():\n{body}", "b.py": f'"""Two."""\ndef two():\n    # Why.\n{body}'}
    assert repeated(sources) == [["a.py:2", "b.py:4"]]


# ------------------------------------------------------------------------------------- a fit
def test_the_walk_from_fit_to_the_kernel_has_at_most_seven_steps(monkeypatch):
    """From file to file, in every climb of a fit; CONTRIBUTING draws it."""
    walks = set()

    def watched(*arguments, **settings):
        files, frame = [], sys._getframe(1)
        while frame is not None:
            name = frame.f_globals.get("__name__", "")
            if name.startswith("fairmix.") and (not files or files[-1] != name):
                files.append(name)
            frame = frame.f_back
        if "fairmix.solvers.dual" in files and "fairmix.solvers.polish" not in files:
            walks.add(tuple(reversed(files)))
        return forward(*arguments, **settings)

    forward = sweep.forward
    monkeypatch.setattr(sweep, "forward", watched)
    X, groups, _ = make_grouped_blobs(200, 2, random_state=0)
    FairMixture(2, random_state=0).fit(X, sensitive_features=groups)
    assert walks
    for walk in walks:
        assert walk[0] == "fairmix.estimator.fair_mixture"
        assert walk[-1].startswith("fairmix.kernels.")
        assert len(walk) - 1 <= 7, walk
