"""A true streaming model behind a real server: text that only grows, as its runner says it."""

from __future__ import annotations

import asyncio
import itertools

import msgspec
import numpy as np
import pytest

from edge_runtime.config import Computing, Config, Guarding, Listening, Serving
from edge_runtime.decode.chunked.runner import ChunkRunner
from edge_runtime.decode.family import make_runner
from edge_runtime.decode.growing.runner import GrowingRunner
from edge_runtime.decode.tiles import Size
from edge_runtime.decode.update import Hypothesis, Purpose, Update
from edge_runtime.engines.store import Store
from edge_runtime.runtime import Runtime, lanes
from edge_runtime.runtime import load as loading
from edge_runtime.runtime.load import Loader
from edge_runtime.server import Limits
from edge_runtime.transcribe import Transcriber
from tests.fakes.ears import Ears
from tests.tiny import making, moonshine_streaming, zipformer

BELIEVED = Guarding(tokens_per_second=100, compression=100, mean_logprob=-100)
PADDING = 0.4


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    return making.stored(tmp_path_factory.mktemp("store"), zipformer.write)


@pytest.fixture
def store(recipe, monkeypatch) -> Store:
    monkeypatch.setenv("EDGE_RUNTIME_STORE", str(recipe.parent))
    monkeypatch.setattr(loading.Loader, "_detector", lambda self, folder: folder / "greedy.onnx")
    monkeypatch.setattr(loading.Loaded, "ear", lambda self, rows: Ears())
    return Store(recipe.parent)


@pytest.fixture
def config(recipe) -> Config:
    return Config(
        serving=Serving(port=0, model=str(recipe), device="cpu"),
        computing=Computing(lanes=2),
        guarding=BELIEVED,
    )


def turn(seed: int) -> np.ndarray:
    """Half a second of quiet, two of noise, and quiet again."""
    random = np.random.default_rng(seed)
    loud = np.concatenate([np.full(50, 0.02), random.uniform(0.2, 1, 200), np.full(90, 0.02)])
    noise = random.normal(0, 8000, 340 * 160) * np.repeat(loud, 160)
    return noise.clip(-32000, 32000).astype("<i2")


@pytest.fixture
def finals(monkeypatch) -> list[Hypothesis]:
    """What runners made of finals, whole segments as they are in the end."""
    found: list[Hypothesis] = []
    run = ChunkRunner.run

    def noting(self, updates, audio):
        given = run(self, updates, audio)
        found.extend(each for each in given if each.update.purpose is not Purpose.PARTIAL)
        return given

    monkeypatch.setattr(ChunkRunner, "run", noting)
    return found


def alone(runner, pcm: np.ndarray, update: Update) -> tuple[int, ...]:
    """What a runner makes of the window of an update that it hears nothing of before."""
    audio = pcm.astype(np.float32) / 32768
    fresh = Update(f"alone-{update}", 1, Purpose.FINAL, update.start, update.end)
    return runner.run([fresh], [[audio[update.start : update.end]]])[0].tokens


async def test_sessions_grow_to_what_the_whole_says(
    host, config, store, finals, monkeypatch
) -> None:
    """Three of them, and there is memory for the states of two: they make room for each other."""
    monkeypatch.setattr(lanes.pages, "slots", lambda each, size, *, least, most: least)
    server = await host(config, lambda metrics: Runtime(config, metrics=metrics), Limits())
    loaded = Loader(config.serving.model, "cpu").load()
    runner = make_runner(loaded.chain, loaded.size)
    turns = [turn(seed) for seed in range(3)]
    asked = [
        server.say(pcm.tobytes(), size=size, pace=0.3, words=True)
        for pcm, size in zip(turns, (640, 3200, 9998), strict=True)
    ]
    told = list(zip(turns, await asyncio.gather(*asked), strict=True))
    spoken = {loaded.model.vocabulary.text(each.tokens): each for each in finals}
    for pcm, events in told:
        (final,) = [event for event in events if event["type"] == "final"]
        assert final["text"] == loaded.model.vocabulary.text(
            alone(runner, pcm, spoken[final["text"]].update)
        )
        assert "rejected" not in final
        assert "alternative" not in final
        stable = [event["stable"] for event in events if event["type"] == "partial"]
        assert stable[-1].count(" ") > 1, "words are stable before the final"
        for before, after in itertools.pairwise([*stable, final["text"]]):
            assert after.startswith(before), "what was said is taken back"
        words = final["words"]
        assert " ".join(word["text"] for word in words) == final["text"]
        starts = [word["start"] for word in words]
        assert starts == sorted(starts)
        assert final["start"] - PADDING <= starts[0] <= words[-1]["end"] <= final["end"] + 1.0
    assert 'model="tiny-transducer"' in server.metrics.text().decode()
    scheduler = server.runtime._turns.scheduler
    assert scheduler.pool.total == config.computing.lanes == 2
    assert scheduler.tenancy.dropped > 0
    assert scheduler.pool.free == 2, "who is gone holds nothing"
    scheduler.check_integrity()


