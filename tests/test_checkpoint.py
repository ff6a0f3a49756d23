"""Checkpoints: a killed fit goes on to the same bits; other fits and broken files are refused."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cases import FAMILIES, assert_same_bits, problem
from fairmix import FairMixture
from fairmix.datasets import make_grouped_blobs
from fairmix.kernels import Sweep
from fairmix.kernels.totals import Logits, Totals
from fairmix.system.files import replace_file
from fairmix.tables import Journal, Table, journal
from fairmix.tables.store import MemoryStore
from repetition import times

# How often a fit is killed.
KILLS = times(3, 9)
# Where a fit is killed: in a pass, with the new file complete and the old one in its place, and
# with the new file in its place.
PLACES = ("pass", "written", "replaced")
# Fits that write their checkpoint after every pass and kill themselves, each at one of these places
# when it gets there for the given time; 0 for never. A clock has no part in it. Each fit is a
# process of its own, forked from one that has done the imports, which prints how it ended.
CHILD = """
import json, os, signal, sys
import numpy as np
from fairmix import FairMixture
from fairmix.datasets import make_grouped_blobs
from fairmix.tables import Table, journal
journal.EVERY = journal.PATIENCE = -1.0
one_pass, replace = Table._pass, os.replace
def at(here):
    global left
    left -= here == place
    if here == place and left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
def deadly_pass(self, *arguments):
    if self.journal is not None:
        at("pass")
    return one_pass(self, *arguments)
def deadly_replace(*arguments):
    at("written")
    replace(*arguments)
    at("replaced")
Table._pass, os.replace = deadly_pass, deadly_replace
X, groups, _ = make_grouped_blobs(900, 3, 2, separation=2.0, random_state=0)
settings, runs = map(json.loads, sys.argv[1:])
for checkpoint, output, place, left in runs:
    child = os.fork()
    if child:
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(ended, os.path.exists(checkpoint), flush=True)
        continue
    model = FairMixture(3, random_state=0, checkpoint=checkpoint, **settings)
    model.fit(X, sensitive_features=groups)
    learned = model.fitted_.model
    np.savez(output, theta=learned.theta, offsets=learned.offsets, labels=model.labels_)
    os._exit(0)
