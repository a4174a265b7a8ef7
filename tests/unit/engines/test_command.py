"""`edge-runtime pull` with a user's own recipe, at a terminal and away from one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from edge_runtime.engines.recipe import load_recipe, recipes_folder


@pytest.fixture
def own(recipe, tmp_path) -> Path:
    """A recipe file that sends pip to the served index."""
    text = (recipes_folder() / "silero-vad.toml").read_text()
    real, tiny = load_recipe("silero-vad").sources.pypi, recipe.sources.pypi
    for old, new in [
        (real.package, tiny.package),
        (real.version, tiny.version),
        (f'"{real.platform}"', f'"{tiny.platform}"'),
        (real.folder, tiny.folder),
        (str(real.download_size), str(tiny.download_size)),
        (str(real.files[0].size), str(tiny.files[0].size)),
        (real.files[0].sha256, tiny.files[0].sha256),
    ]:
        assert old in text
        text = text.replace(f'name = "{real.package}"', 'name = "@"').replace(old, new)
    path = tmp_path / "silero-vad.toml"
    path.write_text(text.replace('name = "@"', 'name = "silero-vad"'))
    return path


def line(own: Path) -> list[str]:
    return [sys.executable, "-m", "edge_runtime", "pull", str(own)]


def test_away_from_a_terminal_there_is_no_bar(index, own, tmp_path):
    environment = {**os.environ, "EDGE_RUNTIME_STORE": str(tmp_path / "store")}
    done = subprocess.run(line(own), capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout == f"silero-vad: fetched, in {tmp_path / 'store' / 'silero-vad'}\n"


def test_at_a_terminal_a_bar_shows_megabytes_and_graphs(index, own, tmp_path, drawn):
    environment = {**os.environ, "EDGE_RUNTIME_STORE": str(tmp_path / "store"), "COLUMNS": "100"}
    text = drawn(line(own), env=environment)
    assert "silero-vad: tiny-voice 1.0" in text
    assert "1.2 / 1.2 MB" in text
    assert "silero-vad: graphs" in text