async def test_a_segment_that_is_cut_takes_nothing_back(host, config, store) -> None:
    """Past the cap a segment ends before what was heard of it; the next one says the rest."""
    listening = Listening(cap_ms=4000, search_ms=1500)
    config = msgspec.structs.replace(config, listening=listening)
    server = await host(config, lambda metrics: Runtime(config, metrics=metrics), Limits())
    random = np.random.default_rng(3)
    loud = np.concatenate([random.uniform(0.2, 1, 900), np.full(90, 0.02)])
    noise = random.normal(0, 8000, 990 * 160) * np.repeat(loud, 160)
    pcm = noise.clip(-32000, 32000).astype("<i2")
    events = await server.say(pcm.tobytes(), size=3200, pace=0.1)
    finals = [event for event in events if event["type"] == "final"]
    assert [final["reason"] for final in finals[:2]] == ["cap", "cap"]
    for final in finals:
        stable = [
            event["stable"]
            for event in events
            if event["type"] == "partial" and event["segment"] == final["segment"]
        ]
        for before, after in itertools.pairwise([*stable, final["text"]]):
            assert after.startswith(before), "what was said is taken back"
        assert "alternative" not in final, "nothing had to be forced"
        assert final["text"]


def test_a_recording_says_the_same(config, store, finals) -> None:
    pcm = turn(1)
    transcriber = Transcriber(config.serving.model, device="cpu", config=config)
    (final,) = [
        event
        for event in transcriber.transcribe([pcm.astype(np.float32) / 32768])
        if type(event).__name__ == "Final"
    ]
    loaded = Loader(config.serving.model, "cpu").load()
    runner = make_runner(loaded.chain, loaded.size)
    (update,) = {each.update for each in finals if each.update.session == "file"}
    assert final.rejected is None
    assert final.text == loaded.model.vocabulary.text(alone(runner, pcm, update))


async def test_a_memory_that_grows_says_what_it_says_at_once(
    host, config, store, tmp_path_factory, monkeypatch
) -> None:
    """Its text may change until it is stable, as of models that hear everything again."""
    place = tmp_path_factory.mktemp("growing")
    recipe = making.stored(place, moonshine_streaming.write, making.growing, "tiny-growing")
    monkeypatch.setenv("EDGE_RUNTIME_STORE", str(place))
    monkeypatch.setattr(loading.Loader, "_detector", lambda self, folder: folder / "choose.onnx")
    serving = msgspec.structs.replace(config.serving, model=str(recipe))
    config = msgspec.structs.replace(config, serving=serving)
    found: list[Hypothesis] = []
    run = GrowingRunner._update

    def noting(self, update, pieces):
        found.append(run(self, update, pieces))
        return found[-1]

    monkeypatch.setattr(GrowingRunner, "_update", noting)
    server = await host(config, lambda metrics: Runtime(config, metrics=metrics), Limits())
    turns = [turn(seed) for seed in range(2)]
    asked = [server.say(pcm.tobytes(), size=3200, pace=0.2) for pcm in turns]
    told = await asyncio.gather(*asked)
    loaded = Loader(str(recipe), "cpu", Size(1, 20 * 16000)).load()
    runner = make_runner(loaded.chain, loaded.size)
    text = loaded.model.vocabulary.text
    for pcm, events in zip(turns, told, strict=True):
        (final,) = [event for event in events if event["type"] == "final"]
        (update,) = {
            each.update.start: each.update
            for each in found
            if each.update.purpose is not Purpose.PARTIAL and text(each.tokens) == final["text"]
        }.values()
        audio = pcm.astype(np.float32) / 32768
        fresh = Update("alone", 1, Purpose.FINAL, update.start, update.end, limit=update.limit)
        (whole,) = runner.run([fresh], [[audio[update.start : update.end]]])
        assert final["text"] == text(whole.tokens) != ""
        stable = [event["stable"] for event in events if event["type"] == "partial"]
        assert final["text"].startswith(max([*stable, ""], key=len))
