"""A predictor with recurrent states, frames from before each chunk, notes instead of shapes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import version_converter
from onnxruntime.quantization import QuantType, quantize_dynamic

from edge_runtime.decode.chunked.chain import ChunkChain
from edge_runtime.decode.chunked.runner import ChunkRunner
from edge_runtime.decode.tiles import Size
from edge_runtime.decode.update import Hypothesis, Purpose, Update
from edge_runtime.device.onnx import OnnxDevice
from edge_runtime.engines.export.streaming import published
from tests.tiny import fastconformer, making, plain

SIZE = 10 * 16000


class Batching(OnnxDevice):
    """A CPU that is treated as a GPU is: rows go together."""

    batches = True


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return making.exported(tmp_path_factory.mktemp("nemo"), fastconformer.write, symbols=3)


@pytest.fixture(scope="module")
def runner(folders) -> ChunkRunner:
    return ChunkRunner(ChunkChain(OnnxDevice(), folders[1]), Size(1, SIZE))


def sound(seed: int, seconds: float) -> np.ndarray:
    random = np.random.default_rng(seed)
    loud = np.repeat(random.uniform(0, 1, int(seconds * 100)), 160)
    return (random.normal(0, 0.1, len(loud)) * loud).astype(np.float32)


def whole(runner: ChunkRunner, audio: np.ndarray, name: str = "whole") -> Hypothesis:
    return runner.run([Update(name, 1, Purpose.FINAL, 0, len(audio))], [[audio]])[0]


def said(hypothesis: Hypothesis) -> list[tuple[int, int]]:
    return list(zip(hypothesis.frames, hypothesis.tokens, strict=True))


def test_reads_sizes_that_the_graphs_leave_open_from_the_notes(folders):
    model = published.find(folders[0])
    encoder = model.encoder
    assert (encoder.window, encoder.shift, encoder.lead, encoder.bins) == (25, 16, 9, 128)
    assert (encoder.frames, encoder.width, encoder.bands_first) == (2, 16, True)
    states = {state.given: (state.shape, state.axis, state.taken) for state in encoder.states}
    assert states == {
        "cache_last_channel": ((1, 2, 6, 16), 0, "cache_last_channel_next"),
        "cache_last_time": ((1, 2, 16, 4), 0, "cache_last_time_next"),
        "cache_last_channel_len": ((1,), 0, "cache_last_channel_next_len"),
    }
    taken = [(state.given, state.taken, state.shape) for state in model.predictor.states]
    assert taken == [("states.1", "states", (2, 1, 12)), ("onnx::Slice_3", "162", (2, 1, 12))]


def test_whole_is_what_the_published_files_say(runner, folders):
    audio = sound(1, 1.5)
    spoken = plain.fastconformer(folders[0], audio, symbols=3)
    assert len({token for _, token in spoken}) > 5
    assert max(np.bincount([frame for frame, _ in spoken])) == 3
    assert said(whole(runner, audio)) == spoken


@pytest.mark.parametrize("form", ["integers", "a later opset"])
def test_other_forms_are_taken_as_they_come(tmp_path, form):
    def write(place):
        fastconformer.write(place)
        for path in place.glob("*.onnx"):
            if form == "integers":
                quantize_dynamic(path, path, weight_type=QuantType.QUInt8)
            else:
                onnx.save(version_converter.convert_version(onnx.load(path), 19), path)

    published_, graphs = making.exported(tmp_path, write, symbols=3)
    audio = sound(1, 0.8)
    runner = ChunkRunner(ChunkChain(OnnxDevice(), graphs), Size(1, SIZE))
    assert said(whole(runner, audio)) == plain.fastconformer(published_, audio, symbols=3)


@pytest.mark.parametrize("ends", [[1, 700, 2_600, 2_601, 9_000], [5_000, 17_000, 23_999]])
def test_streamed_is_whole(runner, ends):
    audio = sound(2, 1.5)
    for end in ends:
        runner.run([Update("s", 1, Purpose.PARTIAL, 0, end)], [[audio[:end]]])
    assert said(whole(runner, audio, "s")) == said(whole(runner, audio))


def test_rows_of_a_batch_say_what_they_say_alone(runner, folders):
    batching = ChunkRunner(ChunkChain(Batching(), folders[1]), Size(4, SIZE))
    sounds = [sound(seed, 0.5 + seed / 4) for seed in range(3)]
    alone = [said(whole(runner, each)) for each in sounds]
    for end in (5_000, 8_000):
        part = [Update("b", n, Purpose.PARTIAL, 0, end) for n in range(3) if n or end < 8_000]
        batching.run(part, [[sounds[each.segment][:end]] for each in part])
    finals = [Update("b", n, Purpose.FINAL, 0, len(each)) for n, each in enumerate(sounds)]
    assert [said(each) for each in batching.run(finals, [[each] for each in sounds])] == alone
