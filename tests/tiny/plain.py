"""A streaming transducer run the obvious way, from whole features and the published files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import kaldi_native_fbank as knf
import numpy as np
import onnxruntime as ort

from edge_runtime.engines.export.streaming.features import nemo

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


def nemo_features(audio: np.ndarray, bins: int = 128) -> np.ndarray:
    """Features of a whole recording from its short-time spectrum, in float64."""
    emphasised = np.concatenate([audio[:1], audio[1:] - np.float32(0.97) * audio[:-1]])
    padded = np.pad(emphasised.astype(np.float64), 256)
    window = np.zeros(512)
    window[56:456] = np.hanning(400)
    starts = range(0, len(audio) + 1, 160)
    power = [np.abs(np.fft.rfft(padded[at : at + 512] * window)) ** 2 for at in starts]
    return np.log(np.stack(power) @ nemo(bins).mel + 2.0**-24).astype(np.float32)


def fastconformer(folder: Path, audio: np.ndarray, flush: int = 10560, symbols: int = 10) -> Spoken:
    """What it says of `audio` and so much silence, nine frames of nothing before the first."""
    encoder, decoder, joiner = (_open(folder, part) for part in ("encoder", "decoder", "joiner"))
    notes = encoder.get_modelmeta().custom_metadata_map
    shift, window = int(notes["chunk_shift"]), int(notes["window_size"])
    chunks = -(-(len(audio) + flush) // (shift * 160))
    silence = np.zeros(chunks * shift * 160 + 8000 - len(audio), np.float32)
    features = nemo_features(np.concatenate([audio, silence]))
    features = np.concatenate([np.zeros((window - shift, 128), np.float32), features])

    def size(name: str) -> list[int]:
        return [1, *(int(notes[f"{name}_dim{place}"]) for place in (1, 2, 3))]

    states = [
        np.zeros(size("cache_last_channel"), np.float32),
        np.zeros(size("cache_last_time"), np.float32),
        np.zeros(1, np.int64),
    ]
    blank = int(notes["vocab_size"])
    recurrent = (int(notes["pred_rnn_layers"]), 1, int(notes["pred_hidden"]))
    memory = [np.zeros(recurrent, np.float32) for _ in "hc"]
    names = [each.name for each in encoder.get_inputs()]
    asked = [each.name for each in decoder.get_inputs()]

    def say(token: int, memory: list) -> list:
        fed = [np.array([[token]], np.int32), np.array([1], np.int32), *memory]
        return decoder.run(None, dict(zip(asked, fed, strict=True)))

    said, _, *after = say(blank, memory)
    spoken: Spoken = []
    for chunk in range(chunks):
        x = features[None, chunk * shift : chunk * shift + window].transpose(0, 2, 1)
        fed = [x, np.array([window]), *states]
        encoded, _, *states = encoder.run(None, dict(zip(names, fed, strict=True)))
        for frame in range(encoded.shape[2]):
            for _ in range(symbols):
                inputs = {"encoder_outputs": encoded[:, :, frame : frame + 1],
                          "decoder_outputs": said}  # fmt: skip
                token = int(joiner.run(None, inputs)[0].argmax())
                if token == blank:
                    break
                spoken.append((chunk * encoded.shape[2] + frame, token))
                said, _, *after = say(token, after)
    return spoken


def moonshine(folder: Path, audio: np.ndarray, limit: int) -> list[int]:
    """The greedy text of whole audio: one window over all features, one token at a time."""
    told = json.loads((folder / "streaming_config.json").read_text())
    front, encoder, adapter, cross, decoder = (
        _open(folder, part) for part in ("frontend", "encoder", "adapter", "cross_kv", "decoder_kv")
    )
    states = {
        "sample_buffer": np.zeros((1, 79), np.float32),
        "sample_len": np.zeros(1, np.int64),
        "conv1_buffer": np.zeros((1, told["d_model_frontend"], 4), np.float32),
        "conv2_buffer": np.zeros((1, told["c1"], 4), np.float32),
        "frame_count": np.zeros(1, np.int64),
    }
    whole = np.pad(audio, (0, -len(audio) % 1280))
    features = front.run(["features"], {"audio_chunk": whole[None], **states})[0]
    encoded = encoder.run(None, {"features": features})[0]
    memory = adapter.run(None, {"encoded": encoded, "pos_offset": np.zeros(1, np.int64)})[0]
    keys, values = cross.run(None, {"memory": memory})
    size = (told["depth"], 1, told["nheads"], 0, told["head_dim"])
    past = [np.zeros(size, np.float32) for _ in "kv"]
    tokens = [told["bos_id"]]
    while len(tokens) <= limit:
        logits, *past = decoder.run(
            ["logits", "out_k_self", "out_v_self"],
            {"token": np.array([[tokens[-1]]], np.int64), "k_self": past[0], "v_self": past[1],
             "out_k_cross": keys, "out_v_cross": values},
        )  # fmt: skip
        tokens.append(int(logits[0, -1].argmax()))
        if tokens[-1] == told["eos_id"]:
            return tokens[1:-1]
    return tokens[1:]
