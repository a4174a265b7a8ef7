"""A calibration of the real model by a few clips."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pytest

from edge_runtime.engines import variants
from edge_runtime.engines.calibrate import mix, report, search
from edge_runtime.engines.calibrate.calibrate import calibrate
from edge_runtime.engines.calibrate.options import Options
from edge_runtime.engines.recipe import load_recipe
from edge_runtime.engines.store import Store

DATA = Path(__file__).parents[5] / "shared" / "data"
CLIPS = 6


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
    """Clips of six speakers, about a minute, with their table."""
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


def test_it_is_a_quarter_as_large_and_writes_the_same(
    recipe, copy, recordings, monkeypatch
) -> None:
    # the turns of two clips rank the groups as well as a dozen's do, in a minute less
    monkeypatch.setattr(search, "FEW", 2)
    monkeypatch.setattr(mix, "HEARD", 2)
    result = calibrate(recipe, copy, Options(recordings, max_wer_increase=5.0, least=0.5))
    assert result.report.passed
    assert result.report.chosen.bytes <= 0.30 * result.report.original.bytes
    assert variants.active(copy, recipe).folder == result.installed
    made = report.read(result.installed)
    assert len(made.ranges) == 65
    # the convolutions are far from where integers cost nothing
    errors = {each.name: each.error for each in made.sensitivity}
    assert min(errors["encoder conv1"], errors["encoder conv3"]) > 3 * errors["encoder layer 3 MLP"]
