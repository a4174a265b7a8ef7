"""Keys and values in 8-bit integers between the steps of a decoder: bytes, words, tokens, time.

    python tools/int8_pages.py MANIFEST --json FILE [--quick N] [--ways float,int8,…] [--part K/N]

Each clip of the clean set is decoded from nothing on this CPU, in each of `WAYS` by turns. Between
two passes all keys and values of self- and cross-attention are what a page of that kind would give
back; times are the processor's, of a thread. `--part` does every Nth clip from the Kth on and adds
it to FILE, so that a long run may be done in pieces; what is printed and written counts all clips
that are in FILE by then.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from edge_runtime import words
from edge_runtime.audio import RATE
from edge_runtime.bench.hardware import hardware
from edge_runtime.bench.manifest import Clip, read, spread
from edge_runtime.decode.passes import Pass
from edge_runtime.decode.runner import Runner
from edge_runtime.decode.tiles import Chain, Size
from edge_runtime.decode.tokens import Vocabulary
from edge_runtime.decode.update import Purpose, Update
from edge_runtime.device.onnx import OnnxDevice
from edge_runtime.engines.recipe import MoonshineRecipe, load_recipe
from edge_runtime.engines.store import Store
from edge_runtime.errors import RecipeError

GROUP = 32
"""Numbers that share a scale."""

SCALE = 2
"""Bytes of a scale, a float16."""

WAYS = {
    "float": "as they are computed",
    "float16": "rounded to 16 bits",
    "int8": "rounded to 8 bits, a scale for each group of 32",
    "int8-next": "the same, what a row lost added to the next row of its page",
    "int8-carried": "the same, what a page lost added to it before it is rounded again, each step",
    "int8-twice": "the same, what a page lost kept in 8 bits more and added when it is read",
}
BYTES = {
    "float": 4.0,
    "float16": 2.0,
    "int8": 1 + SCALE / GROUP,
    "int8-next": 1 + SCALE / GROUP,
    "int8-carried": 2 * (1 + SCALE / GROUP),
    "int8-twice": 2 * (1 + SCALE / GROUP),
}
"""Bytes of a number. What a page itself is to have back at its next use must be kept until then,
here in 8 bits with a scale of their own."""

Numbers = NDArray[np.float32]


def rounded(values: Numbers) -> Numbers:
    """(n, GROUP) float32 as 8-bit integers with a scale for each row give them back."""
    scale = (np.abs(values).max(axis=1, keepdims=True) / 127).astype(np.float16).astype(np.float32)
    steps = np.divide(values, scale, out=np.zeros_like(values), where=scale > 0)
    whole = np.clip(np.rint(steps), -127, 127).astype(np.int8)
    given: Numbers = whole.astype(np.float32) * scale
    return given


class Pages:
    """What one kind of page gives back of what was put into it. Times itself."""

    def __init__(self, way: str) -> None:
        self.seconds = 0.0
        self._way = way
        self._lost: dict[str, Numbers] = {}
        self._true: dict[str, Numbers] = {}

    @property
    def carries(self) -> bool:
        """Whether pages that nothing is added to are rounded again at each step."""
        return self._way == "int8-carried"

    def put(self, name: str, rows: Numbers, first: int = 0) -> None:
        """(rows, n) float32 of that tensor become what is read of them at the next step.

        A row is what belongs to one token or frame, a whole number of groups; those before `first`
        were put there earlier.
        """
        if self._way == "float":
            return
        began = time.thread_time()
        if self.carries:
            self._carry(name, rows, first)
        elif self._way == "int8-next":
            self._hand_on(name, rows[first:])
        else:
            groups = rows[first:].reshape(-1, GROUP)
            rows[first:] = self._again(groups).reshape(rows[first:].shape)
        self.seconds += time.thread_time() - began

    def _again(self, groups: Numbers) -> Numbers:
        if self._way == "float16":
            return groups.astype(np.float16).astype(np.float32)
        once = rounded(groups)
        return once if self._way == "int8" else once + rounded(groups - once)

    def _hand_on(self, name: str, rows: Numbers) -> None:
        lost = self._lost.get(name, np.zeros((rows.shape[1] // GROUP, GROUP), np.float32))
        for row in rows:
            wanted = row.reshape(-1, GROUP) + lost
            given = rounded(wanted)
            row[...] = given.reshape(-1)
            lost = wanted - given
        self._lost[name] = lost

    def _carry(self, name: str, rows: Numbers, first: int) -> None:
        """Over the steps what is read of a page is on average what was put into it."""
        before = self._true.get(name, rows[:0])
        true = self._true[name] = np.concatenate([before[:first], rows[first:]])
        lost = np.zeros_like(true)
        lost[: len(before)] = self._lost.get(name, lost[:0])[: len(true)]
        wanted = (true + lost).reshape(-1, GROUP)
        given = rounded(wanted)
        self._lost[name] = rounded(wanted - given).reshape(rows.shape)
        rows[...] = given.reshape(rows.shape)


class Paged:
    """A lane whose keys and values lie in such pages between two passes."""

    def __init__(self, runner: Runner) -> None:
        self.pages = Pages("float")
        self.runner = runner
        self._lane = lane = runner.lane
        self._encode, self._decode = lane.encode, lane.decode
        self._frames = 0
        lane.encode = self.encode  # type: ignore[method-assign]
        lane.decode = self.decode  # type: ignore[method-assign]

    def encode(self, rows: int, samples: int, tiled: bool = False) -> None:
        """The encoder, and its keys and values put away."""
        self._encode(rows, samples, tiled)
        self._frames = self._lane.chain.shape.frames(samples)
        self._put(self._lane._memory(rows, self._frames), 0, self._frames)

    def decode(self, shape: Pass, align: bool = False) -> None:
        """A pass, and what it added put away."""
        begin = int(self._lane.positions(shape)[0])
        self._decode(shape, align)
        cache = self._lane._cache("new", 1 - shape.turn, shape.rows)
        self._put(cache, begin, begin + shape.queries)
        if self.pages.carries:
            memory = self._lane._memory(shape.rows, self._frames)
            self._put(memory, self._frames, self._frames)

    def _put(self, tensors: Mapping[str, Any], first: int, length: int) -> None:
        """(1, heads, length, dim) each; numbers that only fill a head up are not kept."""
        shape = self._lane.chain.shape
        real = shape.width // shape.heads
        for name, tensor in tensors.items():
            there = tensor.host[0, :, :length, :real]
            rows = np.ascontiguousarray(there.transpose(1, 0, 2)).reshape(length, -1)
            self.pages.put(name, rows, first)
            there[...] = rows.reshape(length, shape.heads, real).transpose(1, 0, 2)


@dataclass(frozen=True)
class Said:
    """What came of a clip in one way; `spent` processor seconds, `paging` of them in pages."""

    clip: str
    reference: str
    text: str
    tokens: tuple[int, ...]
    spent: float
    paging: float


def changed(one: Sequence[int], other: Sequence[int]) -> int:
    """Tokens put in, left out or replaced."""
    steps = words.align(list(map(str, one)), list(map(str, other)))
    return sum(step.operation != "equal" for step in steps)


def writer(ways: list[str]) -> Callable[[Clip], dict[str, Said]]:
    """Decodes a clip in each of the ways."""
    recipe = load_recipe("moonshine-tiny-en")
    if not isinstance(recipe, MoonshineRecipe):
        raise RecipeError("moonshine-tiny-en is no Moonshine", "Restore its recipe.")
    folder = Store().graphs(recipe)
    vocabulary = Vocabulary.load(folder)
    paged = Paged(Runner(Chain(OnnxDevice(1, 1), folder), Size(1, 40 * RATE)))

    def write(clip: Clip) -> dict[str, Said]:
        found = {}
        update = Update("clip", 0, Purpose.FINAL, 0, len(clip.pcm))
        for way in ways:
            paged.pages = Pages(way)
            began = time.thread_time()
            (heard,) = paged.runner.run([update], [[clip.pcm]])
            found[way] = Said(
                clip.name,
                clip.reference,
                vocabulary.text(heard.tokens),
                heard.tokens,
                time.thread_time() - began,
                paged.pages.seconds,
            )
        return found

    return write


def reading(way: str, count: int) -> float:
    """Seconds that making floats of so many numbers takes, as each step must that reads them."""
    groups = np.random.default_rng(1).integers(-127, 128, (count // GROUP, GROUP), np.int8)
    scales = np.full((len(groups), 1), 0.01, np.float16)
    halves, target = groups.astype(np.float16), np.empty(groups.shape, np.float32)
    again = {"float": 0, "float16": 1, "int8-twice": 2}.get(way, 1)
    took = []
    for _ in range(9):
        began = time.thread_time()
        for _ in range(again):
            if way == "float16":
                np.copyto(target, halves)
            else:
                np.multiply(groups, scales, out=target, dtype=np.float32, casting="unsafe")
        took.append(time.thread_time() - began)
    return min(took)


def figures(way: str, said: list[dict[str, Any]], full: list[dict[str, Any]]) -> dict[str, Any]:
    """One line: what pages of a kind cost and change, against floats."""
    recipe = load_recipe("moonshine-tiny-en")
    assert isinstance(recipe, MoonshineRecipe)
    dims = recipe.architecture
    score = words.total([(each["reference"], each["text"]) for each in said])
    tokens = sum(len(each["tokens"]) for each in full)
    other = [changed(a["tokens"], b["tokens"]) for a, b in zip(full, said, strict=True)]
    frames = dims.frames(12 * RATE)
    count = 2 * dims.decoder_layers * dims.width * (frames + dims.past)
    return {
        "way": way,
        "what": WAYS[way],
        "clips": len(said),
        "bytes_of_12_s": round(count * BYTES[way]),
        "of_float32": round(BYTES[way] / 4, 3),
        "of_float16": round(BYTES[way] / 2, 3),
        "wer": round(score.rate, 3),
        "tokens_changed": round(100 * sum(other) / tokens, 3),
        "clips_changed": sum(each > 0 for each in other),
        "update_ms": round(1e3 * float(np.mean([each["spent"] for each in said])), 1),
        "reading_ms": round(1e3 * reading(way, count), 2),
        "paging_ms": round(1e3 * float(np.mean([each["paging"] for each in said])), 1),
    }


def main() -> None:
    """Measure, print a line a way, write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--quick", type=int, default=0)
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--part", default="0/1")
    options = parser.parse_args()
    ways = options.ways.split(",")
    first, step = map(int, options.part.split("/"))
    clips = spread([c for c in read(options.manifest).clean if c.seconds <= 40], options.quick)
    said: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
    if options.json.is_file():
        said = json.loads(options.json.read_text())["said"]
    write = writer(ways)
    for clip in clips[first::step]:
        for way, each in write(clip).items():
            said[way].append(asdict(each))
    rows = [figures(way, said[way], said["float"]) for way in ways]
    content = {"hardware": hardware().record(), "rows": rows, "said": said}
    options.json.write_text(json.dumps(content, ensure_ascii=False) + "\n")
    for row in rows:
        print(json.dumps(row, ensure_ascii=False))


if __name__ == "__main__":
    main()
