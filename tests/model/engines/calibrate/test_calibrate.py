"""A calibration of the real model by a few clips, through the command."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from edge_runtime.engines import variants
from edge_runtime.engines.calibrate import report
from edge_runtime.engines.recipe import load_recipe
from edge_runtime.engines.store import Store

DATA = Path(__file__).parents[5] / "shared" / "data"
CLIPS = 10


@pytest.fixture
def copy(recipe, weights_folder, tmp_path) -> Store:
    """A store that shares the files of the real one."""
    real, made = Store(), Store(tmp_path / "store")
    for each in (recipe, load_recipe("silero-vad")):
        (made.root / each.name).mkdir(parents=True)
        for folder in (real.weights(each), real.graphs(each)):
            (made.root / each.name / folder.name).symlink_to(folder)
    return made


@pytest.fixture
def recordings(tmp_path) -> Path:
    """Clips of ten speakers, about a minute and a half, with their table."""
    table = DATA / "manifest.tsv"
    if not table.is_file():
        pytest.skip(f"no clips at {DATA}")
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    read = [row for row in rows if row["condition"] == "clean-read"]
    folder = tmp_path / "recordings"
    folder.mkdir()
    lines = ["path\ttranscript"]
    for row in read[:: len(read) // CLIPS][:CLIPS]:
        path = DATA / row["path"]
        shutil.copyfile(path, folder / path.name)
        lines.append(f"{path.name}\t{row['transcript']}")
    (folder / "manifest.tsv").write_text("\n".join(lines))
    return folder


def test_it_is_a_quarter_as_large_and_writes_the_same(recipe, copy, recordings) -> None:
    line = [
        sys.executable, "-m", "edge_runtime", "calibrate", recipe.name, "--audio",
        str(recordings), "--max-wer-increase", "5", "--json",
    ]  # fmt: skip
    environment = {**os.environ, "EDGE_RUNTIME_STORE": str(copy.root)}
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["calibrated"]["bytes"] <= 0.30 * said["original"]["bytes"]
    assert said["passed"]
    active = variants.active(copy, recipe)
    assert str(active.folder) == said["installed"]
    made = report.read(active.folder)
    assert len(made.ranges) == 65
    # far from where integers cost nothing: the first convolution hears the waveform itself
    errors = {each.name: each.error for each in made.sensitivity}
    assert errors["encoder conv1"] > 3 * errors["encoder layer 3 MLP"]
