"""Clients of Vosk, sherpa-onnx and WhisperLive, as their makers wrote them, on the real server."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import shutil
import socket as sockets
import sys
import wave
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import soxr

# what the client of whisper-live 0.10.0 says first
OPTIONS = {
    "language": "en", "task": "transcribe", "model": "small", "use_vad": True,
    "send_last_n_segments": 10, "no_speech_thresh": 0.45, "clip_audio": False,
    "same_output_threshold": 10, "enable_translation": False, "target_language": "fr",
    "hotwords": None, "enable_diarization": False, "max_speakers": 10, "known_speakers": [],
    "word_timestamps": False, "initial_prompt": None, "vad_parameters": None,
}  # fmt: skip
PACKET = 4096
"""Samples of each of its messages."""


@pytest.fixture
async def ported(house):
    """`await ported(kind)`: a server that speaks it, and the port."""

    async def start(kind):
        with sockets.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        return await house(dialects={f"{kind}_port": port}), port

    return start


@pytest.fixture
def sounds(clip, clips):
    """Twenty clips as 16 kHz mono `pcm_s16le`, by their names."""
    return {name: mono(clip(name)) for name in clips}


def mono(clip):
    audio = clip.audio if clip.audio.ndim == 1 else clip.audio.mean(axis=1)
    audio = np.clip(soxr.resample(audio, clip.rate, 16000), -1, 1)
    return np.rint(audio * 32767).astype("<i2").tobytes()


@pytest.fixture
def wavs(sounds, tmp_path):
    """The same as WAV files."""
    for name, pcm in sounds.items():
        with wave.open(str(tmp_path / f"{name}.wav"), "wb") as file:
            file.setparams((1, 2, 16000, 0, "NONE", ""))
            file.writeframes(pcm)
    return {name: tmp_path / f"{name}.wav" for name in sounds}


@pytest.fixture(scope="module")
def natively():
    """Texts by the native protocol, which depend on the audio alone."""
    return {}


@pytest.fixture
def check(read, sounds, natively):
    """`await check(server, texts)`: texts are those of the native protocol.

    But for as many as contradicted words that were told already.
    """

    async def compare(server, texts):
        conflicts = server.metrics.value("edge_runtime_stable_conflicts_total")
        for name in sounds:
            if name not in natively:
                natively[name] = read.text(await server.say(sounds[name], partials=False))
        alike(texts, natively, conflicts)

    return compare


def alike(texts, wanted, conflicts):
    different = {name: (texts[name], text) for name, text in wanted.items() if texts[name] != text}
    print(f"{len(different)} of {len(wanted)} texts are not the native ones")  # noqa: T201
    assert len(different) <= min(conflicts, len(wanted) // 4), different
    assert sum(map(bool, wanted.values())) >= len(wanted) - 1


async def run(*command, **options):
    """What a program writes; it must end well."""
    process = await asyncio.create_subprocess_exec(
        *map(str, command), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        **options,
    )  # fmt: skip
    out, said = await asyncio.wait_for(process.communicate(), 240)
    assert process.returncode == 0, said.decode()
    return out.decode(), said.decode()


async def test_vosk(ported, check, sounds, tmp_path, monkeypatch):
    """Its transcriber loads a model of its own, which it does not use, and asks ffmpeg for PCM."""
    if importlib.util.find_spec("vosk") is None:
        pytest.skip("no vosk: pip install vosk")
    from vosk.transcriber import transcriber

    monkeypatch.setattr(transcriber, "Model", lambda **_: None)
    (tmp_path / "bin").mkdir()
    ffmpeg = tmp_path / "bin" / "ffmpeg"  # … -nostdin -loglevel quiet -i FILE …
    ffmpeg.write_text('#!/bin/sh\nexec cat "$5"\n')
    ffmpeg.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ffmpeg.parent}:{os.environ['PATH']}")
    for name, pcm in sounds.items():
        (tmp_path / f"{name}.raw").write_bytes(pcm)
    server, port = await ported("vosk")
    args = SimpleNamespace(
        server=f"ws://127.0.0.1:{port}", tasks=5, output_type="txt", model=None, model_name=None,
        lang="en-us",
    )  # fmt: skip
    tasks = [(tmp_path / f"{name}.raw", str(tmp_path / f"{name}.txt")) for name in sounds]
    await transcriber.Transcriber(args).process_task_list_server(tasks)
    texts = {
        name: " ".join((tmp_path / f"{name}.txt").read_text().split("\n")).strip()
        for name in sounds
    }
    await check(server, texts)


async def test_sherpa_onnx(ported, check, sounds, wavs):
    client = shutil.which(
        "sherpa-onnx-online-websocket-client", path=f"{Path(sys.executable).parent}:{os.defpath}"
    )
    if client is None:
        pytest.skip("no client of sherpa-onnx: pip install sherpa-onnx-bin")
    server, port = await ported("sherpa_onnx")
    texts = {}

    async def talk(names):
        for name in names:
            _, said = await run(
                client, f"--server-port={port}", "--seconds-per-message=0", wavs[name]
            )
            results = [json.loads(line[line.index("{") :]) for line in said.split("\n")
                       if '"is_eof"' in line]  # fmt: skip
            assert [result["segment"] for result in results] == sorted(
                result["segment"] for result in results
            )
            assert [result["is_eof"] for result in results].index(True) == len(results) - 1
            finals = [result for result in results if result["is_final"] and result["text"]]
            for result in finals:
                assert "".join(result["tokens"]).strip() == result["text"]
                assert len(result["timestamps"]) == len(result["tokens"])
            texts[name] = " ".join(result["text"] for result in finals)

    names = list(sounds)
    await asyncio.gather(*(talk(names[first::5]) for first in range(5)))
    await check(server, texts)


async def test_whisper_live_as_its_client_was_seen_to_speak(ported, check, sounds):
    server, port = await ported("whisper_live")
    texts = {}

    async def talk(names):
        for name in names:
            texts[name] = await replay(server.http, port, name, sounds[name])

    names = list(sounds)
    await asyncio.gather(*(talk(names[first::5]) for first in range(5)))
    await check(server, texts)


async def replay(http, port, uid, pcm):
    """The text of the completed segments."""
    samples = np.frombuffer(pcm, "<i2").astype("<f4") / 32768
    async with http.ws_connect(f"ws://127.0.0.1:{port}") as socket:
        await socket.send_json({"uid": uid, **OPTIONS})
        ready = await socket.receive_json(timeout=30)
        assert ready == {"uid": uid, "message": "SERVER_READY", "backend": "faster_whisper"}

        async def send():
            for first in range(0, len(samples), PACKET):
                await socket.send_bytes(samples[first : first + PACKET].tobytes())
            await socket.send_bytes(b"END_OF_AUDIO")

        sending = asyncio.create_task(send())
        kept = {}
        async for message in socket:
            for segment in json.loads(message.data)["segments"]:
                if segment["completed"]:
                    kept[segment["start"]] = segment["text"]
        await sending
        assert socket.close_code == 1000
        return "".join(kept.values()).strip()


async def test_whisper_live(ported, check, natively, wavs, tmp_path):
    """Live through its streaming client, several at once, and a file through its other one."""
    python = os.environ.get("WHISPER_LIVE_PYTHON")
    if python is None:
        pytest.skip(
            "no client of WhisperLive: WHISPER_LIVE_PYTHON names a Python that has whisper-live"
        )
    server, port = await ported("whisper_live")
    script = Path(__file__).with_name("whisper_live_client.py")
    out, _ = await run(python, script, port, tmp_path, *wavs.values(), cwd=tmp_path)
    told = json.loads(out.split("\n")[-2])
    await check(server, told["live"])
    assert told["file"] == natively[told["name"]]
