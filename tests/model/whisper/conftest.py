"""Whisper as it is published, where it was pulled."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from edge_runtime.audio import RATE
from edge_runtime.config import Computing
from edge_runtime.decode.runner import Runner
from edge_runtime.decode.tiles import Size
from edge_runtime.engines.recipe import load_recipe
from edge_runtime.engines.store import Store
from edge_runtime.errors import ModelMissing
from edge_runtime.runtime.load import Loaded, Loader

GOLDEN = Path(__file__).parents[1] / "golden"


@dataclass(frozen=True)
class Heard:
    """What the oracle makes of a recording."""

    id: str
    tokens: list[int]
    no_speech: float


def _golden(model: str) -> list[Heard]:
    lines = (GOLDEN / f"{model}.jsonl").read_text().splitlines()
    return [Heard(**json.loads(line)) for line in lines[1:]]


@pytest.fixture(scope="session")
def golden() -> Callable[[str], list[Heard]]:
    return _golden


@pytest.fixture(scope="session")
def whisper() -> Loaded:
    """tiny.en in float32 on the CPU."""
    return _loaded("whisper-tiny-en")


@pytest.fixture
def long() -> None:
    """Marks a test that takes minutes."""
    if "EDGE_RUNTIME_LONG" not in os.environ:
        pytest.skip("set EDGE_RUNTIME_LONG=1 for tests that take minutes")


@pytest.fixture(scope="session")
def base() -> Loaded:
    return _loaded("whisper-base")


@pytest.fixture(scope="session")
def run(whisper: Loaded) -> Runner:
    return Runner(whisper.chain, Size(2, 30 * RATE))


def _loaded(name: str) -> Loaded:
    try:
        Store().weights(load_recipe(name))
    except ModelMissing as missing:
        pytest.skip(str(missing))
    return Loader(name, "cpu", Size(1, 30 * RATE), computing=Computing(precision="fp16")).load()
