"""A streaming model says of pieces what it says of the whole, alone and in a batch."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runtime.decode.chunked.chain import ChunkChain
from edge_runtime.decode.chunked.runner import ChunkRunner
from edge_runtime.decode.family import make_runners
from edge_runtime.decode.tiles import Size
from edge_runtime.decode.update import Hypothesis, Purpose, Update
from edge_runtime.device.onnx import OnnxDevice
from edge_runtime.errors import AudioError, DeviceError
from tests.tiny import making, plain, zipformer

RATE = 16000
_sessions = itertools.count()


class Batching(OnnxDevice):
    """A CPU that is treated as a GPU is: rows go together."""

    batches = True


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return making.exported(tmp_path_factory.mktemp("zipformer"), zipformer.write)


@pytest.fixture(scope="module")
def published(folders):
    return folders[0]


@pytest.fixture(scope="module")
def runner(folders) -> ChunkRunner:
    return make_runners(ChunkChain(OnnxDevice(), folders[1]), Size(1, 20 * RATE), 1, slots=2)[0]


@pytest.fixture(scope="module")
def batching(folders) -> ChunkRunner:
    return make_runners(ChunkChain(Batching(), folders[1]), Size(4, 20 * RATE), 1, slots=4)[0]


@pytest.fixture(scope="module")
def audio() -> np.ndarray:
    return sound(1, 2.5)


def sound(seed: int, seconds: float) -> np.ndarray:
    random = np.random.default_rng(seed)
    loud = np.repeat(random.uniform(0, 1, int(seconds * 100)), 160)
    return (random.normal(0, 0.1, len(loud)) * loud).astype(np.float32)


def whole(runner: ChunkRunner, audio: np.ndarray, start: int = 0) -> Hypothesis:
    update = Update(f"whole-{next(_sessions)}", 1, Purpose.FINAL, start, start + len(audio))
    return runner.run([update], [[audio]])[0]


def streamed(
    runner: ChunkRunner,
    audio: np.ndarray,
    ends: list[int],
    purpose: Callable[[int], Purpose] = lambda end: Purpose.PARTIAL,
) -> list[Hypothesis]:
    """An update at each of `ends`, then the final; the audio comes in two pieces."""
    name = f"streamed-{next(_sessions)}"
    asked = [Update(name, 1, purpose(end), 0, end) for end in ends]
    asked.append(Update(name, 1, Purpose.FINAL, 0, len(audio)))
    return [
        runner.run([update], [[audio[: update.end // 3], audio[update.end // 3 : update.end]]])[0]
        for update in asked
    ]


def said(hypothesis: Hypothesis) -> list[tuple[int, int]]:
    return list(zip(hypothesis.frames, hypothesis.tokens, strict=True))


def test_whole_is_what_the_published_files_say(runner, published, audio):
    spoken = plain.zipformer(published, audio)
    assert len({token for _, token in spoken}) > 8, "a model that says one thing proves nothing"
    assert said(whole(runner, audio)) == spoken


@settings(max_examples=5)
@given(st.lists(st.integers(1, 40_000), max_size=8).map(sorted), st.integers(0, 2**8))
def test_streamed_is_whole_for_any_pieces(runner, audio, ends, speculates):
    def purpose(end: int) -> Purpose:
        return Purpose.SPECULATIVE if speculates >> (end % 8) & 1 else Purpose.PARTIAL

    found = streamed(runner, audio, ends, purpose)
    assert said(found[-1]) == said(whole(runner, audio))
    partials = [each for each in found if each.update.purpose is not Purpose.SPECULATIVE]
    for before, after in itertools.pairwise(partials):
        assert after.tokens[: len(before.tokens)] == before.tokens, "what was said is taken back"


def test_a_speculation_that_speech_overtakes_leaves_no_trace(runner, audio):
    found = streamed(runner, audio, [20_000, 20_000, 30_000], lambda end: Purpose.SPECULATIVE)
    assert said(found[-1]) == said(whole(runner, audio))
    assert said(found[0]) == said(whole(runner, audio[:20_000]))


def test_only_new_chunks_are_run(runner, audio):
    name = f"new-{next(_sessions)}"
    use = runner.lane.graphs.use
    runs = []
    for end in (20_000, 20_100, 26_000):
        before = use.hits + use.misses
        runner.run([Update(name, 1, Purpose.PARTIAL, 0, end)], [[audio[:end]]])
        runs.append(use.hits + use.misses - before)
    assert runs == [3, 0, 1]


def test_rows_of_a_batch_say_what_they_say_alone(runner, batching):
    sounds = [sound(seed, 1.0 + 0.37 * seed) for seed in range(4)]
    alone = [said(whole(runner, each)) for each in sounds]
    updates = [Update("batch", n, Purpose.FINAL, 0, len(s), slot=n) for n, s in enumerate(sounds)]
    assert [said(each) for each in batching.run(updates, [[each] for each in sounds])] == alone
    # Again from pieces: states are brought together and taken back in other company each time.
    for end in (9_000, 16_000, 22_000):
        part = [Update("parts", n, Purpose.PARTIAL, 0, min(end, len(each)), slot=3 - n)
                for n, each in enumerate(sounds) if n % 2 or end > 9_000]  # fmt: skip
        batching.run(part, [[sounds[u.segment][: u.end]] for u in part])
    finals = [
        Update("parts", n, Purpose.FINAL, 0, len(s), slot=3 - n) for n, s in enumerate(sounds)
    ]
    found = batching.run(finals[:3], [[each] for each in sounds[:3]])
    found += batching.run(finals[3:], [[sounds[3]]])
    assert [said(each) for each in found] == alone


def test_what_batches_want_is_made_at_warm_up(batching):
    batching.warm()
    use = batching.lane.graphs.use
    before = use.misses
    for rows in (4, 3, 1):
        sounds = [sound(seed, 0.6) for seed in range(rows)]
        updates = [
            Update("warm", n, Purpose.FINAL, 0, len(s), slot=n) for n, s in enumerate(sounds)
        ]
        batching.run(updates, [[each] for each in sounds])
    assert use.misses == before


def test_a_stream_knows_nothing_of_another_one(runner, audio):
    other = sound(7, 2.0)
    alone = [said(whole(runner, each)) for each in (audio, other)]
    for end in range(4_000, 32_000, 7_000):
        for number, each in enumerate((audio, other)):
            update = Update("both", number, Purpose.PARTIAL, 0, end, slot=number)
            runner.run([update], [[each[:end]]])
    finals = [
        runner.run([Update("both", number, Purpose.FINAL, 0, len(each), slot=number)], [[each]])[0]
        for number, each in enumerate((audio, other))
    ]
    assert [said(each) for each in finals] == alone


def test_a_state_that_had_to_go_is_computed_again(runner, audio):
    wanted = said(whole(runner, audio))
    for name in ("one", "two"):
        runner.run([Update(name, 1, Purpose.PARTIAL, 0, 20_000, slot=1)], [[audio[:20_000]]])
    (found,) = runner.run([Update("one", 1, Purpose.FINAL, 0, len(audio), slot=0)], [[audio]])
    assert said(found) == wanted


def test_slots_take_what_is_accounted_for_them(folders, monkeypatch):
    device = OnnxDevice()
    chain, size = ChunkChain(device, folders[1]), Size(1, 20 * RATE)
    taken, alloc = [], device.alloc

    def counting(*given):
        taken.append(alloc(*given))
        return taken[-1]

    monkeypatch.setattr(device, "alloc", counting)
    chain.slots(3, size)
    assert sum(each.host.nbytes for each in taken) == chain.state(3, size.samples) > 3000


def test_an_update_that_failed_leaves_nothing_to_go_on_with(runner, audio, monkeypatch):
    wanted = said(whole(runner, audio))
    run = runner.lane.run
    left = itertools.count(3, -1)

    def failing(moves, rows):
        run(moves, rows)
        if not next(left):
            raise DeviceError("it fell off the bus", "Restart the machine.")

    monkeypatch.setattr(runner.lane, "run", failing)
    with pytest.raises(DeviceError):
        runner.run([Update("fails", 1, Purpose.PARTIAL, 0, len(audio), slot=0)], [[audio]])
    (found,) = runner.run([Update("fails", 1, Purpose.FINAL, 0, len(audio), slot=0)], [[audio]])
    assert said(found) == wanted


def test_a_segment_that_is_cut_keeps_what_was_said_before_the_cut(runner, audio):
    partial, _ = streamed(runner, audio, [len(audio)])[:2]
    name = f"cut-{next(_sessions)}"
    runner.run([Update(name, 1, Purpose.PARTIAL, 0, len(audio))], [[audio]])
    cut = 1 * RATE
    (final,) = runner.run([Update(name, 1, Purpose.FINAL, 0, cut)], [[audio[:cut]]])
    assert said(final) == [(frame, token) for frame, token in said(partial) if frame < 25]


def test_audio_that_was_heard_may_be_lost(runner, audio):
    """The ring went over what was run already: nothing of the text goes with it."""
    wanted = whole(runner, audio)
    name = f"lost-{next(_sessions)}"
    runner.run([Update(name, 1, Purpose.PARTIAL, 0, 30_000)], [[audio[:30_000]]])
    (found,) = runner.run([Update(name, 1, Purpose.FINAL, 16_000, len(audio))], [[audio[16_000:]]])
    assert found.tokens == wanted.tokens
    assert found.frames == tuple(max(0, frame - 25) for frame in wanted.frames)


def test_a_start_elsewhere_in_the_session_changes_nothing(runner, audio):
    assert said(whole(runner, audio, start=123_456)) == said(whole(runner, audio))


def test_a_burst_of_tokens_is_decoded_to_its_end(tmp_path):
    published, graphs = making.exported(tmp_path, zipformer.write, symbols=4)
    for device, rows in ((OnnxDevice(), 1), (Batching(), 2)):
        runner = ChunkRunner(ChunkChain(device, graphs), Size(rows, 20 * RATE))
        sounds = [sound(1, 0.8), sound(3, 0.6)][:rows]
        updates = [Update("burst", n, Purpose.FINAL, 0, len(s)) for n, s in enumerate(sounds)]
        found = runner.run(updates, [[each] for each in sounds])
        for each, hypothesis in zip(sounds, found, strict=True):
            spoken = plain.zipformer(published, each, symbols=4)
            assert max(np.bincount([frame for frame, _ in spoken])) == 4
            assert said(hypothesis) == spoken


def test_several_lanes_share_the_streams(folders, audio):
    """Each goes on with what the other one left, while that is at another stream."""
    chain = ChunkChain(OnnxDevice(), folders[1])
    lanes = make_runners(chain, Size(1, 20 * RATE), 2, slots=2)
    wanted = said(whole(lanes[0], audio))
    ends = range(6_000, len(audio), 9_000)
    together = threading.Barrier(2)

    def go_on(number: int) -> None:
        for turn, end in enumerate(ends):
            together.wait(9)
            slot = (number + turn) % 2
            update = Update("lanes", slot, Purpose.PARTIAL, 0, end, slot=slot)
            lanes[number].run([update], [[audio[:end]]])

    with ThreadPoolExecutor(2) as both:
        list(both.map(go_on, range(2)))
    for slot, lane in enumerate(lanes):
        use = lane.lane.graphs.use
        before = use.hits + use.misses
        update = Update("lanes", slot, Purpose.FINAL, 0, len(audio), slot=slot)
        assert said(lane.run([update], [[audio]])[0]) == wanted
        assert use.hits + use.misses - before <= 4, "it was heard again from the start"


def test_what_was_stable_stands(runner, audio):
    """A final that is forced begins with what was sent."""
    wanted = whole(runner, audio)
    assert len(wanted.tokens) > 5
    for forced in (wanted.tokens[:3], (1, 2, 3)):
        update = Update(f"forced-{forced}", 1, Purpose.FINAL, 0, len(audio), forced=forced)
        (found,) = runner.run([update], [[audio]])
        assert found.tokens[:3] == forced


def test_silence_that_keeps_a_device_awake_is_work_each_time(runner):
    silence = np.zeros(runner.chain.shape.shortest, np.float32)
    use = runner.lane.graphs.use
    for _ in range(2):
        before = use.hits + use.misses
        update = Update("awake", 0, Purpose.PARTIAL, 0, len(silence), limit=1)
        runner.run([update], [[silence]])
        assert use.hits + use.misses > before


def test_too_large_a_batch_is_refused(runner, audio):
    updates = [Update("many", n, Purpose.FINAL, 0, len(audio)) for n in range(2)]
    with pytest.raises(AudioError, match="2 updates does not fit in 1 row"):
        runner.run(updates, [[audio]] * 2)
