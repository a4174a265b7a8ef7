"""A streaming zipformer of icefall's kind, small: every state is read, and matters."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.tiny.writing import RandomWriter, publish, tokens

LAYERS = (1, 2)
DIM, HEADS, QUERY, VALUE, KERNEL = 16, 2, 8, 4, 7
LEFT = 8
CHUNK = 16
WINDOW = 45
JOINER = 24
VOCABULARY = 40
CHANNELS, BANDS = 128, 19


def write(folder: Path, seed: int = 5) -> None:
    """Encoder, decoder, joiner and tokens.txt, as the exporter of the publisher leaves them."""
    _encoder(folder / "encoder-epoch-99-avg-1-chunk-16-left-128.onnx", seed)
    _decoder(folder / "decoder-epoch-99-avg-1-chunk-16-left-128.onnx", seed + 1)
    _joiner(folder / "joiner-epoch-99-avg-1-chunk-16-left-128.onnx", seed + 2)
    tokens(folder / "tokens.txt", VOCABULARY, blank=0)


def _encoder(path: Path, seed: int) -> None:
    g = RandomWriter("encoder", seed)
    x = g.input("x", np.float32, ["N", WINDOW, 80])
    shapes = _states()
    for name, shape in shapes.items():
        g.input(name, _dtype(name), shape)
    new: dict[str, str] = {}
    h = _embed(g, x, new)
    known = _mask(g)
    for index in range(sum(LAYERS)):
        h = _layer(g, h, index, known, new)
    new["processed_lens"] = g.add("processed_lens", g.ints(CHUNK))
    halves = g.reshape(g.transpose(h, 1, 0, 2), -1, CHUNK // 2, 2 * DIM)
    out = g.add(g.linear(halves, 2 * DIM, JOINER), _quiet(g, x))
    g.output(out, "encoder_out", np.float32, ["N", CHUNK // 2, JOINER])
    for name, shape in shapes.items():
        g.output(new[name], f"new_{name}", _dtype(name), shape)

    def each(value: int) -> str:
        return ",".join([str(value)] * len(LAYERS))

    publish(g, path, {
        "model_type": "zipformer2", "version": 1, "model_author": "k2-fsa",
        "comment": "streaming zipformer2", "decode_chunk_len": 2 * CHUNK, "T": WINDOW,
        "num_encoder_layers": ",".join(map(str, LAYERS)), "encoder_dims": each(DIM),
        "cnn_module_kernels": each(KERNEL), "left_context_len": each(LEFT),
        "query_head_dims": each(QUERY), "value_head_dims": each(VALUE), "num_heads": each(HEADS),
    })  # fmt: skip


def _quiet(g: RandomWriter, x: str) -> str:
    """Far up in the first of the outputs where nothing is heard: there the joiner says blank."""
    now = g.op("Slice", x, g.ints(0), g.ints(2 * CHUNK), g.ints(1))
    level = g.op("ReduceMean", g.reshape(now, -1, CHUNK // 2, 4 * 80), axes=[2], keepdims=1)
    under = g.op("Relu", g.op("Sub", g.scalar(-10.0), level))
    first = np.zeros((1, JOINER), np.float32)
    first[0, 0] = 50.0
    return g.matmul(under, g.constant(first, np.float32))


def _states() -> dict[str, list[int | str]]:
    """In the publisher's order; streams are on the axis N."""
    shapes: dict[str, list[int | str]] = {}
    for index in range(sum(LAYERS)):
        shapes |= {
            f"cached_key_{index}": [LEFT, "N", QUERY * HEADS],
            f"cached_nonlin_attn_{index}": [1, "N", LEFT, 3 * DIM // 4],
            f"cached_val1_{index}": [LEFT, "N", VALUE * HEADS],
            f"cached_val2_{index}": [LEFT, "N", VALUE * HEADS],
            f"cached_conv1_{index}": ["N", DIM, KERNEL // 2],
            f"cached_conv2_{index}": ["N", DIM, KERNEL // 2],
        }
    return shapes | {"embed_states": ["N", CHANNELS, 3, BANDS], "processed_lens": ["N"]}


def _dtype(name: str) -> type:
    return np.int64 if name == "processed_lens" else np.float32


def _embed(g: RandomWriter, x: str, new: dict[str, str]) -> str:
    """(16, N, dim) out of 45 frames, with the last three of the chunk before."""
    even = g.op("Slice", x, g.ints(0), g.ints(2 * CHUNK), g.ints(1), g.ints(2))
    odd = g.op("Slice", x, g.ints(1), g.ints(2 * CHUNK + 1), g.ints(1), g.ints(2))
    now = g.op("Sub", even, odd)  # else loudness is all that random weights hear
    ahead = g.op("Slice", x, g.ints(2 * CHUNK), g.ints(WINDOW), g.ints(1))
    later = g.linear(g.op("ReduceMean", ahead, axes=[1], keepdims=1), 80, DIM, 0.2)
    h = g.op("Tanh", g.add(g.linear(now, 80, DIM, 3.0), later))
    wide = g.reshape(g.linear(h, DIM, CHANNELS * BANDS), -1, CHUNK, CHANNELS, BANDS)
    joined = g.op("Concat", "embed_states", g.transpose(wide, 0, 2, 1, 3), axis=2)
    new["embed_states"] = g.op("Slice", joined, g.ints(CHUNK), g.ints(CHUNK + 3), g.ints(2))
    seen = g.op("Conv", g.op("ReduceMean", joined, axes=[3], keepdims=0), g.drawn(DIM, CHANNELS, 4))
    return g.transpose(g.add(h, g.transpose(g.op("Tanh", seen), 0, 2, 1)), 1, 0, 2)


def _mask(g: RandomWriter) -> str:
    """(N, 1, left + chunk): keys of frames that there never were count for nothing."""
    places = g.constant(np.arange(LEFT, 0, -1)[None], np.int64)
    missing = g.op("Less", g.unsqueeze("processed_lens", 1), places)
    old = g.mul(g.cast(missing, np.float32), g.scalar(-1e4))
    fresh = g.mul(g.op("Slice", old, g.ints(0), g.ints(1), g.ints(1)), g.scalar(0.0))
    fresh = g.matmul(fresh, g.constant(np.zeros((1, CHUNK)), np.float32))
    return g.unsqueeze(g.op("Concat", old, fresh, axis=1), 1)


def _layer(g: RandomWriter, h: str, index: int, known: str, new: dict[str, str]) -> str:
    keys, wide, nonlin, past = QUERY * HEADS, VALUE * HEADS, 3 * DIM // 4, KERNEL // 2

    def kept(name: str, fresh: str, axis: int, size: int) -> str:
        """The state of that name with `fresh` behind it; the newest goes to the next call."""
        joined = g.op("Concat", f"{name}_{index}", fresh, axis=axis)
        new[f"{name}_{index}"] = g.op(
            "Slice", joined, g.ints(CHUNK), g.ints(CHUNK + size), g.ints(axis)
        )
        return joined

    key = kept("cached_key", g.linear(h, DIM, keys), 0, LEFT)
    query = g.linear(h, DIM, keys)
    scores = g.matmul(g.transpose(query, 1, 0, 2), g.transpose(key, 1, 2, 0))
    share = g.op("Softmax", g.add(g.mul(scores, g.scalar(keys**-0.5)), known), axis=-1)
    gate = g.unsqueeze(g.transpose(g.op("Tanh", g.linear(h, DIM, nonlin)), 1, 0, 2), 0)
    through = kept("cached_nonlin_attn", gate, 2, LEFT)
    mixed = g.matmul(share, g.op("Squeeze", through, g.ints(0)))
    h = g.add(h, g.linear(g.transpose(mixed, 1, 0, 2), nonlin, DIM))
    for number in (1, 2):
        value = kept(f"cached_val{number}", g.linear(h, DIM, wide), 0, LEFT)
        heard = g.transpose(g.matmul(share, g.transpose(value, 1, 0, 2)), 1, 0, 2)
        h = g.add(h, g.linear(heard, wide, DIM))
        seen = kept(f"cached_conv{number}", g.transpose(h, 1, 2, 0), 2, past)
        out = g.op("Conv", seen, g.drawn(DIM, 1, past + 1), group=DIM)
        h = g.op("Tanh", g.add(h, g.transpose(out, 2, 0, 1)))
    return h


def _decoder(path: Path, seed: int) -> None:
    g = RandomWriter("decoder", seed)
    y = g.input("y", np.int64, ["N", 2])
    table = g.drawn(VOCABULARY, JOINER, scale=1.0)
    both = g.reshape(g.op("Gather", table, y), -1, 2 * JOINER)
    g.output(g.linear(both, 2 * JOINER, JOINER), "decoder_out", np.float32, ["N", JOINER])
    publish(g, path, {"context_size": 2, "vocab_size": VOCABULARY})


def _joiner(path: Path, seed: int) -> None:
    g = RandomWriter("joiner", seed)
    one = g.input("encoder_out", np.float32, ["N", JOINER])
    other = g.input("decoder_out", np.float32, ["N", JOINER])
    both = g.op("Tanh", g.add(one, other))
    # As trained ones do, it says blank at most frames.
    favour = np.zeros(VOCABULARY, np.float32)
    favour[0] = 2.5
    logits = g.add(g.linear(both, JOINER, VOCABULARY, 3.0), g.constant(favour, np.float32))
    first = g.op("Slice", both, g.ints(0), g.ints(1), g.ints(1))
    silent = np.zeros((1, VOCABULARY), np.float32)
    silent[0, 0] = 1000.0
    unsure = g.op("Relu", g.op("Sub", first, g.scalar(0.98)))
    logits = g.add(logits, g.matmul(unsure, g.constant(silent, np.float32)))
    g.output(logits, "logit", np.float32, ["N", VOCABULARY])
    publish(g, path, {"joiner_dim": JOINER})
