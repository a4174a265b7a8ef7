"""Tiles of a made-up Whisper: spectrogram, contract, cuts, padding, marks, precision."""

from __future__ import annotations

import functools
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest

from edge_runtime.decode.runner import Runner
from edge_runtime.decode.tiles import Chain, Size
from edge_runtime.decode.update import Purpose, Update
from edge_runtime.device.onnx import OnnxDevice
from edge_runtime.engines.export import whisper as exporter
from edge_runtime.engines.export.graph import GraphWriter
from edge_runtime.engines.export.whisper.features import filters, log_mel
from edge_runtime.engines.recipe import WhisperRecipe
from edge_runtime.errors import LanguageError, ModelDamaged

FORBIDDEN = {"If", "Loop", "Scan", "NonZero", "IsNaN"}
MOST = 16_000
"""Samples: the made-up context of 50 frames."""


@pytest.fixture(scope="module")
def chain(whisper, whisper_arrays, tmp_path_factory):
    @functools.cache
    def made(
        tiles: tuple[int, ...] = (3,), dtype: type = np.float32, step: int = 50, **marks: object
    ) -> Chain:
        dims = msgspec.structs.replace(whisper.architecture, context_step=step)
        recipe = msgspec.structs.replace(
            whisper, decoder_tiles=tiles, architecture=dims,
            marks=msgspec.structs.replace(whisper.marks, **marks),
        )  # fmt: skip
        folder: Path = tmp_path_factory.mktemp("tiny")
        for name, write in exporter.tiles(recipe, whisper_arrays, dtype).items():
            write().save(folder / f"{name}.onnx")
        np.save(folder / "table.npy", exporter.table(recipe, whisper_arrays, dtype))
        (folder / "shape.json").write_bytes(msgspec.json.encode(exporter.shape(recipe)))
        return Chain(OnnxDevice(lanes=1), folder)

    return made


@pytest.fixture(scope="module")
def sounds() -> list[np.ndarray]:
    random = np.random.default_rng(8)
    return [random.normal(0, 0.3, count).astype(np.float32) for count in (9_000, 16_000, 3_000)]


def run(chain: Chain, *sounds: np.ndarray, **fields) -> list:
    updates = [
        Update("t", row, Purpose.FINAL, 0, len(sound), limit=12, align=True, **fields)
        for row, sound in enumerate(sounds)
    ]
    return Runner(chain, Size(len(sounds), MOST)).run(updates, [[sound] for sound in sounds])


def same(found, expected) -> None:
    assert found.tokens == expected.tokens
    assert found.frames == expected.frames
    assert (found.frame_count, found.language) == (expected.frame_count, expected.language)
    np.testing.assert_allclose(found.logprobs, expected.logprobs, atol=1e-3)
    np.testing.assert_allclose(found.align, expected.align, atol=1e-3)
    np.testing.assert_allclose(found.silence, expected.silence, atol=1e-3)


@pytest.mark.parametrize("step", [50, 10])
def test_cuts_batches_and_padding_change_nothing(chain, sounds, step: int) -> None:
    whole = chain((3,), step=step)
    alone = [run(whole, sound)[0] for sound in sounds]
    assert len({hypothesis.tokens for hypothesis in alone}) == 3
    for found, expected in zip(run(whole, *sounds), alone, strict=True):
        same(found, expected)
    if step == 50:
        same(run(chain((1, 2)), sounds[0])[0], alone[0])


def test_a_shorter_window_is_as_long_as_the_audio_needs(chain, sounds) -> None:
    shape = chain(step=10).shape
    assert [shape.frames(len(sound)) for sound in sounds] == [30, 50, 10]
    assert [shape.heard(len(sound)) for sound in sounds] == [28, 50, 9]
    assert chain().shape.frames(3_000) == 50


def test_what_lies_behind_the_audio_is_not_heard(chain, sounds) -> None:
    made = chain()
    runner = Runner(made, Size(1, MOST))
    (expected,) = run(made, sounds[2])
    runner.lane.audio.host[:] = 0.5
    stage = runner.lane.stage
    runner.lane.stage = lambda row, pieces, samples: stage(  # type: ignore[method-assign]
        row, [*pieces, np.full(samples - len(pieces[0]), 0.5, np.float32)], samples
    )
    update = Update("t", 0, Purpose.FINAL, 0, len(sounds[2]), limit=12, align=True)
    runner.lane.size = runner.size
    (found,) = runner.run([update], [[sounds[2]]])
    same(found, expected)


def test_a_draft_changes_nothing_and_saves_passes(chain, sounds) -> None:
    made = chain()
    (slow,) = run(made, sounds[0])
    (fast,) = run(made, sounds[0], draft=slow.tokens, guess=slow.language)
    assert fast.cost.passes <= 2 < slow.cost.passes
    same(fast, slow)


def test_marks_and_what_stands_for_no_speech_are_not_said(chain, sounds, whisper) -> None:
    sound = sounds[0]
    (free,) = run(chain(suppressed=(), suppressed_first=()), sound)
    first = free.tokens[0]
    (late,) = run(chain(suppressed=(), suppressed_first=(first,)), sound)
    assert late.tokens[0] != first
    (never,) = run(chain(suppressed=free.tokens, suppressed_first=()), sound)
    assert not {*never.tokens} & {*free.tokens}
    # Rows of the table that stand for nothing are not chosen, though their logits are 0.
    assert max(*free.tokens, *late.tokens, *never.tokens) < whisper.architecture.tokens


