"""A memory that grows says what it says when it is made at once; drafts change nothing."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runtime.decode.family import make_runners
from edge_runtime.decode.growing.chain import GrowingChain
from edge_runtime.decode.growing.runner import GrowingRunner
from edge_runtime.decode.tiles import Size
from edge_runtime.decode.update import Hypothesis, Purpose, Update
from edge_runtime.device.onnx import OnnxDevice
from edge_runtime.engines.export import export
from edge_runtime.errors import AudioError, ModelDamaged, ModelMissing
from tests.tiny import making, moonshine_streaming, plain

RATE, LIMIT = 16000, 20
_sessions = itertools.count()


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("growing")
    return making.exported(place, moonshine_streaming.write, recipe=making.growing)


@pytest.fixture(scope="module")
def runner(folders) -> GrowingRunner:
    made = make_runners(GrowingChain(OnnxDevice(), folders[1]), Size(1, 3 * RATE), 1, slots=2)[0]
    made.warm()
    return made


def sound(seed: int, seconds: float) -> np.ndarray:
    random = np.random.default_rng(seed)
    loud = np.repeat(random.uniform(0, 1, int(seconds * 100)), 160)
    return (random.normal(0, 0.1, len(loud)) * loud).astype(np.float32)


@pytest.fixture(scope="module")
def audio() -> np.ndarray:
    return sound(1, 2.03)


def run(runner, name, purpose, audio, end, draft=(), start=0, slot=None) -> Hypothesis:
    update = Update(name, 1, purpose, start, start + end, draft=draft, limit=LIMIT, slot=slot)
    return runner.run([update], [[audio[: end // 2], audio[end // 2 : end]]])[0]


def whole(runner, audio: np.ndarray, start: int = 0) -> Hypothesis:
    name = f"whole-{next(_sessions)}"
    return run(runner, name, Purpose.FINAL, audio, len(audio), start=start)


@pytest.mark.parametrize("seed", range(3))
def test_whole_is_what_the_published_files_say(runner, folders, seed):
    audio = sound(seed, 1.0 + seed / 7)
    spoken = plain.moonshine(folders[0], audio, LIMIT)
    assert len(set(spoken)) > 3
    assert list(whole(runner, audio).tokens) == spoken


@settings(max_examples=6)
@given(st.lists(st.integers(1, 32_000), max_size=6).map(sorted), st.integers(0, 2**8))
def test_streamed_is_whole_for_any_pieces(runner, audio, ends, speculates):
    name, draft = f"streamed-{next(_sessions)}", ()
    for end in ends:
        purpose = Purpose.SPECULATIVE if speculates >> end % 8 & 1 else Purpose.PARTIAL
        found = run(runner, name, purpose, audio, end, draft)
        if purpose is Purpose.SPECULATIVE:
            assert found.tokens == whole(runner, audio[:end]).tokens
        draft = found.tokens
    final = run(runner, name, Purpose.FINAL, audio, len(audio), draft)
    wanted = whole(runner, audio)
    assert final.tokens == wanted.tokens
    assert final.logprobs == pytest.approx(wanted.logprobs, abs=1e-3)
    assert final.frame_count == wanted.frame_count == 26 * 4


def test_a_draft_that_holds_costs_one_pass(runner, audio):
    first = run(runner, "draft", Purpose.PARTIAL, audio, 30_000)
    again = run(runner, "draft", Purpose.PARTIAL, audio, 30_100, first.tokens)
    assert again.tokens == first.tokens
    assert (again.cost.passes, again.cost.accepted) == (1, LIMIT - 1)
    # Nothing was new: the words had been there by then.
    assert again.frames == first.frames


def test_only_what_is_new_is_encoded(runner, audio, monkeypatch):
    lengths: list[int] = []
    encode = runner.lane.encode

    def noting(window, new, at):
        lengths.append(len(new))
        return encode(window, new, at)

    monkeypatch.setattr(runner.lane, "encode", noting)
    for end in (16_000, 16_500, 24_000):
        run(runner, "new", Purpose.PARTIAL, audio, end)
    assert lengths == [12 * 4 - 4, 6 * 4]


def test_a_stream_knows_nothing_of_another_one(runner, audio):
    other = sound(9, 2.0)
    for end in (9_000, 25_000):
        for slot, each in enumerate((audio, other)):
            run(runner, f"s{slot}", Purpose.PARTIAL, each, end, slot=slot)
    for slot, each in enumerate((audio, other)):
        final = run(runner, f"s{slot}", Purpose.FINAL, each, len(each), slot=slot)
        assert final.tokens == whole(runner, each).tokens


def test_slots_take_what_is_accounted_for_them(folders, monkeypatch):
    device = OnnxDevice()
    chain, size = GrowingChain(device, folders[1]), Size(1, 3 * RATE)
    taken, alloc = [], device.alloc

    def counting(*given):
        taken.append(alloc(*given))
        return taken[-1]

    monkeypatch.setattr(device, "alloc", counting)
    chain.slots(2, size)
    assert sum(each.host.nbytes for each in taken) == chain.state(2, size.samples) > 2000


def test_a_state_that_had_to_go_is_made_again(runner, audio):
    for name in ("one", "two"):
        run(runner, name, Purpose.PARTIAL, audio, 20_000, slot=0)
    final = run(runner, "one", Purpose.FINAL, audio, len(audio), slot=1)
    assert final.tokens == whole(runner, audio).tokens


def test_a_segment_that_is_cut_keeps_to_what_it_has(runner, audio):
    name = f"cut-{next(_sessions)}"
    run(runner, name, Purpose.PARTIAL, audio, len(audio))
    final = run(runner, name, Purpose.FINAL, audio, 16_000)
    assert final.frame_count <= 26 * 4


def test_a_start_elsewhere_in_the_session_changes_nothing(runner, audio):
    assert whole(runner, audio, 123_456).tokens == whole(runner, audio).tokens


def test_too_much_audio_is_refused(runner):
    with pytest.raises(AudioError, match="more than the 48000"):
        whole(runner, np.zeros(60_000, np.float32))


def test_a_program_or_a_description_that_is_not_there_is_named(tmp_path):
    moonshine_streaming.write(tmp_path)
    recipe = making.growing(tmp_path)
    config = tmp_path / "streaming_config.json"
    told = config.read_text()
    config.write_text(told.replace('"depth"', '"layers"'))
    with pytest.raises(ModelDamaged, match="depth"):
        export(recipe, tmp_path, tmp_path)
    (tmp_path / "adapter.onnx").unlink()
    with pytest.raises(ModelMissing, match=r"no adapter\.ort"):
        export(recipe, tmp_path, tmp_path)
