"""The real detector on real speech: its batch, its onsets, and its silence on what is no speech."""

import csv
from pathlib import Path

import numpy as np
import pytest
import soundfile

from edge_runtime.audio import FRAME
from edge_runtime.audio.endpoint import Endpoint, Endpointer, Onset, Silence, Verdict
from edge_runtime.audio.file import FileSource
from edge_runtime.audio.vad import VoiceDetector
from edge_runtime.config import Listening
from edge_runtime.device.onnx import OnnxDevice
from edge_runtime.engines.export import silero
from edge_runtime.engines.recipe import SileroRecipe, load_recipe
from edge_runtime.engines.store import Store
from edge_runtime.errors import ModelMissing

ROOT = Path(__file__).parents[3]
DATA = ROOT.parent / "shared" / "data"
SPEECH = [
    "librispeech_test_clean/1089-134686-0001",
    "librispeech_test_clean/1089-134691-0000",
    "librispeech_test_clean/1089-134691-0001",
    "librispeech_mini_train_clean5/163-122947-0006",
    "librispeech_mini_train_clean5/1867-154075-0005",
    "librispeech_mini_train_clean5/4640-19188-0003",
]
NONSPEECH = ["noise1", "noise2", "silence_10s", "tone440_10s", "white_m40db_10s"]


