"""The recipes that come with the program take files that are laid out as published."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import onnxruntime as ort
import pytest

from edge_runtime.decode.family import make_runner, open_chain
from edge_runtime.decode.tiles import Size
from edge_runtime.decode.tokens import Vocabulary
from edge_runtime.decode.update import Purpose, Update
from edge_runtime.device.onnx import OnnxDevice
from edge_runtime.engines.pull import pull
from edge_runtime.engines.recipe import load_recipe
from edge_runtime.engines.store import Store
from tests.tiny import fastconformer, moonshine_streaming, plain, zipformer

LIMIT = 12


def nemotron(place: Path) -> None:
    fastconformer.write(place)
    for path in place.glob("*.onnx"):
        path.rename(place / f"{path.stem}.int8.onnx")


def moonshine(place: Path) -> None:
    """In onnxruntime's own form, with the tokens as the hub has them."""
    moonshine_streaming.write(place)
    for path in list(place.glob("*.onnx")):
        options = ort.SessionOptions()
        options.optimized_model_filepath = str(path.with_suffix(".ort"))
        options.add_session_config_entry("session.save_model_format", "ORT")
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        ort.InferenceSession(str(path), options)
        path.rename(place / f"aside-{path.name}")
    (place / "tokenizer.bin").unlink()
    vocab = {f"\u2581w{number}": number for number in range(moonshine_streaming.VOCABULARY)}
    (place / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocab}}))


def heard(place: Path, audio: np.ndarray) -> list[int]:
    for path in place.glob("aside-*.onnx"):
        path.rename(place / path.name.removeprefix("aside-"))
    return plain.moonshine(place, audio, LIMIT)


@pytest.mark.parametrize(
    ("name", "write", "wanted"),
    [
        ("zipformer-en", zipformer.write, lambda *_: plain.zipformer(*_, 10_240)),
        (
            "nemotron-streaming-en",
            nemotron,
            lambda *_: plain.fastconformer(*_, flush=10_240, symbols=10),
        ),
        ("moonshine-streaming-tiny-en", moonshine, heard),
    ],
)
def test_a_recipe_takes_what_is_published(
    tmp_path, name: str, write: Callable, wanted: Callable
) -> None:
    published = tmp_path / "published"
    published.mkdir()
    write(published)
    # No detector is in this folder.
    recipe = msgspec.structs.replace(load_recipe(name), requires=())
    (pulled,) = pull(recipe, Store(tmp_path / "store"), published)
    audio = np.random.default_rng(2).normal(0, 0.1, 16_000).astype(np.float32)
    runner = make_runner(open_chain(OnnxDevice(), pulled.graphs), Size(1, 2 * 16_000))
    update = Update("s", 1, Purpose.FINAL, 0, len(audio), limit=LIMIT)
    (found,) = runner.run([update], [[audio]])
    spoken = [each[1] if isinstance(each, tuple) else each for each in wanted(published, audio)]
    assert list(found.tokens) == spoken != []
    assert Vocabulary.load(pulled.graphs).text(found.tokens)
