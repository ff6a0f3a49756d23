"""Files that are not what they seem: the input as an output, pipes, endless lines, changes."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fairmix import FairMixture, load
from fairmix.cli import app, opening
from fairmix.datasets import make_grouped_blobs
from fairmix.tables import FileBlocks, find_files, seal
from repetition import every_other

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


@pytest.mark.parametrize(
    "labels", ["labels.csv", "./labels.csv", "link", "hard", "here/labels.csv"]
)
def test_a_file_of_labels_is_not_written_over(folder, labels):
    """That of an earlier repair, in the folder that the next one writes."""
    FRAME.to_csv("d.csv", index=False)
    FRAME[[]].assign(cluster=1).to_csv("labels.csv", index=False)
    Path("link").symlink_to("labels.csv")
    os.link("labels.csv", "hard")
    kept = Path("labels.csv"), Path("labels.csv").read_bytes()
    words = ["d.csv", "-l", labels, "-s", "sex", "--max-gap", "0.1", "--force", "--out"]
    assert_refused(run("repair", *words, "."), kept)
    assert_refused(run("audit", *words, "labels.csv"), kept)


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
@pytest.mark.parametrize(
    "data", every_other(["pipe.csv", "pipe.parquet", "device.csv", "pipe*", "inner.csv"])
)
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


# Pipes made here: as root, who writes over a device of the system ends it for everybody.
OVER = {
    "p.csv": ["predict", "m.fairmix", "d.csv", "--out", "p.csv"],
    "p.html": ["audit", "d.csv", "-l", "cluster", "-s", "sex", "-o", "p.html"],
    "metrics.json": ["fit", "d.csv", *FIT, "-o", "."],
    "front.json": ["pareto", "d.csv", "-s", "sex", "-o", "."],
}


@pytest.mark.parametrize("pipe", OVER)
def test_a_pipe_is_no_output(folder, pipe):
    os.mkfifo(pipe)
    found = run(*OVER[pipe], "--force")
    assert found.exit_code == 2, found.output
    assert "is no regular file" in " ".join(found.output.split())
    assert Path(pipe).is_fifo()


def test_a_model_is_not_saved_over_a_pipe(tmp_path, saved):
    os.mkfifo(tmp_path / "pipe.fairmix")
    with pytest.raises(ValueError, match="is no regular file, and a new file would take"):
        load(saved).save(tmp_path / "pipe.fairmix")
    assert [path.name for path in tmp_path.iterdir()] == ["pipe.fairmix"]


def test_a_pipe_in_a_folder_is_refused(tmp_path):
    FRAME.to_csv(tmp_path / "a.csv", index=False)
    os.mkfifo(tmp_path / "b.csv")
    with pytest.raises(ValueError, match=r"b\.csv' is no regular file.*Save its rows"):
        find_files(tmp_path)


ENDLESS = {"line": "a,b\n" + "1" * 3_000_000 + ",2\n", "quote": 'a,b\n"1,2\n' + "3,4\n" * 10**6}


@pytest.mark.parametrize("name", ENDLESS)
def test_an_endless_line_is_told_in_words(tmp_path, name):
    path = tmp_path / "long.csv"
    path.write_text(ENDLESS[name])
    with pytest.raises(ValueError, match="a line of more than 1,048,576 bytes, or a") as caught:
        FileBlocks(path)
    assert "straddling" not in str(caught.value)


# ------------------------------------------------------------------ files that change on the way
OTHER = FRAME.assign(a=FRAME["b"], b=FRAME["a"])


def written(path, frame):
    (frame.to_parquet if path.suffix == ".parquet" else frame.to_csv)(path, index=False)
    return path


def times_of(path):
    return path.stat().st_atime_ns, path.stat().st_mtime_ns


def renamed_over(path, other):
    other.replace(path)


def renamed_with_its_times(path, other):
    os.utime(other, ns=times_of(path))
    other.replace(path)


def rewritten(path, other):
    path.write_bytes(other.read_bytes())


def rewritten_with_its_times(path, other):
    before = times_of(path)
    path.write_bytes(other.read_bytes())
    os.utime(path, ns=before)


def one_byte(path, other):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    with path.open("r+b") as file:
        file.write(content)


def one_byte_with_its_times(path, other):
    before = times_of(path)
    one_byte(path, other)
    os.utime(path, ns=before)


def there_and_back(path, other):
    content, before = path.read_bytes(), times_of(path)
    path.write_bytes(other.read_bytes())
    path.write_bytes(content)
    os.utime(path, ns=before)


def linked(path, other):
    path.unlink()
    path.symlink_to(other)


def hard_linked(path, other):
    path.unlink()
    os.link(other, path)


def removed_and_made_anew(path, other):
    content = other.read_bytes()
    path.unlink()
    path.write_bytes(content)


WAYS = [
    renamed_over,
    renamed_with_its_times,
    rewritten,
    rewritten_with_its_times,
    one_byte,
    one_byte_with_its_times,
    there_and_back,
    linked,
    hard_linked,
    removed_and_made_anew,
]


def changing(monkeypatch, change, when):
    """Let the files change before a pass."""
    passes, frames = 0, FileBlocks.frames

    def counted(self, numbers):
        nonlocal passes
        passes += 1
        if passes == when:
            change()
        return frames(self, numbers)

    monkeypatch.setattr(FileBlocks, "frames", counted)
    return lambda: passes


def fitted(path):
    model = FairMixture(2, max_gap=0.2, random_state=0)
    return model, lambda: model.fit(path, sensitive_features="sex")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("way", WAYS)
def test_a_file_that_changes_between_passes_gives_no_model(tmp_path, monkeypatch, way, suffix):
    path = written(tmp_path / f"rows{suffix}", FRAME)
    other = written(tmp_path / f"other{suffix}", OTHER)
    passes = changing(monkeypatch, lambda: way(path, other), 3)
    model, fit = fitted(path)
    with pytest.raises(ValueError, match=r"rows.*was changed or replaced while.*start again"):
        fit()
    assert passes() >= 3
    assert not hasattr(model, "fitted_")


def test_a_change_that_no_stamp_shows_is_found_at_the_end(tmp_path, monkeypatch):
    """As on a file system whose clock is coarse."""
    monkeypatch.setattr(seal.Stamp, "check", lambda self, path: None)
    path = written(tmp_path / "rows.csv", FRAME)
    text = path.read_text()
    changing(monkeypatch, lambda: path.write_text(text.replace("f\n", "m\n", 1)), 9)
    model, fit = fitted(path)
    with pytest.raises(ValueError, match="bytes were changed while they were read"):
        fit()
    assert not hasattr(model, "fitted_")


def test_predict_notices_a_file_that_changes(tmp_path, monkeypatch, saved):
    path = written(tmp_path / "rows.csv", FRAME[["a", "b"]])
    other = written(tmp_path / "other.csv", OTHER[["a", "b"]])
    changing(monkeypatch, lambda: renamed_over(path, other), 1)
    with pytest.raises(ValueError, match="was changed or replaced"):
        load(saved).predict(path, output=tmp_path / "labels.parquet")
    assert not (tmp_path / "labels.parquet").exists()


@pytest.mark.parametrize("command", ["fit", "audit"])
@pytest.mark.parametrize("stamped", [True, False])
def test_the_command_line_notices_a_file_that_changes(folder, monkeypatch, command, stamped):
    if not stamped:
        monkeypatch.setattr(seal.Stamp, "check", lambda self, path: None)
    other = written(Path("other.csv"), OTHER.assign(cluster=1))
    changing(monkeypatch, lambda: renamed_over(Path("d.csv"), other), 2)
    # Else all rows stay in memory, and the file is read once.
    monkeypatch.setattr(opening, "MEMORY", 0)
    words = {
        "fit": [*FIT, "--memory", "0", "-o", "out"],
        "audit": ["-l", "cluster", "-s", "sex", "-o", "a.html"],
    }
    found = run(command, "d.csv", *words[command])
    assert found.exit_code == 3, found.output
    assert "start again" in found.output
    assert not Path("out").exists()
    assert not Path("a.html").exists()


def test_a_file_may_be_read_and_its_access_time_change(tmp_path, monkeypatch):
    path = written(tmp_path / "rows.csv", FRAME)
    then = path.stat().st_mtime_ns
    changing(monkeypatch, lambda: path.read_bytes(), 3)
    model, fit = fitted(path)
    assert fit().fitted_ is model.fitted_
    assert path.stat().st_mtime_ns == then
