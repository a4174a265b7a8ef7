"""A cache-aware FastConformer transducer of NeMo's kind, small, with an LSTM for a predictor."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.tiny.writing import RandomWriter, publish, tokens

LAYERS, LEFT, DIM, PAST = 2, 6, 16, 4
BINS, LEAD, CHUNK, SUBSAMPLING = 128, 9, 16, 8
WINDOW = LEAD + CHUNK
OUT = CHUNK // SUBSAMPLING
HIDDEN, RECURRENT = 12, 2
VOCABULARY = 40
"""Without blank, which comes last."""


def write(folder: Path, seed: int = 5) -> None:
    _encoder(folder / "encoder.onnx", seed)
    _decoder(folder / "decoder.onnx", seed + 1)
    _joiner(folder / "joiner.onnx", seed + 2)
    tokens(folder / "tokens.txt", VOCABULARY + 1, blank=VOCABULARY)


def _encoder(path: Path, seed: int) -> None:
    g = RandomWriter("encoder", seed)
    x = g.input("audio_signal", np.float32, ["B", BINS, "T"])
    length = g.input("length", np.int64, ["B"])
    channel = g.input("cache_last_channel", np.float32, ["B", LAYERS, "C", DIM])
    time = g.input("cache_last_time", np.float32, ["B", LAYERS, DIM, "K"])
    known = g.input("cache_last_channel_len", np.int64, ["B"])
    h, quiet = _subsampled(g, g.transpose(x, 0, 2, 1))
    places = g.constant(np.arange(LEFT, 0, -1)[None], np.int64)
    missing = g.mul(g.cast(g.op("Less", g.unsqueeze(known, 1), places), np.float32), g.scalar(-1e4))
    bias = g.unsqueeze(g.op("Concat", missing, g.matmul(
        g.op("Slice", missing, g.ints(0), g.ints(1), g.ints(1)),
        g.constant(np.zeros((1, OUT)), np.float32)), axis=1), 1)  # fmt: skip
    channels, times = [], []
    for layer in range(LAYERS):
        at = g.constant(np.array(layer), np.int64)
        cached = g.op("Gather", channel, at, axis=1)
        joined = g.op("Concat", cached, h, axis=1)
        channels.append(g.unsqueeze(
            g.op("Slice", joined, g.ints(OUT), g.ints(OUT + LEFT), g.ints(1)), 1))  # fmt: skip
        keys, values = g.linear(joined, DIM, DIM), g.linear(joined, DIM, DIM)
        scores = g.matmul(g.linear(h, DIM, DIM), g.transpose(keys, 0, 2, 1))
        share = g.op("Softmax", g.add(g.mul(scores, g.scalar(DIM**-0.5)), bias), axis=-1)
        h = g.add(h, g.matmul(share, values))
        seen = g.op("Concat", g.op("Gather", time, at, axis=1), g.transpose(h, 0, 2, 1), axis=2)
        times.append(g.unsqueeze(
            g.op("Slice", seen, g.ints(OUT), g.ints(OUT + PAST), g.ints(2)), 1))  # fmt: skip
        moved = g.op("Conv", seen, g.drawn(DIM, 1, PAST + 1), group=DIM)
        h = g.op("Tanh", g.add(h, g.transpose(moved, 0, 2, 1)))
    out = g.add(g.mul(h, g.scalar(2.0)), quiet)
    g.output(g.transpose(out, 0, 2, 1), "outputs", np.float32, ["B", DIM, "T2"])
    eight = g.op("Div", g.op("Sub", length, g.ints(LEAD)), g.ints(SUBSAMPLING))
    eight = g.output(eight, "encoded_lengths", np.int64, ["B"])
    g.output(g.op("Concat", *channels, axis=1), "cache_last_channel_next", np.float32,
             ["B", LAYERS, "C", DIM])  # fmt: skip
    g.output(g.op("Concat", *times, axis=1), "cache_last_time_next", np.float32,
             ["B", LAYERS, DIM, "K"])  # fmt: skip
    grown = g.op("Min", g.add(known, eight), g.ints(LEFT))
    g.output(grown, "cache_last_channel_next_len", np.int64, ["B"])
    publish(g, path, {
        "vocab_size": VOCABULARY, "window_size": WINDOW, "chunk_size_ms": CHUNK * 10,
        "chunk_shift": CHUNK, "normalize_type": "", "cache_last_channel_dim1": LAYERS,
        "cache_last_channel_dim2": LEFT, "cache_last_channel_dim3": DIM,
        "cache_last_time_dim1": LAYERS, "cache_last_time_dim2": DIM,
        "cache_last_time_dim3": PAST, "pred_rnn_layers": RECURRENT, "pred_hidden": HIDDEN,
        "subsampling_factor": SUBSAMPLING, "feat_dim": BINS,
        "model_type": "EncDecHybridRNNTCTCBPEModel", "version": 1, "model_author": "NeMo",
    }, opset=17)  # fmt: skip


def _subsampled(g: RandomWriter, x: str) -> tuple[str, str]:
    """(B, 2, dim) of 25 frames, nine of them from before; and where next to nothing is heard."""
    now = g.op("Slice", x, g.ints(LEAD), g.ints(WINDOW), g.ints(1))
    before = g.op("Slice", x, g.ints(LEAD - 1), g.ints(WINDOW - 1), g.ints(1))
    moved = g.reshape(g.op("Sub", now, before), -1, OUT, SUBSAMPLING * BINS)
    lead = g.op("Slice", x, g.ints(0), g.ints(LEAD), g.ints(1))
    early = g.linear(g.op("ReduceMean", lead, axes=[1], keepdims=1), BINS, DIM, 0.1)
    h = g.op("Tanh", g.add(g.linear(moved, SUBSAMPLING * BINS, DIM, 2.0), early))
    level = g.op("ReduceMean", g.reshape(now, -1, OUT, SUBSAMPLING * BINS), axes=[2], keepdims=1)
    first = np.zeros((1, DIM), np.float32)
    first[0, 0] = 50.0
    under = g.op("Relu", g.op("Sub", g.scalar(-12.0), level))
    return h, g.matmul(under, g.constant(first, np.float32))


def _decoder(path: Path, seed: int) -> None:
    g = RandomWriter("decoder", seed)
    y = g.input("targets", np.int32, ["B", 1])
    g.input("target_length", np.int32, ["B"])
    h = g.input("states.1", np.float32, ["L", "B", "H"])
    c = g.input("onnx::Slice_3", np.float32, ["L", "B", "H"])
    table = g.drawn(VOCABULARY + 1, HIDDEN, scale=4.0)
    x = g.transpose(g.op("Gather", table, y), 1, 0, 2)
    states: list[list[str]] = [[], []]
    for layer in range(RECURRENT):
        was = [g.op("Slice", each, g.ints(layer), g.ints(layer + 1), g.ints(0)) for each in (h, c)]
        w, r = (g.unsqueeze(g.drawn(4 * HIDDEN, HIDDEN, scale=3.0), 0) for _ in "wr")
        ys, h_next, c_next = g.split_op(
            "LSTM", 3, x, w, r, "", "", *was, hidden_size=HIDDEN
        )  # fmt: skip
        x = g.op("Squeeze", ys, g.ints(1))
        states[0].append(h_next)
        states[1].append(c_next)
    g.output(g.transpose(x, 1, 2, 0), "outputs", np.float32, ["B", HIDDEN, "U"])
    g.output(g.op("Identity", "target_length"), "prednet_lengths", np.int32, ["B"])
    for name, parts in zip(("states", "162"), states, strict=True):
        g.output(g.op("Concat", *parts, axis=0), name, np.float32, ["L", "B", "H"])
    publish(g, path, {}, opset=17)


def _joiner(path: Path, seed: int) -> None:
    g = RandomWriter("joiner", seed)
    one = g.input("encoder_outputs", np.float32, ["B", DIM, "T"])
    other = g.input("decoder_outputs", np.float32, ["B", HIDDEN, "U"])
    heard = g.unsqueeze(g.linear(g.transpose(one, 0, 2, 1), DIM, DIM), 2)
    said = g.unsqueeze(g.linear(g.transpose(other, 0, 2, 1), HIDDEN, DIM, 3.0), 1)
    both = g.op("Tanh", g.add(heard, said))
    silent = np.zeros((1, VOCABULARY + 1), np.float32)
    silent[0, -1] = 1.0
    first = g.unsqueeze(
        g.op("Slice", g.transpose(one, 0, 2, 1), g.ints(0), g.ints(1), g.ints(2)), 2
    )
    unsure = g.op("Relu", g.op("Sub", first, g.scalar(3.0)))
    favour = np.zeros(VOCABULARY + 1, np.float32)
    favour[-1] = 1.5
    logits = g.add(g.linear(both, DIM, VOCABULARY + 1, 3.0), g.constant(favour, np.float32))
    logits = g.add(logits, g.matmul(unsure, g.constant(silent, np.float32)))
    g.output(g.op("LogSoftmax", logits, axis=-1), "outputs", np.float32, ["B", "T", "U", "V"])
    publish(g, path, {}, opset=17)
