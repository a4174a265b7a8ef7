"""One microphone for many: a real recording process, with a stand-in for PortAudio in it."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from edge_runtime.audio import capture as module
from edge_runtime.audio.capture import Capture
from edge_runtime.config import Profile
from edge_runtime.errors import MicrophoneError

FAKES = Path(__file__).parents[2] / "fakes" / "portaudio"
ARRAY = {"name": "USB Array", "channels": 6, "rate": 48000, "value": 0.1}
OTHER = {"name": "HDA Intel", "channels": 2, "rate": 16000, "value": 0.05}


class Machine:
    """What is plugged in."""

    def __init__(self, path):
        self._path = path
        self.plug(OTHER, ARRAY)

    def plug(self, *devices):
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(devices))
        new.replace(self._path)


class Listener:
    """Writes down what it hears; `until` waits for it."""

    def __init__(self):
        self.blocks, self.warnings = [], []
        self._changed = threading.Condition()

    def hear(self, samples):
        with self._changed:
            self.blocks.append(samples)
            self._changed.notify()

    def warn(self, code, message):
        with self._changed:
            self.warnings.append(code)
            self._changed.notify()

    def until(self, true, seconds=5.0):
        with self._changed:
            assert self._changed.wait_for(lambda: true(self), seconds), self.warnings

    def heard(self, value):
        """Hears a whole block of this value from now on."""
        at = len(self.blocks)
        self.until(
            lambda me: any(len(b) and np.allclose(b, value, atol=1e-3) for b in me.blocks[at:])
        )


@pytest.fixture
def machine(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{FAKES}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("FAKE_PORTAUDIO", str(tmp_path / "devices.json"))
    return Machine(tmp_path / "devices.json")


@pytest.fixture
def opened(machine):
    """Opens captures and closes them at the end."""
    made = []

    def make(**profile):
        made.append(Capture(Profile(**profile)))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def listener():
    return Listener()


def test_the_channel_the_rate_and_the_gain_of_the_profile(opened):
    capture = opened(device="array", channel=3, gain_db=6.0206)
    first, second = Listener(), Listener()
    capture.join(first)
    capture.join(second)
    first.heard(0.6)
    second.heard(0.6)
    capture.leave(first)
    count = len(first.blocks)
    second.heard(0.6)
    assert len(first.blocks) == count
    second.until(lambda me: len(me.blocks) > 60)
    # 32 ms at 16 kHz, of 1536 samples each
    assert np.mean([len(block) for block in second.blocks[20:60]]) == pytest.approx(512, rel=0.1)


def test_what_cannot_be_opened_is_said_at_once(opened, machine):
    with pytest.raises(MicrophoneError, match="no microphone 'jabra'") as caught:
        opened(device="jabra")
    assert "0: HDA Intel; 1: USB Array" in caught.value.fix
    with pytest.raises(MicrophoneError, match="has 2 channels, and channel 3"):
        opened(device="hda", channel=3)
    with pytest.raises(MicrophoneError, match="Invalid sample rate"):
        opened(device="array", rate=44100)
    machine.plug()
    with pytest.raises(MicrophoneError, match="no microphone was found"):
        opened()


def test_unplugged_and_plugged_in_elsewhere(opened, machine, listener):
    capture = opened(device="array", channel=1)
    capture.join(listener)
    for turn in range(1, 4):
        listener.heard(0.1)
        machine.plug(OTHER)
        listener.until(lambda me, n=turn: me.warnings.count("microphone_lost") == n)
        listener.heard(0.0)
        machine.plug(*[ARRAY, OTHER] if turn % 2 else [OTHER, OTHER, ARRAY])
        begun = time.monotonic()
        listener.until(lambda me, n=turn: me.warnings.count("microphone_back") == n)
        listener.heard(0.1)
        assert time.monotonic() - begun < 2
    assert listener.warnings == ["microphone_lost", "microphone_back"] * 3


def test_one_that_hangs_is_ended_and_started_again(opened, machine, listener, monkeypatch):
    monkeypatch.setattr(module, "STALL_SECONDS", 0.3)
    capture = opened(device="array", channel=1)
    capture.join(listener)
    listener.heard(0.1)
    machine.plug(OTHER, {**ARRAY, "hangs": True})
    listener.until(lambda me: "microphone_lost" in me.warnings)
    monkeypatch.setattr(module, "STALL_SECONDS", 3.0)
    machine.plug(OTHER, ARRAY)
    listener.until(lambda me: "microphone_back" in me.warnings)
    listener.heard(0.1)


def test_closing_ends_the_process(opened, listener):
    capture = opened(device="hda")
    capture.join(listener)
    listener.heard(0.05)
    process = capture._recording._process
    capture.close()
    assert process.returncode is not None
    count = len(listener.blocks)
    time.sleep(0.05)
    assert len(listener.blocks) == count


def test_too_loud_is_warned_of_once(opened, machine, listener):
    capture = opened(device="array", channel=1, gain_db=21)
    capture.join(listener)
    listener.heard(1.0)
    listener.until(lambda me: me.warnings)
    listener.heard(1.0)
    assert listener.warnings == ["microphone_clipping"]


def test_audio_that_the_system_lost_is_warned_of_once(opened, machine, listener):
    capture = opened(device="hda")
    capture.join(listener)
    machine.plug({**OTHER, "overflows": True})
    listener.until(lambda me: me.warnings)
    count = len(listener.blocks)
    listener.until(lambda me: len(me.blocks) > count + 20)
    assert listener.warnings == ["microphone_gaps"]


def test_who_joins_while_it_is_away_is_told(opened, machine, listener):
    capture = opened(device="hda")
    capture.join(listener)
    machine.plug(ARRAY)
    listener.until(lambda me: me.warnings)
    late = Listener()
    capture.join(late)
    late.until(lambda me: me.warnings)
    machine.plug(OTHER)
    late.until(lambda me: len(me.warnings) == 2)
    assert late.warnings == listener.warnings == ["microphone_lost", "microphone_back"]


def test_signals_meant_for_the_server_leave_it_alone(opened, listener):
    capture = opened(device="hda")
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(capture._recording._process.pid, number)
    capture.join(listener)
    listener.until(lambda me: len(me.blocks) > 20)
    assert listener.warnings == []


def test_a_recording_process_that_dies_is_followed_by_another(opened, listener):
    capture = opened(device="hda")
    capture.join(listener)
    os.kill(capture._recording._process.pid, signal.SIGKILL)
    listener.until(lambda me: len(me.warnings) == 2)
    assert listener.warnings == ["microphone_lost", "microphone_back"]
    listener.heard(0.05)