@pytest.fixture(scope="module")
def published() -> Path:
    recipe = load_recipe("silero-vad")
    try:
        return Store().weights(recipe) / "silero_vad_16k_sequence.onnx"
    except ModelMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def plan(published: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    recipe = load_recipe("silero-vad")
    assert isinstance(recipe, SileroRecipe)
    folder = tmp_path_factory.mktemp("silero")
    silero.export(recipe, published.parent, folder)
    return folder / "vad.onnx"


@pytest.fixture
def detector(plan: Path) -> VoiceDetector:
    device = OnnxDevice()
    return VoiceDetector(device.load(plan), device, rows=8)


def clip(name: str) -> np.ndarray:
    path = DATA / f"{name}.flac"
    if not path.is_file():
        pytest.skip(f"{path} is absent")
    with FileSource(path) as source:
        return np.concatenate(list(source))


def framed(samples: np.ndarray) -> np.ndarray:
    return np.pad(samples, (0, -len(samples) % FRAME)).reshape(-1, FRAME)


def judged(detector: VoiceDetector, frames: np.ndarray) -> list[float]:
    slot = detector.open()
    found = [detector.hear([slot], [frame])[0][0] for frame in frames]
    detector.close(slot)
    return found


def turns(probabilities: list[float]) -> list[Verdict]:
    """Of a clip, and the silence that ends it."""
    endpointer = Endpointer(Listening(), 500)
    heard = [*probabilities, *[0.0] * 20]
    return [verdict for probability in heard for verdict in endpointer.heard(probability)]


def energy_bounds(samples: np.ndarray) -> tuple[int, int]:
    """First and last sample of the 20 ms frames near the level of speech (95th percentile).

    Within 20 dB for the first, so that a breath before the word is none of it; 30 for the last.
    """
    frames = samples[: len(samples) // 320 * 320].reshape(-1, 320)
    level = 10 * np.log10((frames**2).mean(axis=1) + 1e-12)
    level -= np.percentile(level, 95)
    first, last = np.flatnonzero(level >= -20)[0], np.flatnonzero(level >= -30)[-1] + 1
    return int(first) * 320, int(last) * 320


def test_a_stream_equals_the_published_model(detector: VoiceDetector, published: Path) -> None:
    """The published graph takes all frames at once, each with the 64 samples before it."""
    samples = clip(SPEECH[0])
    frames = framed(samples)
    before = np.concatenate([np.zeros((1, 64), np.float32), frames[:-1, -64:]])
    device = OnnxDevice()
    program = device.load(published)
    inputs = {
        "input": np.concatenate([before, frames], axis=1),
        "h": np.zeros((1, 1, 128)),
        "c": np.zeros((1, 1, 128)),
    }
    shapes = {"speech_probs": (len(frames),), "hn": (1, 1, 128), "cn": (1, 1, 128)}
    bindings = {name: device.alloc(value.shape, np.float32) for name, value in inputs.items()}
    for name, value in inputs.items():
        bindings[name].host[:] = value
    for name, shape in shapes.items():
        bindings[name] = device.alloc(shape, np.float32)
    program.bind(bindings, device.stream())()
    np.testing.assert_allclose(judged(detector, frames), bindings["speech_probs"].host, atol=1e-5)


def test_a_batch_equals_each_stream_alone(detector: VoiceDetector) -> None:
    clips = [framed(clip(name)) for name in SPEECH]
    alone = [judged(detector, frames) for frames in clips]
    slots = [detector.open() for _ in clips]
    together: list[list[float]] = [[] for _ in clips]
    for step in range(max(map(len, clips))):
        due = [index for index, frames in enumerate(clips) if step < len(frames)]
        found = detector.hear(
            [slots[index] for index in due], [clips[index][step] for index in due]
        )
        for index, (probability,) in zip(due, found, strict=True):
            together[index].append(probability)
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_allclose(other, one, atol=1e-5)


@pytest.mark.parametrize("name", SPEECH[1:])
def test_speech_is_found_where_its_energy_is(detector: VoiceDetector, name: str) -> None:
    samples = clip(name)
    # A second of silence after it, so that the endpoint is reached.
    heard = turns(judged(detector, framed(np.pad(samples, (0, 16000)))))
    assert isinstance(heard[0], Onset)
    assert isinstance(heard[-2], Silence)
    assert isinstance(heard[-1], Endpoint)
    start, end = energy_bounds(samples)
    assert abs(heard[0].at - start) <= 0.150 * 16000
    assert abs(heard[-1].last - end) <= 0.300 * 16000


def test_a_fricative_at_the_beginning_is_inside_the_padding(detector: VoiceDetector) -> None:
    """The detector hears "stuff" from its vowel on: the padding is what saves the "st"."""
    samples = clip(SPEECH[0])
    onset = turns(judged(detector, framed(samples)))[0]
    assert isinstance(onset, Onset)
    start, _ = energy_bounds(samples)
    padding = Listening().padding_ms * 16
    assert start < onset.at <= start + padding


@pytest.mark.parametrize("name", NONSPEECH)
def test_what_is_no_speech_has_no_onset(detector: VoiceDetector, name: str) -> None:
    assert turns(judged(detector, framed(clip(f"nonspeech/{name}")))) == []


@pytest.mark.parametrize("rate", [8000, 22050, 44100, 48000])
def test_speech_at_other_rates_is_found_alike(
    detector: VoiceDetector, rate: int, tmp_path: Path
) -> None:
    import soxr

    samples = clip(SPEECH[2])
    path = tmp_path / "other.wav"
    other = soxr.resample(samples, 16000, rate)
    soundfile.write(path, np.stack([other, other], axis=1), rate, subtype="FLOAT")
    with FileSource(path) as source:
        again = np.concatenate(list(source))
    assert abs(len(again) - len(samples)) <= 1
    first, second = (turns(judged(detector, framed(audio))) for audio in (samples, again))
    assert [type(verdict) for verdict in first] == [type(verdict) for verdict in second]
    assert isinstance(first[0], Onset)
    assert isinstance(second[0], Onset)
    assert abs(first[0].at - second[0].at) <= FRAME


def test_the_clips_shipped_here_are_what_their_manifest_says(detector: VoiceDetector) -> None:
    with (ROOT / "audio" / "manifest.tsv").open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert sorted(row["path"] for row in rows) == sorted(
        path.name for path in (ROOT / "audio").glob("*.flac")
    )
    for row in rows:
        with FileSource(ROOT / "audio" / row["path"]) as source:
            assert source.seconds == pytest.approx(float(row["seconds"]), abs=1e-3)
            samples = np.concatenate(list(source))
        assert isinstance(turns(judged(detector, framed(samples)))[0], Onset)
        assert row["transcript"]
        assert row["license"]
