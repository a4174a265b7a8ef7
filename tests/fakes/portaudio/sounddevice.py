"""Stands in for sounddevice in the recording process: its devices are those of a JSON file.

`$FAKE_PORTAUDIO` is a list of {"name", "channels", "rate", "value"}: what channel n records is
n × value, a block a millisecond. As with PortAudio, the list that is known is the one of
`_initialize`, and a device that is not in the file any more fails at the next read; with "hangs",
reading takes for ever, with "overflows" audio is lost at each.
"""

from __future__ import annotations

import array
import json
import os
import time
from pathlib import Path
from types import SimpleNamespace


class PortAudioError(Exception):
    """What PortAudio says."""


default = SimpleNamespace(device=[0, -1])


def _present():
    return json.loads(Path(os.environ["FAKE_PORTAUDIO"]).read_text())


_known = _present()


def _terminate():
    _known.clear()


def _initialize():
    _known.extend(_present())


def query_devices():
    return [
        {
            "index": index,
            "name": device["name"],
            "max_input_channels": device["channels"],
            "default_samplerate": device["rate"],
        }
        for index, device in enumerate(_known)
    ]


def check_input_settings(device, channels, dtype, samplerate):
    if _known[device]["rate"] != samplerate:
        raise PortAudioError("Invalid sample rate")


class RawInputStream:
    def __init__(self, samplerate, blocksize, device, channels, dtype, latency):
        self._name, self._channels = _known[device]["name"], channels
        if samplerate != _known[device]["rate"]:
            raise PortAudioError("Invalid sample rate")
        self._device()

    def _device(self):
        for device in _present():
            if device["name"] == self._name:
                return device
        raise PortAudioError("Device unavailable")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def read(self, frames):
        time.sleep(0.001)
        device = self._device()
        while device.get("hangs"):
            time.sleep(60)
        frame = [channel * device["value"] for channel in range(1, self._channels + 1)]
        return memoryview(array.array("f", frame * frames)).cast("B"), bool(device.get("overflows"))
