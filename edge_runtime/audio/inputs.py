"""The devices of this machine that can record, as PortAudio knows them."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edge_runtime.audio import RATE
from edge_runtime.errors import MicrophoneError, MissingExtra


@dataclass(frozen=True)
class Input:
    """A device that can record: its index, its name, the rate it prefers (Hz), its channels."""

    index: int
    name: str
    rate: int
    channels: int = 1


def microphones() -> list[Input]:
    """The devices that can record.

    Raises `MissingExtra` without sounddevice, `MicrophoneError` without PortAudio.
    """
    return inputs(portaudio())


def choose(inputs: Sequence[Input], wanted: str | int | None, default: int | None = None) -> Input:
    """The one input that is meant, by index, exact name or part of a name (any case).

    Raises `MicrophoneError` with the list of inputs when there is none, or more than one.
    """
    if not inputs:
        raise MicrophoneError(
            "no microphone was found", "Plug one in, then check that `arecord -l` lists it."
        )
    listed = "; ".join(f"{device.index}: {device.name}" for device in inputs)
    if wanted is None:
        return next((device for device in inputs if device.index == default), inputs[0])
    text = str(wanted).casefold()
    tests = (
        lambda device: text == str(device.index),
        lambda device: text == device.name.casefold(),
        lambda device: text in device.name.casefold(),
    )
    for test in tests:
        found = [device for device in inputs if test(device)]
        if len(found) == 1:
            return found[0]
        if found:
            raise MicrophoneError(
                f"{len(found)} microphones are called {wanted!r}",
                f"Give an index. There are {listed}.",
            )
    raise MicrophoneError(f"there is no microphone {wanted!r}", f"There are {listed}.")


def portaudio() -> Any:
    """The module sounddevice; raises `MissingExtra`, `MicrophoneError`."""
    if importlib.util.find_spec("sounddevice") is None:
        raise MissingExtra(
            "microphones need the package sounddevice", "Run: pip install 'edge-runtime[mic]'"
        )
    try:
        import sounddevice
    except OSError as error:
        raise MicrophoneError(
            f"PortAudio, the library for microphones, is missing: {error}",
            "Run: sudo apt install libportaudio2",
        ) from error
    return sounddevice


def inputs(sound: Any) -> list[Input]:
    """The devices that can record; raises `MicrophoneError`."""
    try:
        devices = sound.query_devices()
    except sound.PortAudioError as error:
        raise MicrophoneError(
            f"microphones cannot be listed: {error}",
            "Check that `arecord -l` lists one for this user, who may have to be in group audio.",
        ) from error
    return [
        Input(
            int(device["index"]),
            str(device["name"]),
            int(device["default_samplerate"]),
            int(device["max_input_channels"]),
        )
        for device in devices
        if device["max_input_channels"] > 0
    ]


def default(sound: Any) -> int | None:
    """The index of the system's default input, where it has one."""
    index = int(sound.default.device[0])
    return index if index >= 0 else None


def rate_of(sound: Any, device: Input, channels: int = 1) -> int:
    """16 kHz where the device can, else the rate that it prefers."""
    try:
        sound.check_input_settings(
            device=device.index, channels=channels, dtype="float32", samplerate=RATE
        )
    except (sound.PortAudioError, ValueError):
        return device.rate
    return RATE