def test_the_language_is_heard_or_told(chain, sounds) -> None:
    made = chain()
    heard = run(made, *sounds)
    assert all(each.language in ("en", "de", "zh") for each in heard)
    for each, sound in zip(heard, sounds, strict=True):
        for guess in ("en", "de", "zh"):
            same(run(made, sound, guess=guess)[0], each)
        same(run(made, sound, language=each.language)[0], each)
        other = run(made, sound, language="zh" if each.language != "zh" else "de")[0]
        assert other.logprobs != each.logprobs
        assert run(made, sound, task="translate")[0].logprobs != each.logprobs
    with pytest.raises(LanguageError, match="does not know the language 'xx'"):
        run(made, sounds[0], language="xx")
    with pytest.raises(LanguageError, match="no task 'sing'"):
        run(made, sounds[0], task="sing")


def test_float16_is_near(chain, sounds) -> None:
    made = chain(dtype=np.float16)
    for sound in sounds:
        (wide,), (narrow,) = run(chain(), sound), run(made, sound)
        first = next(
            (n for n, pair in enumerate(zip(wide.tokens, narrow.tokens, strict=False))
             if pair[0] != pair[1]), len(wide.tokens),
        )  # fmt: skip
        assert first == len(wide.tokens) or wide.margins[first] < 0.1
        np.testing.assert_allclose(narrow.logprobs[:first], wide.logprobs[:first], atol=0.1)
        assert abs(narrow.silence - wide.silence) < 0.1


@pytest.mark.parametrize("step", [50, 10])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_every_tile_is_valid_and_plain(whisper, whisper_arrays, dtype: type, step: int) -> None:
    dims = msgspec.structs.replace(whisper.architecture, context_step=step)
    recipe = msgspec.structs.replace(whisper, architecture=dims)
    for write in exporter.tiles(recipe, whisper_arrays, dtype).values():
        model = write().model()
        onnx.checker.check_model(model, full_check=True)
        assert model.ir_version <= 10
        assert model.opset_import[0].version <= 18
        assert not {node.op_type for node in model.graph.node} & FORBIDDEN


def test_marks_that_are_other_tokens_are_damage(whisper: WhisperRecipe) -> None:
    told = [f"t{number}" for number in range(100)]
    marks = {90: "startoftranscript", 91: "endoftext", 92: "en", 93: "de", 94: "zh",
             95: "transcribe", 96: "translate"}  # fmt: skip
    for number, name in marks.items():
        told[number] = f"<|{name}|>"
    found = exporter.vocabulary(whisper, told, Path("x"))
    assert len(found) == whisper.architecture.vocabulary
    for number, name in marks.items():
        wrong = [*told[:number], "<|xx|>", *told[number + 1 :]]
        with pytest.raises(ModelDamaged, match=rf"token {number} is not <\|{name}\|>"):
            exporter.vocabulary(whisper, wrong, Path("x"))


def spectrogram(samples: np.ndarray, bins: int = 80) -> np.ndarray:
    """The same in another way: float64, numpy's transform, one frame after the other."""
    padded = np.pad(np.pad(samples.astype(np.float64), (0, 200)), (200, 0), mode="reflect")
    window = np.hanning(401)[:-1]
    frames = [
        np.abs(np.fft.rfft(padded[at : at + 400] * window)) ** 2
        for at in range(0, len(samples) // 160 * 160, 160)
    ]
    level = np.log10(np.maximum(filters(bins) @ np.array(frames).T, 1e-10))
    return (np.maximum(level, level.max() - 8.0) + 4.0) / 4.0


def test_the_spectrogram_is_that_of_the_row_alone(sounds) -> None:
    import onnxruntime as ort

    g = GraphWriter("mel")
    audio = g.input("audio", np.float32, ("B", "N"))
    length = g.input("length", np.int64, ("B",))
    mel, steps = log_mel(g, audio, length, 80)
    g.output(mel, "mel", np.float32, ("B", 80, "F"))
    g.output(steps, "steps", np.int64, ("B",))
    session = ort.InferenceSession(g.model().SerializeToString())
    rows = np.full((3, MOST), 0.7, np.float32)
    for row, sound in zip(rows, sounds, strict=True):
        row[: len(sound)] = sound
    sizes = np.array([len(sound) for sound in sounds])
    found, counts = session.run(None, {"audio": rows, "length": sizes})
    assert counts.tolist() == [56, 100, 18]
    for got, sound, count in zip(found, sounds, counts, strict=True):
        np.testing.assert_allclose(got[:, :count], spectrogram(sound), atol=1e-4)
        assert not got[:, count:].any()


def test_mel_bands_are_triangles_of_unit_area() -> None:
    bands = filters(80)
    assert bands.shape == (80, 201)
    peaks = bands.argmax(1) * 40.0
    assert peaks[0] <= 80 < peaks[10] < 1000 < peaks[40] < peaks[79] < 8000
    # Below 1 kHz a mel is 200/3 Hz, above it grows by a factor of 6.4 in 27.
    np.testing.assert_allclose(bands[60:].sum(1) * 40.0, 1.0, atol=0.1)
