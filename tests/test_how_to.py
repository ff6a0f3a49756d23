"""The code in pages that other tests do not run runs, and prints what is true."""

import re
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[1] / "docs" / "how-to"
# Each page, and what it needs beyond fairmix.
NEEDED = {
    "aif360.md": ["aif360.datasets", "aif360.metrics"],
    "fairlearn.md": ["fairlearn"],
    "missing-values.md": [],
    "model-files.md": [],
    "onnx.md": ["onnx", "onnxruntime"],
    "pipelines.md": [],
    "repair.md": [],
    "several-attributes.md": [],
}


@pytest.mark.parametrize("page", NEEDED)
def test_code_blocks_run(page, tmp_path, monkeypatch, capsys):
    for name in NEEDED[page]:
        pytest.importorskip(name, reason=f"{name} is not installed")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (PAGES / page).read_text("utf-8"), re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    printed = capsys.readouterr().out
    assert "True" in printed
    assert "False" not in printed
