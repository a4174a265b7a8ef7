"""A streaming transducer run the obvious way, from whole features and the published files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kaldi_native_fbank as knf
import numpy as np
import onnxruntime as ort

Spoken = list[tuple[int, int]]
"""Encoded frame and token, one by one."""


def kaldi_features(audio: np.ndarray, bins: int = 80) -> np.ndarray:
    """Features of a whole recording, from the library that the publisher's own runtime uses."""
    options = knf.FbankOptions()
    options.frame_opts.dither = 0
    options.frame_opts.snip_edges = False
    options.mel_opts.num_bins = bins
    options.mel_opts.high_freq = -400
    return _features(options, audio)


def _features(options: Any, audio: np.ndarray) -> np.ndarray:
    bank = knf.OnlineFbank(options)
    bank.accept_waveform(16000, audio.tolist())
    return np.stack([bank.get_frame(n) for n in range(bank.num_frames_ready)]).astype(np.float32)


def zipformer(folder: Path, audio: np.ndarray, flush: int = 10560, symbols: int = 1) -> Spoken:
    """What it says of `audio` and so much silence behind it, in whole chunks."""
    encoder, decoder, joiner = (_open(folder, part) for part in ("encoder", "decoder", "joiner"))
    chunks = -(-(len(audio) + flush) // 5120)
    silence = np.zeros(chunks * 5120 + 8000 - len(audio), np.float32)
    features = kaldi_features(np.concatenate([audio, silence]))
    states = {
        each.name: np.zeros(
            [size if isinstance(size, int) else 1 for size in each.shape],
            np.int64 if "int64" in each.type else np.float32,
        )
        for each in encoder.get_inputs()[1:]
    }
    names = [each.name.removeprefix("new_") for each in encoder.get_outputs()[1:]]
    context, spoken = [-1, 0], []
    for chunk in range(chunks):
        x = features[None, chunk * 32 : chunk * 32 + 45]
        (encoded,), *taken = [[each] for each in encoder.run(None, {"x": x, **states})]
        states = dict(zip(names, (each for (each,) in taken), strict=True))
        for frame in range(encoded.shape[1]):
            for _ in range(symbols):
                (said,) = decoder.run(None, {"y": np.array([context[-2:]], np.int64)})
                inputs = {"encoder_out": encoded[:, frame], "decoder_out": said}
                token = int(joiner.run(None, inputs)[0].argmax())
                if token == 0:
                    break
                context.append(token)
                spoken.append((chunk * encoded.shape[1] + frame, token))
    return spoken


def _open(folder: Path, part: str) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    (path,) = folder.glob(f"{part}*.onnx")
    return ort.InferenceSession(str(path), options)
