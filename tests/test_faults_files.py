"""Faults of the file system: a full disk, no permission, a folder that goes away."""

import errno
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fairmix import FairMixture, load, report
from fairmix.cli import app, outputs
from fairmix.datasets import make_grouped_blobs
from fairmix.tables import journal

N = 4000
X, GROUPS, _ = make_grouped_blobs(N, 3, 2, separation=2.0, random_state=0)
FRAME = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "sex": np.where(GROUPS, "f", "m")})
FIT = ["-s", "sex", "-k", "3", "--max-gap", "0.05", "--no-front", "--seed", "1"]
# A disk on which an old file fits and a new one does not.
DISK_BYTES = 32_768
NOBODY = 65_534


@pytest.fixture(scope="module")
def model():
    fitted = FairMixture(3, max_gap=0.05, random_state=0)
    return fitted.fit(FRAME, sensitive_features="sex")


def mount(folder, *options):
    words = ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(folder)]
    if shutil.which("mount") is None or os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {done.stderr.strip()}")


@pytest.fixture
def disk(tmp_path):
    """A disk of a few pages."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount(folder, f"size={DISK_BYTES}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def sealed_disk(tmp_path, model):
    """A disk that can be read and not written, with a model on it."""
    folder = tmp_path / "sealed"
    folder.mkdir()
    mount(folder, "size=1m")
    model.save(folder / "model.fairmix")
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def fill(folder):
    """Take what is left of a disk."""
    with pytest.raises(OSError, match="No space left"):
        (folder / "filler").write_bytes(b"\0" * 2 * DISK_BYTES)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_model_on_a_full_disk(model, disk):
    path = model.save(disk / "model.fairmix")
    content = path.read_bytes()
    fill(disk)
    for target in (path, disk / "other.fairmix"):
        with pytest.raises(OSError, match="No space left") as caught:
            model.save(target, metadata={"long": "x" * DISK_BYTES})
        assert caught.value.errno == errno.ENOSPC
    assert path.read_bytes() == content
    assert names(disk) == ["filler", "model.fairmix"]
    assert (load(path).predict(FRAME[["a", "b"]]) == model.labels_).all()


def test_labels_on_a_full_disk(model, disk, tmp_path):
    FRAME.to_parquet(tmp_path / "rows.parquet")
    path = disk / "labels.parquet"
    path.write_bytes(b"old")
    fill(disk)
    with pytest.raises(OSError, match="No space left"):
        model.predict(tmp_path / "rows.parquet", output=path)
    assert path.read_bytes() == b"old"
    assert names(disk) == ["filler", "labels.parquet"]


def test_a_checkpoint_on_a_full_disk(disk, monkeypatch):
    monkeypatch.setattr(journal, "EVERY", 0.0)
    monkeypatch.setattr(journal, "PATIENCE", 0.0)
    fill(disk)
    model = FairMixture(3, random_state=0, checkpoint=disk / "fit.checkpoint")
    with pytest.raises(OSError, match="No space left"):
        model.fit(X, sensitive_features=GROUPS)
    assert names(disk) == ["filler"]


@pytest.mark.parametrize("fitted_before", [False, True])
def test_fit_onto_a_full_disk(fitted_before, disk, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    FRAME.to_csv("rows.csv", index=False)
    if fitted_before:
        (disk / "out").mkdir()
        (disk / "out" / "report.html").write_text("old", encoding="utf-8")
    before = names(disk)
    found = CliRunner().invoke(app, ["fit", "rows.csv", *FIT, "-o", "disk/out", "--force"])
    assert found.exit_code == 3, found.output
    assert "No space left" in found.stderr
    assert "Traceback" not in found.output
    assert names(disk) == before
    if fitted_before:
        assert (disk / "out" / "report.html").read_text("utf-8") == "old"
        assert names(disk / "out") == ["report.html"]


def test_a_disk_that_cannot_be_written(model, sealed_disk, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    FRAME.to_csv("rows.csv", index=False)
    path = sealed_disk / "model.fairmix"
    assert load(path).n_components == 3
    with pytest.raises(OSError, match="Read-only file system") as caught:
        model.save(path)
    assert caught.value.errno == errno.EROFS
    with pytest.raises(OSError, match="Read-only file system"):
        model.predict(tmp_path / "rows.csv", output=sealed_disk / "labels.parquet")
    found = CliRunner().invoke(app, ["fit", "rows.csv", *FIT, "-o", "sealed/out"])
    assert found.exit_code == 3, found.output
    assert len(found.stderr.splitlines()) == 1
    assert names(sealed_disk) == ["model.fairmix"]


def test_a_file_in_the_place_of_a_folder(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    FRAME.to_csv("rows.csv", index=False)
    (tmp_path / "file").write_text("old", encoding="utf-8")
    with pytest.raises(NotADirectoryError, match="file"):
        model.save(tmp_path / "file" / "model.fairmix")
    with pytest.raises(FileNotFoundError, match="absent"):
        model.save(tmp_path / "absent" / "model.fairmix")
    with pytest.raises(OSError, match="file"):
        model.predict(tmp_path / "rows.csv", output=tmp_path / "file" / "labels.parquet")
    found = CliRunner().invoke(app, ["fit", "rows.csv", *FIT, "-o", "file/out"])
    assert found.exit_code == 3, found.output
    assert (tmp_path / "file").read_text("utf-8") == "old"
    assert names(tmp_path) == ["file", "rows.csv"]


@pytest.fixture
def locked(model):
    """A folder with a model, which the user may read and not write; root becomes nobody for it."""
    with tempfile.TemporaryDirectory() as name:
        folder, user = Path(name), os.geteuid()
        model.save(folder / "model.fairmix")
        folder.chmod(0o555)
        if user == 0:
            os.seteuid(NOBODY)
        yield folder
        os.seteuid(user)
        folder.chmod(0o755)


def test_a_folder_without_permission(model, locked):
    path = locked / "model.fairmix"
    content = path.read_bytes()
    for target in (path, locked / "other.fairmix"):
        with pytest.raises(PermissionError, match="denied"):
            model.save(target)
    found = CliRunner().invoke(app, ["fit", "rows.csv", *FIT, "-o", str(locked / "out")])
    assert found.exit_code == 3, found.output
    assert "denied" in found.stderr
    assert len(found.stderr.splitlines()) == 1
    assert path.read_bytes() == content
    assert names(locked) == ["model.fairmix"]


@pytest.mark.parametrize(
    ("room", "name"),
    [(FairMixture, "fit"), (FairMixture, "save"), (report, "render"), (outputs, "_move")],
    ids=lambda given: getattr(given, "__name__", given),
)
def test_a_folder_that_goes_away(room, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    FRAME.to_csv("rows.csv", index=False)
    work, usual = Path("work"), getattr(room, name)
    work.mkdir()

    def remove(*arguments, **settings):
        assert any(work.glob(".out.*.part"))
        shutil.rmtree(work)
        return usual(*arguments, **settings)

    monkeypatch.setattr(room, name, remove)
    found = CliRunner().invoke(app, ["fit", "rows.csv", *FIT, "-o", "work/out"])
    assert not work.exists()
    assert found.exit_code == 3, found.output
    assert "Traceback" not in found.output
    assert "No such file or directory" in found.stderr
