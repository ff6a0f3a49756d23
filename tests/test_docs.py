"""The documentation: its code runs, its links lead somewhere, and every public name is in it."""

import importlib
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(
    path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]
)
EXAMPLES = sorted((DOCS / "examples").glob("*.py"))

# Pages whose tests ask for more than that the code runs.
TESTED_ELSEWHERE = {
    "docs/how-to/aif360.md": "test_how_to.py",
    "docs/how-to/choose-a-bound.md": "test_path.py",
    "docs/how-to/choose-the-number-of-clusters.md": "test_path.py",
    "docs/how-to/compare-methods.md": "test_compare.py",
    "docs/how-to/fairlearn.md": "test_how_to.py",
    "docs/how-to/large-data.md": "test_files.py",
    "docs/how-to/missing-values.md": "test_how_to.py",
    "docs/how-to/mlflow.md": "test_mlflow.py",
    "docs/how-to/model-files.md": "test_how_to.py",
    "docs/how-to/onnx.md": "test_how_to.py",
    "docs/how-to/pipelines.md": "test_how_to.py",
    "docs/how-to/report.md": "test_report.py",
    "docs/how-to/streams.md": "test_streaming.py",
}
# What a page takes for granted.
GIVEN = {
    "docs/certificate.md": """
from fairmix import FairMixture
from fairmix.datasets import make_grouped_blobs

X_held_out, sex_held_out, _ = make_grouped_blobs(400, 3, random_state=0)
model = FairMixture(3, fairness_strength=0, random_state=0).fit(X_held_out)
""",
}
# What a tutorial needs beside matplotlib.
NEEDED = {
    "06_on_dask_workers": "distributed",
    "07_auditing_clusters": "pandas",
    "09_with_fairlearn": "fairlearn",
}
ROOMS = (
    "fairmix",
    "fairmix.baselines",
    "fairmix.datasets",
    "fairmix.export",
    "fairmix.metrics",
    "fairmix.plot",
    "fairmix.report",
    "fairmix.results",
    "fairmix.studies",
)
PROMISES = re.compile(
    r"\b(remov|solv|eliminat|cur|fix)(e|es|ed|ing|s)? (the |all |any )?(bias|unfairness|fairness)\b"
    r"|\b(debias|unbiased (data|cluster)|bias-free)",
    re.IGNORECASE,
)


def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


def code_of(page):
    """The Python of a page, with blank lines elsewhere, so that an error names the right line."""
    lines, inside = [], False
    for line in text_of(page).splitlines():
        fence = line.startswith("```")
        lines.append(line if inside and not fence else "")
        inside = line == "```python" if fence else inside
    return "\n".join(lines)


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """An empty folder, and figures that nobody sees."""
    plt = pytest.importorskip("matplotlib.pyplot", reason="the extra plot is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    plt.close("all")  # those of other tests
    yield plt
    plt.close("all")


# ------------------------------------------------------------------------------------ the code runs
@pytest.mark.parametrize(
    "page", [page for page in PAGES if code_of(page).strip() and page not in TESTED_ELSEWHERE]
)
def test_the_code_of_the_page_runs(page, alone):
    names = {"__name__": "page"}
    exec(GIVEN.get(page, ""), names)
    exec(compile(code_of(page), ROOT / page, "exec"), names)


@pytest.mark.parametrize("page", TESTED_ELSEWHERE)
def test_pages_that_are_tested_elsewhere_are(page):
    assert code_of(page).strip()
    assert Path(page).stem in (ROOT / "tests" / TESTED_ELSEWHERE[page]).read_text(encoding="utf-8")


# On all of Adult, on a cluster or with a search: in the long run only.
LARGE = ("01_", "05_", "06_", "08_", "09_")


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(
            path, id=path.stem, marks=pytest.mark.long if path.stem.startswith(LARGE) else ()
        )
        for path in EXAMPLES
    ],
)
def test_the_tutorial_runs_and_draws_one_picture(example, alone, capsys):
    pytest.importorskip(NEEDED.get(example.stem, "fairmix"))
    runpy.run_path(str(example), run_name="__main__")
    assert len(alone.get_fignums()) == 1
    assert all(ax.has_data() for ax in alone.gcf().axes)
    assert capsys.readouterr().out


def test_every_tutorial_begins_with_its_title():
    assert len(EXAMPLES) == 10
    for example in EXAMPLES:
        title, rule = example.read_text(encoding="utf-8").splitlines()[1:3]
        assert rule == "=" * len(title)


# --------------------------------------------------------------------------------------- the pages
def prose(page):
    return re.sub(r"```.*?```", "", text_of(page), flags=re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files(page):
    links = re.findall(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)", prose(page))
    for link in links:
        if re.match(r"[a-z]+:", link):
            continue
        target = (ROOT / page).parent / link
        if target.parent == DOCS / "tutorials":  # which Sphinx makes
            target = DOCS / "examples" / target.with_suffix(".py").name
        assert target.exists(), link


def listed():
    """Pages that a table of contents names, by path without suffix."""
    found = set()
    for page in DOCS.rglob("*.md"):
        for block in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
            entries = [line for line in block.splitlines() if line and not line.startswith(":")]
            for entry in entries:
                name = re.sub(r".*<(.*)>", r"\1", entry)
                found |= {path.resolve().with_suffix("") for path in page.parent.glob(f"{name}.md")}
    return found


def test_every_page_is_in_a_table_of_contents():
    pages = {path.with_suffix("") for path in DOCS.rglob("*.md")}
    assert pages - listed() == {DOCS / "index"}


@pytest.mark.parametrize("page", [page for page in PAGES if "writing-about" not in page])
def test_no_page_promises_too_much(page):
    assert not PROMISES.search(text_of(page))


def test_no_docstring_promises_too_much():
    sources = [*(ROOT / "src").rglob("*.py"), *EXAMPLES]
    assert not [path.name for path in sources if PROMISES.search(path.read_text("utf-8"))]


def test_what_a_promise_is():
    assert PROMISES.search("The method removes bias.")
    assert PROMISES.search("a debiased clustering")
    assert not PROMISES.search("It bounds the gap.")


# ---------------------------------------------------------------------------------- the reference
def reference():
    """Names in the reference, by module."""
    names, module = {}, ""
    for line in text_of("docs/reference/index.md").splitlines():
        if found := re.fullmatch(r"\.\. currentmodule:: (\S+)", line):
            module = found[1]
        elif found := re.fullmatch(r"   (\w+)", line):
            names.setdefault(module, []).append(found[1])
    return names


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_is_in_the_reference(room):
    module, here = importlib.import_module(room), reference()
    everywhere = {name for names in here.values() for name in names}
    assert set(module.__all__) <= everywhere
    for name in here.get(room, ()):
        assert getattr(module, name).__doc__


def test_the_reference_names_nothing_twice():
    names = [(module, name) for module, names in reference().items() for name in names]
    assert len(set(names)) == len(names)
    assert set(reference()) <= set(ROOMS)
