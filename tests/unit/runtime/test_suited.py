"""What calibrating found to suit is used where nobody said otherwise, and it is told."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from edge_runtime.config import Config, Guarding, Serving, load
from edge_runtime.errors import ConfigError
from edge_runtime.events import Final
from edge_runtime.runtime import Options, Runtime
from edge_runtime.transcribe import Transcriber

BELIEVED = Guarding(tokens_per_second=100, compression=100, mean_logprob=-100)
NAME = "listening.threshold"
DEAF = {NAME: 0.97}


pytestmark = pytest.mark.usefixtures("loud_is_speech")


@pytest.fixture
def config(made_up_path) -> Config:
    return Config(serving=Serving(model=str(made_up_path), device="cpu"), guarding=BELIEVED)


@pytest.fixture
def sound() -> np.ndarray:
    """Noise, and silence after it."""
    noise = np.random.default_rng(4).normal(0, 0.25, 16_000).clip(-1, 1)
    return np.append(noise, np.zeros(12_000)).astype(np.float32)


def stands(config: Config, value: float) -> Config:
    """As the owner's file would say it."""
    given = load(environ={}, options={NAME: value})
    return Config(
        serving=config.serving,
        guarding=config.guarding,
        listening=given.listening,
        given=given.given,
    )


async def heard(runtime: Runtime, sound) -> str:
    async with runtime.serving():
        stream = runtime.open(Options(partials=False))
        await stream.feed(sound)
        stream.stop()
        return " ".join([each.text async for each in stream if isinstance(each, Final)])


async def test_a_stream_listens_as_calibrating_found(
    calibrated, config, made_up_store, sound, caplog
) -> None:
    assert await heard(Runtime(config, store=made_up_store), sound)
    calibrated(settings=DEAF)
    with caplog.at_level(logging.INFO):
        runtime = Runtime(config, store=made_up_store)
    assert runtime.about["settings"] == DEAF
    assert "listening.threshold is 0.97: calibrating found it" in caplog.text
    assert await heard(runtime, sound) == ""


async def test_what_the_owner_says_stands(calibrated, config, made_up_store, sound, caplog) -> None:
    calibrated(settings=DEAF)
    with caplog.at_level(logging.INFO):
        runtime = Runtime(stands(config, 0.5), store=made_up_store)  # the default, said aloud
    assert runtime.about["settings"] == {}
    assert "listening.threshold stays as configured; calibrating found 0.97" in caplog.text
    assert await heard(runtime, sound)


def test_recordings_are_heard_by_it_too(calibrated, config, made_up_store, sound) -> None:
    calibrated(settings=DEAF)
    model = config.serving.model

    def said(config: Config) -> list[str]:
        reader = Transcriber(model, device="cpu", config=config, store=made_up_store)
        return [each.text for each in reader.transcribe([sound]) if isinstance(each, Final)]

    assert said(config) == []
    assert len(said(stands(config, 0.5))) == 1


async def test_a_model_in_full_brings_no_settings(
    calibrated, config, made_up_store, monkeypatch
) -> None:
    calibrated(settings=DEAF)
    monkeypatch.setattr("edge_runtime.engines.store._quantiser", lambda: "another")
    assert Runtime(config, store=made_up_store).about["settings"] == {}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({NAME: 7.0}, "listening.threshold is 7"),
        ({"listening.treshold": 0.5}, "unknown key treshold in [listening]"),
    ],
)
def test_settings_that_nobody_could_have_are_refused_at_the_start(
    calibrated, config, made_up_store, settings, said
) -> None:
    name = calibrated(settings=settings).name
    with pytest.raises(ConfigError) as caught:
        Runtime(config, store=made_up_store)
    assert f"calibrated model {name}" in caught.value.message
    assert said in caught.value.message
