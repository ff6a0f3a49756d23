"""The fuzz targets run: what they begin with is refused in one line, or read and used."""

import pytest

from fuzz import model_file, text_file


@pytest.mark.parametrize(
    ("target", "outcomes", "every"),
    [
        # Every seventh of several hundred: all kept files, and all kinds of edits.
        (model_file, {"refused", "loaded", "loaded, rows refused"}, 7),
        (text_file, {"refused", "fitted"}, 1),
    ],
    ids=["model_file", "text_file"],
)
def test_seeds_keep_the_promise(target, outcomes, every, tmp_path):
    seeds = list(target.seeds().values())
    assert {target.check(seed, tmp_path) for seed in seeds[::every]} == outcomes
