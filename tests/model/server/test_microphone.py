"""A real PulseAudio whose sink is the microphone: removed and brought back, captions go on.

Twice in the suite; `MICROPHONE_TURNS=20` makes a long run of it, and prints what each took.
`MICROPHONE_SERVER=pipewire` takes PipeWire, as desktops have it, in PulseAudio's place.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

TURNS = int(os.environ.get("MICROPHONE_TURNS", "2"))
SECONDS = 3.0
SERVER = os.environ.get("MICROPHONE_SERVER", "pulseaudio")
CLIP = "1088-134315-0002"
PLUGIN = next(Path("/usr/lib").glob("*/alsa-lib/libasound_module_pcm_pulse.so"), None)
ALSA = """</usr/share/alsa/alsa.conf>
pcm.desk { type pulse device "desk.monitor" hint { show on description "desk" } }
"""


class Pulse:
    """A PulseAudio of its own, with a sink whose monitor is the microphone "desk"."""

    needs = ("pulseaudio", "pactl", "pacat")
    ends = True  # what records from a sink that is gone; else it hears a dummy's silence

    def __init__(self, folder, speech):
        self._folder, self._speech = folder, speech
        self._daemon = self._player = None

    @property
    def line(self):
        native = f"module-native-protocol-unix auth-anonymous=1 socket={self._folder}/native"
        return (
            "pulseaudio", "-n", "--daemonize=no", "--use-pid-file=no", "--disable-shm=yes",
            "--exit-idle-time=-1", "-L", native,
        )  # fmt: skip

    async def start(self):
        self._daemon = await asyncio.create_subprocess_exec(
            *self.line,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env={**os.environ, "HOME": str(self._folder), "XDG_RUNTIME_DIR": str(self._folder)},
            start_new_session=True,
        )
        for _ in range(200):
            if (self._folder / "native").exists():
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"{SERVER} does not start")

    async def plug(self):
        """The microphone is there, and somebody speaks into it for as long."""
        # without rewinds its blocks have 50 ms: else there is nothing for the first 2 s
        await self._pactl(
            "load-module", "module-null-sink", "sink_name=desk", "rate=48000", "norewinds=1"
        )
        self._player = await asyncio.create_subprocess_exec(
            "pacat", "--device=desk", "--raw", "--format=s16le", "--rate=16000", "--channels=1",
            "--latency-msec=50", self._speech,
            stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip

    async def unplug(self):
        await self._pactl("unload-module", "module-null-sink")
        with contextlib.suppress(ProcessLookupError):
            self._player.terminate()  # PulseAudio ends what plays there, PipeWire does not
        await self._player.wait()

    async def stop(self):
        if self._player is not None and self._player.returncode is None:
            self._player.terminate()
            await self._player.wait()
        os.killpg(self._daemon.pid, signal.SIGTERM)
        await self._daemon.wait()

    async def _pactl(self, *words):
        process = await asyncio.create_subprocess_exec(
            "pactl", *words, stdout=asyncio.subprocess.DEVNULL
        )
        assert await process.wait() == 0, words


class PipeWire(Pulse):
    """The same, by PipeWire with its session manager, which moves streams of what is gone."""

    ends = False
    needs = ("pipewire", "wireplumber", "pipewire-pulse", "dbus-run-session", "pactl", "pacat")
    line = (
        "dbus-run-session", "--", "sh", "-c",
        "pipewire & sleep 0.2; wireplumber & pipewire-pulse & wait",
    )  # fmt: skip


@pytest.fixture
async def pulse(clip, tmp_path, monkeypatch):
    kind = {"pulseaudio": Pulse, "pipewire": PipeWire}[SERVER]
    for program in kind.needs:
        if shutil.which(program) is None:
            pytest.skip(f"no {program}: apt install {SERVER} pulseaudio-utils")
    if importlib.util.find_spec("sounddevice") is None:
        pytest.skip("no sounddevice: pip install 'edge-runtime[mic]'")
    if PLUGIN is None:
        pytest.skip("ALSA does not know PulseAudio: apt install libasound2-plugins")
    (tmp_path / "asound.conf").write_text(ALSA)
    one = np.frombuffer(clip(CLIP).pcm, "<i2")
    (tmp_path / "speech").write_bytes(np.tile(one, 1 + 60 * 16000 // len(one)).tobytes())
    for name in ("XDG_CONFIG_HOME", "PULSE_RUNTIME_PATH"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("PULSE_SERVER", f"unix:{tmp_path}/native")
    monkeypatch.setenv("ALSA_CONFIG_PATH", str(tmp_path / "asound.conf"))
    made = kind(tmp_path, str(tmp_path / "speech"))
    try:
        await made.start()
        yield made
    finally:
        await made.stop()


async def words(socket, read):
    """Until something that was said is shown."""
    while True:
        event = (await read.until(socket, "partial"))[-1]
        if event["stable"] + event["unstable"]:
            return


async def warned(socket, read, code):
    while (await read.until(socket, "warning"))[-1]["code"] != code:
        pass


async def test_gone_and_back(house, read, pulse):
    await pulse.plug()
    server = await house()
    first, second, gated = [
        await server.connect({"source": "mic:desk", **more})
        for more in ({}, {"words": True}, {"gated": "playback"})
    ]
    loop = asyncio.get_running_loop()
    await asyncio.gather(words(first, read), words(second, read))
    took = []
    for _ in range(TURNS):
        await pulse.unplug()
        if pulse.ends:
            await asyncio.gather(
                *(warned(each, read, "microphone_lost") for each in (first, second))
            )
        await read.until(first, "speech_end")  # what was said before has its final
        begun = loop.time()
        await pulse.plug()
        if pulse.ends:
            await asyncio.gather(
                *(warned(each, read, "microphone_back") for each in (first, second))
            )
        await asyncio.gather(words(first, read), words(second, read))
        took.append(loop.time() - begun)
        print(f"captions {took[-1]:.2f} s after its return")  # noqa: T201
    for each in (first, second, gated):
        await each.send_json({"type": "stop"})
    _, (events, code) = await asyncio.gather(read.rest(first), read.rest(gated))
    await read.rest(second)
    assert code == 1000
    assert {event["type"] for event in events} - {"warning"} == {"ready", "closed"}
    assert max(took) < SECONDS
