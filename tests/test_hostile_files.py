"""Files that are not what they seem: the input named as an output, pipes, endless lines."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fairmix import FairMixture
from fairmix.cli import app
from fairmix.datasets import make_grouped_blobs
from fairmix.tables import FileBlocks, find_files

X, GROUPS, _ = make_grouped_blobs(300, 3, 2, separation=2.0, random_state=0)
FRAME = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "sex": np.where(GROUPS, "f", "m")})
FIT = ["-s", "sex", "-k", "3", "--max-gap", "0.1", "--no-front", "--force", "--quiet"]


def run(*words):
    return CliRunner().invoke(app, list(map(str, words)))


# ------------------------------------------------------------------ an input is never an output
@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    model = FairMixture(3, max_gap=0.1, random_state=0).fit(FRAME, sensitive_features="sex")
    return model.save(tmp_path_factory.mktemp("model") / "m.fairmix")


@pytest.fixture
def folder(tmp_path, monkeypatch, saved):
    """A folder with data and a model, under many names."""
    monkeypatch.chdir(tmp_path)
    FRAME.assign(cluster=1).to_csv("d.csv", index=False)
    Path("m.fairmix").write_bytes(saved.read_bytes())
    Path("sub").mkdir()
    Path("link.csv").symlink_to("d.csv")
    os.link("d.csv", "hard.csv")
    os.link("m.fairmix", "model.csv")
    Path("here").symlink_to(".")
    return tmp_path


SPELLINGS = ["d.csv", "./d.csv", "sub/../d.csv", "link.csv", "hard.csv", "here/d.csv", "model.csv"]


def assert_refused(found, *kept):
    assert found.exit_code == 2, found.output
    assert "is read by this command" in found.output
    for path, content in kept:
        assert path.read_bytes() == content, path
    assert not [path for path in Path().iterdir() if ".part" in path.name]


@pytest.mark.parametrize("out", SPELLINGS)
def test_predict_does_not_write_over_what_it_reads(folder, out):
    kept = [(path, path.read_bytes()) for path in (Path("d.csv"), Path("m.fairmix"))]
    assert_refused(run("predict", "m.fairmix", "d.csv", "--out", out, "--force"), *kept)


@pytest.mark.parametrize("out", SPELLINGS[:-1])
def test_audit_does_not_write_over_what_it_reads(folder, out):
    kept = Path("d.csv"), Path("d.csv").read_bytes()
    words = ["-l", "cluster", "-s", "sex", "--out", out, "--force"]
    assert_refused(run("audit", "d.csv", *words), kept)


@pytest.mark.parametrize("data", ["labels.csv", "./labels.csv", "lab*.csv", "here/labels.csv"])
def test_fit_does_not_write_over_what_it_reads(folder, data):
    FRAME.to_csv("labels.csv", index=False)
    kept = Path("labels.csv"), Path("labels.csv").read_bytes()
    assert_refused(run("fit", data, *FIT, "-o", ".", "--labels-format", "csv"), kept)


def test_pareto_does_not_write_over_what_it_reads(folder):
    os.link("d.csv", "front.json")
    kept = Path("front.json"), Path("d.csv").read_bytes()
    assert_refused(run("pareto", "d.csv", "-s", "sex", "-o", ".", "--force"), kept)


def test_old_results_may_be_written_over(folder):
    Path("labels.csv").write_text("old")
    found = run("predict", "m.fairmix", "d.csv", "--out", "labels.csv", "--force")
    assert found.exit_code == 0, found.output
    assert len(pd.read_csv("labels.csv")) == len(FRAME)


# ------------------------------------------------------------------ what is no regular file
@pytest.mark.parametrize("data", ["pipe.csv", "pipe.parquet", "pipe*", "device.csv", "inner.csv"])
def test_pipes_devices_and_folders_are_refused_at_once(tmp_path, data):
    os.mkfifo(tmp_path / "pipe.csv")
    os.mkfifo(tmp_path / "pipe.parquet")
    (tmp_path / "device.csv").symlink_to("/dev/zero")
    (tmp_path / "inner.csv" / "more.csv").mkdir(parents=True)
    # In a process of its own, which is ended where it hangs.
    words = [sys.executable, "-m", "fairmix", "fit", data, "-s", "sex"]
    done = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 3, done.stderr
    assert "is no regular file" in done.stderr or "cannot be read with the others" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_pipe_in_a_folder_is_refused(tmp_path):
    FRAME.to_csv(tmp_path / "a.csv", index=False)
    os.mkfifo(tmp_path / "b.csv")
    with pytest.raises(ValueError, match=r"b\.csv' is no regular file.*Save its rows"):
        find_files(tmp_path)


@pytest.mark.parametrize(
    "text", ["a,b\n" + "1" * 3_000_000 + ",2\n", 'a,b\n"1,2\n' + "3,4\n" * 10**6]
)
def test_an_endless_line_is_told_in_words(tmp_path, text):
    path = tmp_path / "long.csv"
    path.write_text(text)
    with pytest.raises(
        ValueError, match="a line of more than 1,048,576 bytes, or a quote"
    ) as caught:
        FileBlocks(path)
    assert "straddling" not in str(caught.value)
