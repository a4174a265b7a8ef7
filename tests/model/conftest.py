"""The real model on the CPU, clips, and what "token for token" means."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest

from edge_runtime.audio import RATE
from edge_runtime.audio.file import FileSource
from edge_runtime.config import Computing
from edge_runtime.decode.lane import Lane
from edge_runtime.decode.passes import Pass
from edge_runtime.decode.runner import Runner
from edge_runtime.decode.tiles import Chain, Size
from edge_runtime.decode.update import Hypothesis, Purpose, Update
from edge_runtime.engines.export import export
from edge_runtime.engines.recipe import MoonshineRecipe, load_recipe
from edge_runtime.engines.store import Store
from edge_runtime.errors import ModelMissing
from edge_runtime.runtime.load import Loaded, Loader

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"

Told = tuple[list[int], list[float]]
"""Tokens, end mark included where it was reached, and the margin of each, NaN if unknown."""

Again = Callable[[tuple[int, ...]], Told]
LEDGER = pytest.StashKey[dict[str, list[int]]]()


@pytest.fixture(scope="session")
def recipe() -> MoonshineRecipe:
    recipe = load_recipe("moonshine-tiny-en")
    assert isinstance(recipe, MoonshineRecipe)
    return recipe


@pytest.fixture(scope="session")
def weights_folder(recipe: MoonshineRecipe) -> Path:
    try:
        return Store().weights(recipe)
    except ModelMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def loaded(weights_folder: Path) -> Loaded:
    # Whatever was calibrated on this machine: a CPU computes in float32 then.
    return Loader("moonshine-tiny-en", computing=Computing(precision="fp16")).load()


@pytest.fixture(scope="session")
def runner(loaded: Loaded) -> Runner:
    return Runner(loaded.chain, Size(4, 17 * RATE))


@pytest.fixture(scope="session")
def spoken() -> Callable[[str], np.ndarray]:
    """`spoken(id)`: a clip of this repository, float32 at 16 kHz."""
    return lambda name: _read(ROOT / "audio" / f"{name}.flac")


@pytest.fixture(scope="session")
def shared() -> Callable[[str], np.ndarray]:
    """`shared(id)`: a clip of the manifest beside the repository; skips without it."""
    manifest = DATA / "manifest.tsv"
    if not manifest.is_file():
        pytest.skip(f"no clips at {DATA}")
    with manifest.open(newline="") as file:
        paths = {row["id"]: row["path"] for row in csv.DictReader(file, delimiter="\t")}
    return lambda name: _read(DATA / paths[name])


def _read(path: Path) -> np.ndarray:
    with FileSource(path) as source:
        return np.concatenate(list(source))


@pytest.fixture(scope="session")
def decode() -> Callable[..., list[Hypothesis]]:
    return _decode


@pytest.fixture(scope="session")
def greedy() -> Callable[..., Told]:
    return _greedy


@pytest.fixture(scope="session")
def told() -> Callable[[Hypothesis], Told]:
    return _told


@pytest.fixture
def excused(request: pytest.FixtureRequest) -> Callable[[Told, Again, float], int]:
    """How often a decode differs from what is wanted where the two best logits nearly tie.

    `excused(want, again, tolerance)`: `again(forced)` decodes with a forced prefix, and goes
    on behind the wanted token after an excused difference, so that every token is compared.
    Any other difference fails. The counts are told at the end of the run.
    """
    ledger = request.config.stash.setdefault(LEDGER, {})
    counts = ledger.setdefault(request.node.name, [0, 0])

    def counted(want: Told, again: Again, tolerance: float) -> int:
        count = _differences(want, again, tolerance)
        counts[0] += len(want[0])
        counts[1] += count
        return count

    return counted


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    ledger = terminalreporter.config.stash.get(LEDGER, {})
    if ledger:
        terminalreporter.section("token for token")
    for test, (compared, differing) in ledger.items():
        terminalreporter.line(f"{test}: {compared} tokens, {differing} excused by a near tie")


def _decode(runner: Runner, *clips: np.ndarray, **fields: object) -> list[Hypothesis]:
    """What `runner` makes of clips in one batch; `fields` are those of `Update`."""
    updates = [
        Update("test", row, Purpose.FINAL, 0, len(clip), **fields)  # type: ignore[arg-type]
        for row, clip in enumerate(clips)
    ]
    return runner.run(updates, [[clip] for clip in clips])


def _greedy(lane: Lane, samples: np.ndarray, forced: tuple[int, ...] = (), limit: int = 112
           ) -> Told:  # fmt: skip
    """The slow obvious decode of one row, a token at a time: (tokens with end mark, margins).

    `lane.audio` is used as it is from the end of `samples` on: the padding of the test.
    """
    shape, longest = lane.chain.shape, lane.size.samples
    lane.audio.host[: len(samples)] = samples
    lane.length.host.host[0] = len(samples)
    lane.encode(1, longest)
    tokens, margins = [shape.begin], []
    passes = [Pass(1, 1, shape.frames(longest), turn) for turn in (0, 1)]
    lane.positions(passes[0])[0] = 0  # from then on each pass tells the next where it begins
    while tokens[-1] != shape.end and len(tokens) <= limit:
        step = len(tokens) - 1
        lane.tokens(passes[step % 2])[0, 0] = tokens[-1]
        lane.decode(passes[step % 2])
        answers = {name: rows[0, 0, 0] for name, rows in lane.answers(passes[step % 2]).items()}
        best = int(answers["next_token"])
        tokens.append(forced[step] if step < len(forced) else best)
        margins.append(float(answers["margin"]))
    return tokens[1:], margins


def _told(hypothesis: Hypothesis, end: int = 2) -> Told:
    tokens, margins = list(hypothesis.tokens), list(hypothesis.margins)
    return ([*tokens, end], [*margins, float("nan")]) if hypothesis.ended else (tokens, margins)


def _differences(want: Told, again: Again, tolerance: float) -> int:
    count = 0
    forced: tuple[int, ...] = ()
    while True:
        tokens, margins = again(forced)
        pairs = zip(tokens, want[0], strict=False)
        at = next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(tokens), len(want[0])))
        if at == len(want[0]) == len(tokens):
            return count
        known = [m[at] for m in (margins, want[1]) if at < len(m) and not np.isnan(m[at])]
        assert min(known, default=np.inf) < tolerance, (
            f"token {at}: {tokens[at : at + 3]} for {want[0][at : at + 3]}, margins {known}"
        )
        count += 1
        if at >= len(want[0]) - 1:
            return count
        forced = tuple(want[0][: at + 1])


@pytest.fixture(scope="session")
def other_chain(recipe, weights_folder, loaded, tmp_path_factory) -> Callable[..., Chain]:
    """`other_chain(precision, tiles)`: the same weights in another form, exported now."""
    made: dict[tuple[str, tuple[int, ...]], Chain] = {}

    def chain(precision: str = "fp32", tiles: tuple[int, ...] = ()) -> Chain:
        cut = msgspec.structs.replace(recipe, decoder_tiles=tiles or recipe.decoder_tiles)
        key = (precision, cut.decoder_tiles)
        if key not in made:
            folder = tmp_path_factory.mktemp("graphs")
            export(cut, weights_folder, folder, precision)
            made[key] = Chain(loaded.device, folder)
        return made[key]

    return chain