"""


@pytest.fixture(scope="module")
def blobs():
    X, groups, _ = make_grouped_blobs(2000, 3, 2, separation=2.0, random_state=0)
    return X, groups


@pytest.mark.repeats
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="full"),
        pytest.param({"min_ratio": 0.9, "assignment": "aware"}, id="ratio", marks=pytest.mark.long),
        pytest.param(
            {"batch_size": 300, "fairness_sample_size": 600}, id="batches", marks=pytest.mark.long
        ),
    ],
)
def test_a_killed_fit_goes_on_to_the_same_bits(tmp_path, settings):
    path, rng = str(tmp_path / "fit.checkpoint"), np.random.default_rng(0)
    whole, killed = (str(tmp_path / f"{name}.npz") for name in ("whole", "killed"))
    places = [PLACES[number % len(PLACES)] for number in range(KILLS)]
    runs = [
        (str(tmp_path / "other"), whole, "never", 0),
        # A first pass must be known before one can be gone on from.
        *[(path, killed, place, int(rng.integers(2, 6))) for place in places],
        (path, killed, "never", 0),
    ]
    words = [sys.executable, "-c", CHILD, json.dumps(settings), json.dumps(runs)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    # What ended well leaves no checkpoint, and what was killed does. A fit of few passes may end
    # before it is killed; the next one then begins anew.
    well, badly = "0 False", f"{-signal.SIGKILL} True"
    ends = done.stdout.splitlines()
    assert set(ends) == {well, badly}, done.stderr
    assert (ends[0], ends[-1]) == (well, well)
    assert ends[1:3] == [badly, badly]
    one, other = np.load(whole), np.load(killed)
    for name in one.files:
        assert np.array_equal(one[name], other[name]), name


def test_a_checkpoint_answers_the_passes_that_it_knows(tmp_path):
    toy = problem(FAMILIES["product-diag"], 300)
    logits = [toy.mixture.logits(toy.theta + shift) for shift in (0.0, 0.1, 0.2)]
    offsets = np.ones((3, len(logits[0].b)))

    def table(journal=None):
        store = MemoryStore(toy.rows, groups=toy.groups, n_groups=3, weight=toy.weight)
        return Table(store, toy.mixture.family.encode, journal=journal)

    first = Journal(tmp_path / "file", {"data": 1})
    known = [
        table(first).softmax_pass(Sweep(one, offsets=offsets, hard=True)) for one in logits[:2]
    ]
    first.write()
    again = Journal(tmp_path / "file", {"data": 1})
    resumed = table(again)
    resumed._pass = None  # nothing may be computed
    for one, totals in zip(logits[:2], known, strict=True):
        assert_same_bits(resumed.softmax_pass(Sweep(one, offsets=offsets, hard=True)), totals)
    del resumed._pass
    assert_same_bits(
        resumed.softmax_pass(Sweep(logits[2], offsets=offsets)),
        table().softmax_pass(Sweep(logits[2], offsets=offsets)),
    )
    stranger = table(Journal(tmp_path / "file", {"data": 1}))
    with pytest.raises(ValueError, match="pass 0 differs"):
        stranger.softmax_pass(Sweep(logits[2], offsets=offsets))


K, M = 4, 3
KNOWN = Sweep(
    Logits(np.zeros(K), np.ones((K, 2))),
    offsets=np.zeros((M, K)),
    contrasts=np.ones((2, M)),
)
OTHER_PASSES = {
    "bias": (replace(KNOWN, logits=Logits(np.ones(K), np.ones((K, 2)))), None),
    "weights": (replace(KNOWN, logits=Logits(np.zeros(K), np.zeros((K, 2)))), None),
    "offsets": (replace(KNOWN, offsets=np.ones((M, K))), None),
    "no offsets": (replace(KNOWN, offsets=None), None),
    "shape": (replace(KNOWN, offsets=np.zeros((K, M))), None),
    "alpha": (replace(KNOWN, alpha=0.0), None),
    "pull": (replace(KNOWN, pull=np.zeros((M, K))), None),
    "temperature": (replace(KNOWN, temperature=0.3), None),
    "likelihood": (replace(KNOWN, likelihood=False), None),
    "hard": (replace(KNOWN, hard=True), None),
    "contrasts": (replace(KNOWN, contrasts=2 * np.ones((2, M))), None),
    "no contrasts": (replace(KNOWN, contrasts=None), None),
    "within groups": (replace(KNOWN, within_groups=True), None),
    "rough": (replace(KNOWN, rough=True), None),
    "blocks": (KNOWN, [0, 2]),
}


@pytest.mark.parametrize("other", OTHER_PASSES)
def test_a_checkpoint_notices_whatever_differs_in_a_pass(tmp_path, other):
    totals = Totals(1.0, 2.0, 3.0, *np.ones((2, M, K)), KNOWN.logits, np.ones(0), np.ones(0))
    first = Journal(tmp_path / "file", {})
    first.answer(KNOWN, None, lambda: totals)
    first.answer(KNOWN, [0, 1], lambda: totals)
    first.write()
    same = Journal(tmp_path / "file", {})
    assert_same_bits(same.answer(replace(KNOWN), None, None), totals)
    with pytest.raises(ValueError, match="pass 1 differs"):
        same.answer(KNOWN, [1, 0], None)
    sweep, blocks = OTHER_PASSES[other]
    with pytest.raises(ValueError, match="pass 0 differs"):
        Journal(tmp_path / "file", {}).answer(sweep, blocks, None)


@pytest.fixture
def unfinished(tmp_path, blobs, monkeypatch):
    """A checkpoint of a fit that stopped after 20 passes."""
    X, groups = blobs
    path = tmp_path / "fit.checkpoint"
    monkeypatch.setattr(journal, "EVERY", 0.0)
    monkeypatch.setattr(journal, "PATIENCE", 0.0)
    answer, count = Journal.answer, []

    def stopping(self, *arguments):
        count.append(1)
        if len(count) > 20:
            raise KeyboardInterrupt
        return answer(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "answer", stopping)
        with pytest.raises(KeyboardInterrupt):
            FairMixture(3, random_state=0, checkpoint=path).fit(X, sensitive_features=groups)
    assert path.exists()
    return path


def test_the_same_fit_goes_on(unfinished, blobs):
    X, groups = blobs
    fresh = FairMixture(3, random_state=0).fit(X, sensitive_features=groups)
    resumed = FairMixture(3, random_state=0, checkpoint=unfinished, n_jobs=2)
    resumed.fit(X, sensitive_features=groups)
    assert np.array_equal(resumed.fitted_.model.theta, fresh.fitted_.model.theta)
    assert np.array_equal(resumed.fitted_.model.offsets, fresh.fitted_.model.offsets)
    assert not unfinished.exists()
    assert list(Path(unfinished).parent.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_gap": 0.5}, "max_gap"),
        ({"random_state": 1}, "seeds"),
        ({"n_components": 4}, "n_components"),
    ],
)
def test_other_settings_are_refused(unfinished, blobs, change, message):
    X, groups = blobs
    before = unfinished.read_bytes()
    model = FairMixture(
        **{"n_components": 3, "random_state": 0, "checkpoint": unfinished, **change}
    )
    with pytest.raises(ValueError, match=f"another fit: {message}"):
        model.fit(X, sensitive_features=groups)
    assert unfinished.read_bytes() == before


def test_other_data_and_another_version_are_refused(unfinished, blobs, monkeypatch):
    X, groups = blobs
    model = FairMixture(3, random_state=0, checkpoint=unfinished)
    moved = X.copy()
    moved[7, 1] += 1e-9
    with pytest.raises(ValueError, match="another fit: data"):
        model.fit(moved, sensitive_features=groups)
    swapped = groups.copy()
    swapped[[0, 1]] = 1 - swapped[[0, 1]]
    with pytest.raises(ValueError, match="another fit: data"):
        model.fit(X, sensitive_features=swapped)
    monkeypatch.setattr("fairmix.fitting.learn.__version__", "99.0")
    with pytest.raises(ValueError, match="another fit: version"):
        model.fit(X, sensitive_features=groups)


@pytest.mark.parametrize("keep", [0, 10, 0.5, 0.99])
def test_a_truncated_file_is_refused_and_left_alone(unfinished, blobs, keep):
    X, groups = blobs
    content = unfinished.read_bytes()
    cut = content[: int(keep * len(content)) if isinstance(keep, float) else keep]
    unfinished.write_bytes(cut)
    with pytest.raises(ValueError, match="no complete checkpoint"):
        FairMixture(3, random_state=0, checkpoint=unfinished).fit(X, sensitive_features=groups)
    assert unfinished.read_bytes() == cut


def test_without_a_seed_the_seeds_of_the_checkpoint_count(tmp_path, blobs, monkeypatch):
    X, groups = blobs
    path = tmp_path / "fit.checkpoint"
    monkeypatch.setattr(Journal, "remove", Journal.write)
    first = FairMixture(3, checkpoint=path).fit(X, sensitive_features=groups)
    second = FairMixture(3, checkpoint=path).fit(X, sensitive_features=groups)
    assert np.array_equal(first.fitted_.model.theta, second.fitted_.model.theta)


def test_a_failed_write_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    replace_file(path, b"old")

    def broken(source, target):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(OSError, match="disk full"):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


# ------------------------------------------------------------------ a file that is damaged
class StoppedError(Exception):
    """Where a fit is stopped."""


def write_checkpoint(path, monkeypatch):
    """A checkpoint of the first pass of a fit."""
    write = Journal.write

    def stop(self):
        write(self)
        raise StoppedError

    X, groups, _ = make_grouped_blobs(300, 2, 2, separation=2.0, random_state=0)
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "write", stop)
        patch.setattr(journal, "EVERY", -1.0)
        patch.setattr(journal, "PATIENCE", -1.0)
        with pytest.raises(StoppedError):
            FairMixture(2, max_gap=0.1, random_state=0, checkpoint=path).fit(
                X, sensitive_features=groups
            )
    return path.read_bytes()


def complaint(path, identity):
    """Why a checkpoint is refused, empty if it is not; anything but a ValueError is a failure."""
    try:
        Journal(path, identity)
    except ValueError as error:
        return str(error)
    return ""


def test_a_flipped_bit_is_one_clear_error_or_harmless(tmp_path, monkeypatch, record_property):
    path = tmp_path / "fit.npz"
    content = write_checkpoint(path, monkeypatch)
    identity = journal.read_identity(path)
    rng = np.random.default_rng(0)
    # The names and heads of the arrays, and some places anywhere.
    heads = [i for i in range(len(content)) if b"NUMPY" in content[max(0, i - 100) : i + 1]]
    places = np.unique([*heads, *rng.integers(len(content), size=2000)])[:: times(8, 1)]
    refused = 0
    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        if said := complaint(path, identity):
            refused += 1
            assert "\n" not in said
            assert "Delete the file to start anew" in said
    assert refused > len(places) // 2
    record_property("flipped", len(places))
    record_property("refused", refused)


def test_a_checkpoint_that_could_not_be_written_is_told_at_the_start(tmp_path, monkeypatch):
    X, groups, _ = make_grouped_blobs(300, 2, 2, random_state=0)
    monkeypatch.setattr(Table, "_pass", lambda *_: pytest.fail("a pass was made"))
    model = FairMixture(2, random_state=0, checkpoint=tmp_path / "missing" / "fit.npz")
    with pytest.raises(FileNotFoundError, match=r"there is no folder '.*missing'. Make it"):
        model.fit(X, sensitive_features=groups)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_checkpoint_that_is_no_file(tmp_path, make):
    make(tmp_path / "fit.npz")
    X, groups, _ = make_grouped_blobs(300, 2, 2, random_state=0)
    model = FairMixture(2, random_state=0, checkpoint=tmp_path / "fit.npz")
    with pytest.raises(ValueError, match=r"is no regular file. Give another path"):
        model.fit(X, sensitive_features=groups)
