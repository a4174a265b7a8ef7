"""Microphones: the errors that this machine really gives, and the thread beside the reader."""

import importlib.util
import sys
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from edge_runtime.audio.inputs import Input, choose, microphones
from edge_runtime.audio.microphone import Microphone
from edge_runtime.errors import MicrophoneError, MissingExtra

INPUTS = [Input(0, "HDA Intel: ALC", 44100), Input(3, "USB Mic", 48000), Input(4, "USB Cam", 16000)]


@pytest.mark.parametrize(
    ("wanted", "index"),
    [(None, 3), ("4", 4), (0, 0), ("usb mic", 3), ("cam", 4), ("ALC", 0)],
)
def test_choosing(wanted: Any, index: int) -> None:
    assert choose(INPUTS, wanted, default=3).index == index


def test_without_a_default_the_first_is_taken() -> None:
    assert choose(INPUTS, None, default=9).index == 0


@pytest.mark.parametrize(("wanted", "said"), [("jabra", "no microphone"), ("usb", "2 microphones")])
def test_a_wrong_name_lists_what_there_is(wanted: str, said: str) -> None:
    with pytest.raises(MicrophoneError, match=said) as caught:
        choose(INPUTS, wanted)
    assert "0: HDA Intel: ALC; 3: USB Mic; 4: USB Cam" in caught.value.fix


def test_no_device_says_what_to_do() -> None:
    with pytest.raises(MicrophoneError, match="no microphone was found") as caught:
        choose([], "usb")
    assert "arecord" in caught.value.fix


def test_a_machine_without_microphones_says_what_is_missing() -> None:
    """Nothing is replaced here: a build machine has no PortAudio, or no device."""
    try:
        found = microphones()
    except (MicrophoneError, MissingExtra):
        found = []
    if found:
        pytest.skip("this machine has a microphone")
    with pytest.raises((MicrophoneError, MissingExtra)) as caught:
        Microphone()
    assert caught.value.fix.startswith(("Run: ", "Plug one in"))


def test_the_package_is_asked_for_when_it_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra) as caught:
        Microphone()
    assert caught.value.fix == "Run: pip install 'edge-runtime[mic]'"


class FakeSound(SimpleNamespace):
    """Stands in for sounddevice, whose real part needs a microphone to run."""

    class PortAudioError(Exception):
        pass

    class InputStream:
        newest: "FakeSound.InputStream"

        def __init__(self, **settings: Any) -> None:
            self.settings = settings
            self.callback: Callable[..., None] = settings["callback"]
            self.open = True
            FakeSound.InputStream.newest = self

        def start(self) -> None:
            if self.settings["device"] == 2:
                raise FakeSound.PortAudioError("Device unavailable")

        def close(self) -> None:
            self.open = False
            self.settings["finished_callback"]()

        def say(self, value: float, status: Any = None) -> None:
            block = np.full((self.settings["blocksize"], 1), value, np.float32)
            self.callback(block, len(block), None, status)
            block[:] = np.nan  # PortAudio uses its buffer again

    default = SimpleNamespace(device=[1, -1])

    def query_devices(self) -> list[dict[str, Any]]:
        rates = {"Speaker": 48000, "Headset": 16000, "Busy": 16000, "Studio": 48000}
        return [
            {
                "index": index,
                "name": name,
                "max_input_channels": int(name != "Speaker"),
                "default_samplerate": float(rate),
            }
            for index, (name, rate) in enumerate(rates.items())
        ]

    def check_input_settings(self, device: int, samplerate: int, **settings: Any) -> None:
        if self.query_devices()[device]["default_samplerate"] != samplerate:
            raise FakeSound.PortAudioError("Invalid sample rate")


@pytest.fixture
def sound(monkeypatch: pytest.MonkeyPatch) -> FakeSound:
    fake = FakeSound()
    fake.__spec__ = importlib.util.find_spec("json")
    monkeypatch.setitem(sys.modules, "sounddevice", fake)  # type: ignore[arg-type]
    return fake


def test_blocks_come_in_order_until_it_is_closed(sound: FakeSound) -> None:
    with Microphone() as microphone:
        assert (microphone.name, microphone.live, microphone.seconds) == ("Headset", True, None)
        stream = sound.InputStream.newest
        for value in (0.25, 0.5):
            stream.say(value)
        blocks = iter(microphone)
        for value in (0.25, 0.5):
            np.testing.assert_array_equal(next(blocks), np.full(512, value, np.float32))
        threading.Timer(0.05, microphone.close).start()
        assert list(blocks) == []
    assert microphone.warnings == []


def test_another_rate_is_converted(sound: FakeSound) -> None:
    with Microphone("studio") as microphone:
        for _ in range(10):
            sound.InputStream.newest.say(0.1)
        microphone.close()
        assert sum(map(len, microphone)) == 10 * 512


def test_a_late_reader_loses_the_oldest_and_is_told(sound: FakeSound) -> None:
    with Microphone() as microphone:
        for number in range(65):
            sound.InputStream.newest.say(number / 64)
        microphone.close()
        heard = [float(block[0]) * 64 for block in microphone]
    assert heard == list(range(3, 65))
    assert microphone.dropped == 3 * 512
    assert microphone.warnings == ["96 ms of audio came too fast and were dropped"]


def test_a_device_that_goes_away_is_an_error_after_its_last_block(sound: FakeSound) -> None:
    microphone = Microphone()
    stream = sound.InputStream.newest
    stream.say(0.5)
    stream.close()
    blocks = iter(microphone)
    assert len(next(blocks)) == 512
    with pytest.raises(MicrophoneError, match="'Headset' stopped"):
        next(blocks)


def test_a_device_that_falls_silent_for_ever_is_an_error(
    sound: FakeSound, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edge_runtime.audio.microphone._STALL_SECONDS", 0.05)
    begin = time.monotonic()
    with Microphone() as microphone, pytest.raises(MicrophoneError, match="stopped"):
        list(microphone)
    assert time.monotonic() - begin < 2


def test_a_busy_device_says_so(sound: FakeSound) -> None:
    with pytest.raises(MicrophoneError, match="Device unavailable") as caught:
        Microphone("busy")
    assert "--mic-name NAME" in caught.value.fix
    assert sound.InputStream.newest.settings["device"] == 2
    assert not sound.InputStream.newest.open  # else it stays busy for whoever tries again


def test_devices_that_cannot_be_listed_are_an_error_with_a_fix(
    sound: FakeSound, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing() -> None:
        raise FakeSound.PortAudioError("Error querying device -1")

    monkeypatch.setattr(sound, "query_devices", failing)
    for listing in (microphones, Microphone):
        with pytest.raises(MicrophoneError, match="cannot be listed: Error querying") as caught:
            listing()
        assert "`arecord -l`" in caught.value.fix
        assert "group audio" in caught.value.fix


def test_only_inputs_are_listed(sound: FakeSound) -> None:
    assert [device.name for device in microphones()] == ["Headset", "Busy", "Studio"]


def test_audio_that_the_system_lost_is_counted(sound: FakeSound) -> None:
    with Microphone() as microphone:
        for overflow in (True, False, True):
            sound.InputStream.newest.say(0.1, SimpleNamespace(input_overflow=overflow))
    assert microphone.warnings == ["the system lost audio 2 times"]
