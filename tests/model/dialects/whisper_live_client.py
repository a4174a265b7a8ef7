"""Talks to a server through whisper-live's own clients: PORT FOLDER WAV…; the last line is JSON."""

from __future__ import annotations

import importlib.util
import json
import sys
import types
import wave
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

if importlib.util.find_spec("pyaudio") is None:  # it opens a sound card, of which nothing is used

    class NoCard:
        def open(self, **_):
            raise OSError("there is no sound card")

        def terminate(self):
            pass

    sys.modules["pyaudio"] = types.SimpleNamespace(PyAudio=NoCard, paInt16=8)

from whisper_live.client import StreamingTranscriptionClient, TranscriptionClient


def live(port, path):
    """The segments that are committed."""
    client = StreamingTranscriptionClient("127.0.0.1", port, lang="en", model="small")
    with client as stream, wave.open(str(path)) as file:
        while data := file.readframes(4096):
            stream.send(data)
    return "".join(segment["text"] for segment in client.transcript).strip()


def whole(port, path, folder):
    """The cues of the subtitles that it writes."""
    subtitles = folder / "whole.srt"
    client = TranscriptionClient(
        "127.0.0.1", port, lang="en", model="small", output_transcription_path=str(subtitles),
        mute_audio_playback=True,
    )  # fmt: skip
    client.client.disconnect_if_no_response_for = 5
    client(str(path))
    lines = subtitles.read_text().split("\n")
    return " ".join(line.strip() for line in lines[2::4]).strip()


def main():
    port, folder, paths = int(sys.argv[1]), Path(sys.argv[2]), [Path(each) for each in sys.argv[3:]]
    with ThreadPoolExecutor(5) as pool:
        texts = pool.map(lambda path: live(port, path), paths)
        told = {path.stem: text for path, text in zip(paths, texts, strict=True)}
    longest = max(paths, key=lambda path: path.stat().st_size)
    said = {"live": told, "name": longest.stem, "file": whole(port, longest, folder)}
    sys.stdout.write("\n" + json.dumps(said) + "\n")


if __name__ == "__main__":
    main()
