"""Updates in one batch say what each says alone: in rounds, forced, aligned, through a runtime."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from edge_runtime.audio import RATE
from edge_runtime.config import Computing, Config
from edge_runtime.decode.round import Round
from edge_runtime.decode.update import Purpose, Update
from edge_runtime.device.onnx import OnnxDevice
from edge_runtime.events import Final
from edge_runtime.runtime import Options, Runtime

FLOAT32 = 1e-3
CLIPS = ["1867-154075-0005", "7367-86737-0006"]


def test_rows_come_as_they_are_done_each_as_it_would_alone(runner, told, excused, spoken) -> None:
    """A short draft that is right, a long decode, a forced prefix, a final with alignment."""
    one, two = (spoken(name) for name in CLIPS)
    audio = [two[: 3 * RATE], one, two, one[: 2 * RATE]]
    plain = [Update("alone", row, Purpose.FINAL, 0, len(clip)) for row, clip in enumerate(audio)]
    alone = [runner.run([each], [[clip]])[0] for each, clip in zip(plain, audio, strict=True)]
    fields = [
        {"draft": alone[0].tokens}, {"align": True}, {"forced": alone[2].tokens[:6]},
        {"draft": alone[2].tokens[:4], "align": True},
    ]  # fmt: skip
    updates = [
        Update("batch", row, Purpose.PARTIAL if row % 2 else Purpose.FINAL, 0, len(clip), **given)
        for row, (clip, given) in enumerate(zip(audio, fields, strict=True))
    ]
    rounds = list(runner.rounds(updates, [[clip] for clip in audio]))
    found = {row: result for each in rounds for row, result in each.done.items()}
    assert sorted(found) == [0, 1, 2, 3]
    first = next(each.done for each in rounds if each.done)
    assert 0 in first
    assert 1 not in first
    waits = [found[row].cost.waits for row in (0, 1)]
    assert waits[0] <= waits[1]
    assert {each.cost.rows for each in found.values()} == {4}
    for row, want in enumerate(alone):

        def again(forced: tuple[int, ...], row: int = row):
            if not forced:
                return told(found[row])
            update = Update("again", row, Purpose.FINAL, 0, len(audio[row]), forced=forced)
            return told(runner.run([update], [[audio[row]]])[0])

        excused(told(want), again, FLOAT32)
        np.testing.assert_allclose(found[row].logprobs, want.logprobs, atol=1e-3)
    for row in (1, 3):
        update = Update("alone", row, Purpose.FINAL, 0, len(audio[row]), align=True)
        (want,) = runner.run([update], [[audio[row]]])
        np.testing.assert_allclose(found[row].align, want.align, atol=1e-4)


def test_a_batch_that_is_recalled_ends_at_its_next_look(runner, spoken) -> None:
    clip = spoken(CLIPS[0])
    updates = [Update("batch", row, Purpose.PARTIAL, 0, len(clip)) for row in range(2)]
    rounds = runner.rounds(updates, [[clip]] * 2, lambda: runner.lane.stream.counters is None)
    assert next(rounds) == Round()
    rounds.close()
    looks = iter([False, False, True])
    *rounds, last = runner.rounds(updates, [[clip]] * 2, lambda: next(looks))
    assert rounds == [Round()] * 2
    (alone,) = runner.run(updates[:1], [[clip]])
    assert last == Round(left=dict.fromkeys(range(2), alone.tokens[:2]))
    assert list(runner.rounds(updates, [[clip]] * 2, lambda: True)) == []
    (after,) = runner.run(updates[:1], [[clip]])
    assert after.ended


def test_what_an_update_left_behind_is_of_no_use_to_the_next(runner, monkeypatch, spoken) -> None:
    """A model that reads all anew keeps its tokens alone: old keys and values would show."""
    clip = spoken(CLIPS[0])
    updates = [Update("hop", 0, Purpose.PARTIAL, 0, end) for end in (RATE, len(clip))]
    runner.run(updates[:1], [[clip[:RATE]]])
    (fresh,) = runner.run(updates[1:], [[clip]])
    runner.run(updates[:1], [[clip[:RATE]]])
    encode = runner.lane.encode
    monkeypatch.setattr(runner.lane, "encode", lambda rows, samples: None)
    (stale,) = runner.run(updates[1:], [[clip]])
    monkeypatch.setattr(runner.lane, "encode", encode)
    count = min(3, len(stale.logprobs))
    assert stale.tokens != fresh.tokens
    assert np.abs(np.subtract(stale.logprobs[:count], fresh.logprobs[:count])).max() > 10 * FLOAT32


async def said(runtime: Runtime, clips: list[np.ndarray]) -> list[list[Final]]:
    """The finals of clips that are played side by side, as fast as they are taken."""

    async def play(clip: np.ndarray) -> list[Final]:
        stream = runtime.open(Options(partials=False, words=True))
        for start in range(0, len(clip), RATE // 2):
            await stream.feed(clip[start : start + RATE // 2])
        stream.stop()
        return [event async for event in stream if isinstance(event, Final)]

    async with runtime.serving():
        return await asyncio.wait_for(asyncio.gather(*map(play, clips)), 60)


async def test_a_runtime_that_batches_says_what_one_says_that_does_not(
    loaded, spoken, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (spoken(name) for name in CLIPS)
    clips = [one, two, one[: 3 * RATE], two[: 4 * RATE]]
    plain = Runtime(Config(computing=Computing(precision="fp16", lanes=1)), device="cpu")
    wanted = await said(plain, clips)
    assert plain.metrics.value("edge_runtime_batch_rows_bucket", le="1.0") == plain.metrics.value(
        "edge_runtime_batch_rows_count"
    )
    monkeypatch.setattr(OnnxDevice, "batches", True)
    batching = Runtime(
        Config(computing=Computing(precision="fp16", lanes=1, batch=4)), device="cpu"
    )
    found = await said(batching, clips)
    count, rows = (
        batching.metrics.value(f"edge_runtime_batch_rows_{name}") for name in ("count", "sum")
    )
    assert rows > count, "none was decoded together with another"
    for want, got in zip(wanted, found, strict=True):
        assert [each.text for each in got] == [each.text for each in want]
        words = [[word for each in said for word in each.words] for said in (got, want)]
        for one, other in zip(*words, strict=True):
            assert (one.text, one.start, one.end) == (other.text, other.start, other.end)
            assert one.logprob == pytest.approx(other.logprob, abs=2e-3)
    batching._turns.scheduler.check_integrity()
