"""The code in the pages on model files and ONNX runs."""

import re
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[1] / "docs" / "how-to"


@pytest.mark.parametrize("page", ["model-files.md", "onnx.md"])
def test_code_blocks_run(page, tmp_path, monkeypatch, capsys):
    if page == "onnx.md":
        pytest.importorskip("onnx", reason="the extra onnx is not installed")
        pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (PAGES / page).read_text("utf-8"), re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    printed = capsys.readouterr().out
    assert "True" in printed
    assert "False" not in printed
