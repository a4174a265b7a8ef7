"""Features in the graph are those of the libraries that models were trained with."""

from __future__ import annotations

import kaldi_native_fbank as knf
import numpy as np
import onnxruntime as ort
import pytest

from edge_runtime.decode.chunked.window import cut
from edge_runtime.engines.export.graph import GraphWriter
from edge_runtime.engines.export.streaming.features import STEP, FrontEnd, kaldi, nemo
from tests.tiny import plain


@pytest.fixture(scope="module")
def audio() -> np.ndarray:
    random = np.random.default_rng(0)
    wave = random.normal(0.02, 0.1, 16_000) * np.hanning(16_000)
    return wave.astype(np.float32)


def computed(front: FrontEnd, audio: np.ndarray, first: int, frames: int, blank: int = 0):
    """Frames from `first` on, out of a graph for so many."""
    g = GraphWriter("features")
    samples = (frames - 1) * STEP + front.length
    wave = g.input("audio", np.float32, ["B", samples])
    missing = g.input("blank", np.int64, ["B"])
    value = front.write(g, wave, missing, frames)
    g.output(value, "features", np.float32, ["B", frames, front.mel.shape[1]])
    session = ort.InferenceSession(g.model().SerializeToString())
    begin = first * STEP + front.first
    pieces = cut([audio[:5000], audio[5000:]], 0, begin, begin + samples, mirrored=front.mirrored)
    row = np.concatenate(pieces)
    row = np.pad(row, (0, samples - len(row)))
    return session.run(None, {"audio": row[None], "blank": np.array([blank])})[0][0]


def test_kaldis(audio):
    wanted = plain.kaldi_features(audio)[:90]
    np.testing.assert_allclose(computed(kaldi(80), audio, 0, 90), wanted, atol=5e-4)


@pytest.mark.parametrize("bins", [80, 128])
def test_nemos(audio, bins):
    """Against the short-time spectrum of the whole signal, in float64."""
    emphasised = np.concatenate([audio[:1], audio[1:] - np.float32(0.97) * audio[:-1]])
    padded = np.pad(emphasised.astype(np.float64), 256)
    window = np.zeros(512)
    window[56:456] = np.hanning(400)
    starts = range(0, 90 * 160, 160)
    power = [np.abs(np.fft.rfft(padded[at : at + 512] * window)) ** 2 for at in starts]
    wanted = np.log(np.stack(power) @ nemo(bins).mel + 2.0**-24)
    np.testing.assert_allclose(computed(nemo(bins), audio, 0, 90), wanted, atol=5e-4)


def test_slaneys_bands_are_those_of_the_library(audio):
    """Kaldi's frames begin 80 samples later; Hann's window takes no first sample, so they agree."""
    options = knf.FbankOptions()
    options.frame_opts.dither = 0
    options.frame_opts.snip_edges = False
    options.frame_opts.remove_dc_offset = False
    options.frame_opts.window_type = "hann"
    options.mel_opts.num_bins = 128
    options.mel_opts.low_freq = 0
    options.mel_opts.is_librosa = True
    loud = audio + np.float32(0.05) * np.random.default_rng(1).normal(0, 1, 16_000).astype("f4")
    bank = knf.OnlineFbank(options)
    bank.accept_waveform(16000, np.concatenate([np.zeros(80, np.float32), loud]).tolist())
    wanted = np.stack([bank.get_frame(n) for n in range(5, 90)])
    # Where a band is quiet, one adds 2^-24 where the other has a floor.
    near = wanted > -10
    assert near.mean() > 0.9
    found = computed(nemo(128), loud, 5, 85)
    apart = np.abs(found - wanted)[near]
    # The library rounds where its triangles begin.
    assert np.median(apart) < 0.01
    assert apart.max() < 0.2


@pytest.mark.parametrize("front", [kaldi(80), nemo(128)], ids=["kaldi", "nemo"])
def test_chunks_have_the_features_of_the_whole(audio, front):
    whole = computed(front, audio, 0, 90)
    for first, frames in ((0, 45), (3, 45), (32, 45), (13, 8), (40, 17)):
        found = computed(front, audio, first, frames)
        np.testing.assert_allclose(found, whole[first : first + frames], atol=1e-5)


def test_frames_before_the_first_are_zeros(audio):
    found = computed(nemo(80), audio, -9, 20, blank=9)
    assert not found[:9].any()
    np.testing.assert_allclose(found[9:], computed(nemo(80), audio, 0, 11), atol=1e-5)
