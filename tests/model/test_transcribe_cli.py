"""`transcribe` and `listen` as a person runs them: the real model, the real server."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[2]
CLIP = ROOT / "audio" / "demo.flac"
SAID = [
    "had then leisure to consider how much there might be prudently in his power to do for them",
    "rather cold hearted and rather selfish is to be ill disposed",
    "might have been made still more respectable than he was",
    "made amiable himself",
]
COMMAND = [sys.executable, "-m", "edge_runtime"]


def run(*args: str | Path, audio: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, *map(str, args)], input=audio, capture_output=True, check=False, timeout=120
    )


def plain(text: str) -> str:
    return " ".join(re.sub(r"[^a-z' ]", " ", text.lower()).split())


def assert_said(text: str) -> None:
    for part in SAID:
        assert part in plain(text), text


def test_a_file_is_one_line_a_turn() -> None:
    said = run("transcribe", CLIP)
    assert said.returncode == 0, said.stderr
    assert said.stderr == b""
    assert len(said.stdout.splitlines()) == 5
    assert_said(said.stdout.decode())


def test_a_bad_file_does_not_stop_the_others(tmp_path: Path) -> None:
    notes = tmp_path / "notes.wav"
    notes.write_text("This is no sound.")
    said = run("transcribe", notes, tmp_path / "missing.wav", CLIP)
    assert said.returncode == 1
    assert_said(said.stdout.decode().replace(f"{CLIP}: ", ""))
    assert all(line.startswith(f"{CLIP}: ") for line in said.stdout.decode().splitlines())
    errors = [line for line in said.stderr.decode().splitlines() if line.startswith("error: ")]
    assert len(errors) == 2
    assert str(notes) in errors[0]
    assert "missing.wav" in errors[1]
    assert said.stderr.decode().count("fix:   ") == 2


def test_json_has_word_times_in_order() -> None:
    said = run("transcribe", "--json", "--words", CLIP)
    whole = json.loads(said.stdout)
    assert whole["file"] == str(CLIP)
    assert whole["seconds"] == pytest.approx(28.83, abs=0.01)
    assert_said(whole["text"])
    words = [word for segment in whole["segments"] for word in segment["words"]]
    assert " ".join(word["text"] for word in words) == whole["text"]
    starts = [word["start"] for word in words]
    assert starts == sorted(starts)
    assert all(word["start"] <= word["end"] <= whole["seconds"] for word in words)


def test_subtitles_go_to_a_file_each(tmp_path: Path) -> None:
    copy = tmp_path / "copy.wav"
    soundfile.write(copy, *soundfile.read(CLIP, dtype="int16"))
    said = run("transcribe", "--srt", "--output", tmp_path / "subs", CLIP, copy)
    assert (said.returncode, said.stdout) == (0, b"")
    demo, copied = ((tmp_path / "subs" / name).read_text() for name in ("demo.srt", "copy.srt"))
    assert demo == copied
    times = re.findall(r"(\d\d:\d\d:\d\d,\d{3}) --> (\d\d:\d\d:\d\d,\d{3})", demo)
    assert len(times) >= 5
    assert [time for pair in times for time in pair] == sorted(t for pair in times for t in pair)
    text = re.sub(r"^(\d+|.* --> .*|)\n", "", demo, flags=re.MULTILINE)
    assert_said(text.replace("\n", " "))
    assert max(map(len, text.splitlines())) <= 42


def test_an_output_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    said = run("transcribe", "--output", tmp_path / "taken", CLIP)
    assert said.returncode == 1
    assert b"cannot be written" in said.stderr
    assert b"--output" in said.stderr


def test_a_pipe_of_another_rate_and_two_channels() -> None:
    samples, _ = soundfile.read(CLIP, dtype="int16")
    doubled = np.repeat(np.repeat(samples, 2)[:, None], 2, axis=1)
    said = run("transcribe", "--raw-rate", "32000", "--channels", "2", "-", audio=doubled.tobytes())
    assert said.returncode == 0, said.stderr
    assert_said(said.stdout.decode())


def test_live_json_is_events_whose_stable_text_only_grows() -> None:
    said = run("transcribe", "--live", "--json", CLIP)
    assert said.returncode == 0, said.stderr
    events = [json.loads(line) for line in said.stdout.splitlines()]
    assert [event["seq"] for event in events] == list(range(events[0]["seq"], len(events) + 1))
    assert events[-1]["type"] == "closed"
    assert events[-1]["audio_seconds"] == pytest.approx(28.83, abs=0.01)
    stable: dict[int, str] = {}
    for event in events:
        if event["type"] == "partial":
            assert event["stable"].startswith(stable.get(event["segment"], ""))
            stable[event["segment"]] = event["stable"]
        elif event["type"] == "final":
            assert event["text"].startswith(stable.get(event["segment"], ""))
    assert_said(" ".join(event["text"] for event in events if event["type"] == "final"))


def test_silence_is_no_text_and_no_error() -> None:
    said = run("transcribe", "-", audio=bytes(2 * 16000 * 3))
    assert (said.returncode, said.stdout, said.stderr) == (0, b"", b"")


def test_no_samples_at_all_is_a_warning() -> None:
    said = run("transcribe", "-")
    assert (said.returncode, said.stdout) == (0, b"")
    assert said.stderr.startswith(b"warning: ")


def test_a_terminal_sees_words_before_their_final() -> None:
    """Through a real pseudo-terminal: unstable words dim, the final left on the screen."""
    samples, _ = soundfile.read(CLIP, dtype="int16", frames=8 * 16000)
    shown = in_terminal("transcribe", "--live", "-", audio=samples)
    assert "\x1b[2;3m" in shown  # unstable: dim italic
    assert "\x1b[1m" in shown  # stable: bold
    left = shown[shown.rindex("\x1b[1m") :]
    assert SAID[0] in plain(re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", " ", left))
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")


def in_terminal(*args: str, audio: NDArray[np.int16]) -> str:
    """What a command writes to a terminal while audio comes in at twice its pace."""
    main, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200", "LINES": "24"}
    process = subprocess.Popen(
        [*COMMAND, *args], stdin=subprocess.PIPE, stdout=terminal, stderr=terminal, env=environment
    )
    os.close(terminal)
    feeding = threading.Thread(target=feed, args=(process.stdin, audio))
    feeding.start()
    shown = b""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if not select.select([main], [], [], 0.2)[0]:
            continue
        try:
            shown += os.read(main, 65536)
        except OSError:  # the other end is closed
            break
    os.close(main)
    feeding.join()
    assert process.wait(10) == 0
    return shown.decode()


def feed(pipe: BinaryIO, audio: NDArray[np.int16]) -> None:
    with pipe:
        for start in range(0, len(audio), 1600):
            pipe.write(audio[start : start + 1600].tobytes())
            pipe.flush()
            time.sleep(0.05)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a real server in a process of its own."""
    process = subprocess.Popen(
        [*COMMAND, "serve", "--port", "0"], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    address = ""
    while not address:
        line = process.stderr.readline()
        assert line, "the server ended"
        found = re.search(r"ws://(127\.0\.0\.1:\d+)/v1/stream", line)
        address = found[1] if found else ""
    wait_until_ready(f"http://{address}/readyz")
    yield f"ws://{address}/v1/stream"
    process.terminate()
    process.communicate(timeout=20)


def wait_until_ready(url: str) -> None:
    for _ in range(100):
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except urllib.error.URLError:
            time.sleep(0.1)
    pytest.fail("the server never got ready")


def test_listen_shows_a_server_s_finals(server: str) -> None:
    said = run("listen", "--fast", "--url", server, CLIP)
    assert said.returncode == 0, said.stderr
    assert_said(said.stdout.decode())


def test_listen_json_begins_with_ready_and_ends_with_closed(server: str) -> None:
    said = run("listen", "--fast", "--json", "--words", "--url", server, CLIP)
    events = [json.loads(line) for line in said.stdout.splitlines()]
    assert (events[0]["type"], events[-1]["type"]) == ("ready", "closed")
    finals = [event for event in events if event["type"] == "final"]
    assert_said(" ".join(final["text"] for final in finals))
    assert all(final["words"] for final in finals if final["text"])
