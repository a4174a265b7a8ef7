"""A Moonshine v2 of the published five programs, small: a sliding window, memory that grows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from tests.tiny.writing import RandomWriter, publish

DIM, WIDTH, DEPTH, HEADS, HEAD = 16, 12, 2, 2, 6
FRONT, CONV = 8, 10
LEFT, AHEAD = 16, 2
VOCABULARY = 32


def write(folder: Path, seed: int = 28) -> None:
    _frontend(folder / "frontend.onnx", seed)
    _encoder(folder / "encoder.onnx", seed + 1)
    _adapter(folder / "adapter.onnx", seed + 2)
    _cross(folder / "cross_kv.onnx", seed + 3)
    _decoder(folder / "decoder_kv.onnx", seed + 4)
    (folder / "streaming_config.json").write_text(json.dumps({
        "encoder_dim": DIM, "decoder_dim": WIDTH, "depth": DEPTH, "nheads": HEADS,
        "head_dim": HEAD, "vocab_size": VOCABULARY, "bos_id": 1, "eos_id": 2, "frame_len": 80,
        "total_lookahead": AHEAD * DEPTH, "d_model_frontend": FRONT, "c1": CONV, "c2": DIM,
    }))  # fmt: skip
    texts = ["<unk>", "<s>", "</s>", *(f"\u2581w{n}" for n in range(3, VOCABULARY))]
    spelt = [text.encode() for text in texts]
    (folder / "tokenizer.bin").write_bytes(b"".join(bytes([len(t)]) + t for t in spelt))


def _frontend(path: Path, seed: int) -> None:
    g = RandomWriter("frontend", seed)
    audio = g.input("audio_chunk", np.float32, [1, "n"])
    buffer = g.input("sample_buffer", np.float32, [1, 79])
    length = g.input("sample_len", np.int64, [1])
    conv1 = g.input("conv1_buffer", np.float32, [1, FRONT, 4])
    conv2 = g.input("conv2_buffer", np.float32, [1, CONV, 4])
    count = g.input("frame_count", np.int64, [1])
    joined = g.op("Concat", buffer, audio, axis=1)
    before = g.op("Slice", joined, g.ints(78), g.ints(-1), g.ints(1))
    moved = g.reshape(g.op("Sub", audio, before), 1, -1, 80)
    x = g.transpose(g.op("Tanh", g.linear(moved, 80, FRONT, 40.0)), 0, 2, 1)
    outs = []
    for state, wide, rows in ((conv1, CONV, FRONT), (conv2, DIM, CONV)):
        seen = g.op("Concat", state, x, axis=2)
        outs.append(g.op("Slice", seen, g.ints(-4), g.ints(2**31), g.ints(2)))
        x = g.op("Tanh", g.op("Conv", seen, g.drawn(wide, rows, 5, scale=2.0), strides=[2]))
    g.output(g.transpose(x, 0, 2, 1), "features", np.float32, [1, "T", DIM])
    g.output(g.op("Slice", joined, g.ints(-79), g.ints(2**31), g.ints(1)),
             "sample_buffer_out", np.float32, [1, 79])  # fmt: skip
    g.output(g.op("Identity", length), "sample_len_out", np.int64, [1])
    g.output(outs[0], "conv1_buffer_out", np.float32, [1, FRONT, 4])
    g.output(outs[1], "conv2_buffer_out", np.float32, [1, CONV, 4])
    g.output(g.add(count, g.size(moved, 1)), "frame_count_out", np.int64, [1])
    publish(g, path, {}, opset=17)


def _encoder(path: Path, seed: int) -> None:
    g = RandomWriter("encoder", seed)
    h = g.input("features", np.float32, [1, "T", DIM])
    places = g.arange(g.size(h, 1))
    apart = g.op("Sub", g.unsqueeze(places, 0), g.unsqueeze(places, 1))
    early = g.op("Less", apart, g.ints(-LEFT))
    late = g.op("Less", g.ints(AHEAD), apart)
    bias = g.mul(g.cast(g.op("Or", early, late), np.float32), g.scalar(-1e4))
    for _ in range(DEPTH):
        scores = g.matmul(g.linear(h, DIM, DIM), g.transpose(g.linear(h, DIM, DIM), 0, 2, 1))
        share = g.op("Softmax", g.add(g.mul(scores, g.scalar(DIM**-0.5)), bias), axis=-1)
        h = g.op("Tanh", g.add(h, g.matmul(share, g.linear(h, DIM, DIM))))
    g.output(h, "encoded", np.float32, [1, "T", DIM])
    publish(g, path, {}, opset=17)


def _adapter(path: Path, seed: int) -> None:
    g = RandomWriter("adapter", seed)
    x = g.input("encoded", np.float32, [1, "T", DIM])
    offset = g.input("pos_offset", np.int64, [1])
    places = g.cast(g.add(g.arange(g.size(x, 1)), offset), np.float32)
    pace = g.constant(1.0 / 4 ** np.arange(WIDTH)[None], np.float32)
    waves = g.op("Sin", g.matmul(g.unsqueeze(places, 1), pace))
    memory = g.add(g.linear(x, DIM, WIDTH, 2.0), g.unsqueeze(waves, 0))
    g.output(memory, "memory", np.float32, [1, "T", WIDTH])
    publish(g, path, {}, opset=17)


def _cross(path: Path, seed: int) -> None:
    g = RandomWriter("cross_kv", seed)
    memory = g.input("memory", np.float32, [1, "T", WIDTH])
    for name in ("k_cross", "v_cross"):
        layers = [_heads(g, g.linear(memory, WIDTH, WIDTH, 2.0)) for _ in range(DEPTH)]
        g.output(g.op("Concat", *layers, axis=0), name, np.float32, [DEPTH, 1, HEADS, "T", HEAD])
    publish(g, path, {}, opset=17)


def _heads(g: RandomWriter, x: str) -> str:
    """(1, n, width) → (1, 1, heads, n, head)"""
    return g.unsqueeze(g.transpose(g.reshape(x, 1, -1, HEADS, HEAD), 0, 2, 1, 3), 0)


def _decoder(path: Path, seed: int) -> None:
    g = RandomWriter("decoder_kv", seed)
    token = g.input("token", np.int64, [1, "Q"])
    past = {
        each: g.input(f"{each}_self", np.float32, [DEPTH, 1, HEADS, "P", HEAD]) for each in "kv"
    }
    cross = {
        each: g.input(f"out_{each}_cross", np.float32, [DEPTH, 1, HEADS, "T", HEAD])
        for each in "kv"
    }
    before = g.size(past["k"], 3)
    own = g.add(g.arange(g.size(token, 1)), before)
    pace = g.constant(1.0 / 2 ** np.arange(WIDTH)[None], np.float32)
    place = g.op("Sin", g.matmul(g.unsqueeze(g.cast(own, np.float32), 1), pace))
    # The place counts for much, or random weights say the same word for ever.
    place = g.unsqueeze(g.mul(place, g.scalar(3.0)), 0)
    h = g.add(g.op("Gather", g.drawn(VOCABULARY, WIDTH, scale=5.0), token), place)
    all_places = g.arange(g.add(g.size(token, 1), before))
    later = g.op("Less", g.unsqueeze(own, 1), g.unsqueeze(all_places, 0))
    bias = g.mul(g.cast(later, np.float32), g.scalar(-1e4))
    grown: dict[str, list[str]] = {"k": [], "v": []}
    for layer in range(DEPTH):
        at = g.constant(np.array([layer]), np.int64)
        mine = {}
        for each in "kv":
            old = g.op("Gather", past[each], at, axis=0)
            mine[each] = g.op("Concat", old, _heads(g, g.linear(h, WIDTH, WIDTH)), axis=3)
            grown[each].append(mine[each])
        h = g.add(h, _attended(g, h, mine, bias))
        theirs = {each: g.op("Gather", cross[each], at, axis=0) for each in "kv"}
        h = g.op("Tanh", g.add(h, _attended(g, h, theirs, None)))
    g.output(g.linear(h, WIDTH, VOCABULARY, 6.0), "logits", np.float32, [1, "Q", VOCABULARY])
    for each, layers in grown.items():
        g.output(g.op("Concat", *layers, axis=0), f"out_{each}_self", np.float32,
                 [DEPTH, 1, HEADS, "S", HEAD])  # fmt: skip
    publish(g, path, {}, opset=17)


def _attended(g: RandomWriter, h: str, cache: dict[str, str], bias: str | None) -> str:
    query = _heads(g, g.linear(h, WIDTH, WIDTH, 2.0))
    scores = g.mul(g.matmul(query, g.transpose(cache["k"], 0, 1, 2, 4, 3)), g.scalar(HEAD**-0.5))
    share = g.op("Softmax", scores if bias is None else g.add(scores, bias), axis=-1)
    mixed = g.transpose(g.op("Squeeze", g.matmul(share, cache["v"]), g.ints(0)), 0, 2, 1, 3)
    return g.linear(g.reshape(mixed, 1, -1, WIDTH), WIDTH, WIDTH, 2.0)
