"""Plays clips as a microphone would, or at once, and says what an engine makes of them.

Reads one request a line on standard input,

    {"audio": FILE, "enough": SECONDS, "patience": SECONDS, "paced": true}

where FILE holds 16 kHz float32 samples, plays it in 100 ms pieces, then silence until nothing is
open and `enough` seconds have passed, `patience` seconds at most. Without `paced` pieces come as
fast as they are taken, and nobody asks for partials. Answers with a line for each event,

    {"type": "partial" | "final", "segment": N, "text": TEXT, "at": SECONDS, "end": SECONDS}

`at` counted from the first sample, `end` the audio given so far, and then

    {"type": "done", "cpu": SECONDS, "peak": BYTES, "bytes": BYTES}

with the processor time of this clip, the most memory so far, and the size of the model's files.
"""

from __future__ import annotations

import json
import queue
import resource
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol, TextIO

import numpy as np

RATE = 16000
PIECE = RATE // 10


class Engine(Protocol):
    """What is compared: audio in, texts out."""

    bytes: int
    """Of the files of its model."""

    open: bool
    """A segment has begun and is not over."""

    def begin(self, *, partials: bool) -> None:
        """Another clip."""

    def hear(self, samples: np.ndarray) -> Iterator[tuple[str, str]]:
        """("partial" | "final", text) of what changed with these float32 samples."""

    def end(self) -> Iterator[tuple[str, str]]:
        """The same, where no more audio comes."""


class Player:
    """One clip: a pacing thread's queue, and a worker that hands all that waits to the engine."""

    def __init__(self, engine: Engine, out: TextIO) -> None:
        self._engine = engine
        self._out = out
        self._pieces: queue.Queue[np.ndarray | None] = queue.Queue(1000)
        self._segment = 0
        self._given = 0
        self._began = 0.0
        self._failed: BaseException | None = None

    def play(self, pcm: np.ndarray, enough: float, patience: float, *, paced: bool) -> None:
        """All of a clip, to its last event."""
        before = time.process_time()
        self._engine.begin(partials=paced)
        self._began = time.monotonic()
        worker = threading.Thread(target=self._work, daemon=True)
        worker.start()
        silence = np.zeros(int(patience * RATE), np.float32)
        audio = np.concatenate([pcm, silence])
        for sent in range(PIECE, len(audio) + 1, PIECE):
            before_it = sent - PIECE
            over = before_it >= len(pcm) and before_it / RATE >= enough
            if self._failed is not None or (paced and over and not self._engine.open):
                break
            if paced:
                time.sleep(max(0.0, self._began + sent / RATE - time.monotonic()))
            self._pieces.put(audio[sent - PIECE : sent])
        self._pieces.put(None)
        worker.join()
        if self._failed is not None:
            raise self._failed
        used = resource.getrusage(resource.RUSAGE_SELF)
        self._say(
            type="done",
            cpu=time.process_time() - before,
            peak=used.ru_maxrss * 1024,
            bytes=self._engine.bytes,
        )

    def _work(self) -> None:
        try:
            while (audio := self._waiting()) is not None:
                self._given += len(audio)
                self._tell(self._engine.hear(audio))
            self._tell(self._engine.end())
        except BaseException as error:  # noqa: BLE001 – told by the thread that plays
            self._failed = error

    def _waiting(self) -> np.ndarray | None:
        """All that waits, at least a piece; None at the end."""
        piece = self._pieces.get()
        waiting = []
        while piece is not None:
            waiting.append(piece)
            if self._pieces.empty():
                return np.concatenate(waiting)
            piece = self._pieces.get()
        if not waiting:
            return None
        self._pieces.put(None)  # once more, after what came before it
        return np.concatenate(waiting)

    def _tell(self, said: Iterator[tuple[str, str]]) -> None:
        for kind, text in said:
            at, end = time.monotonic() - self._began, self._given / RATE
            self._say(type=kind, segment=self._segment, text=text, at=at, end=end)
            self._segment += kind == "final"

    def _say(self, **message: Any) -> None:
        self._out.write(json.dumps(message) + "\n")
        self._out.flush()


def serve(engine: Engine) -> None:
    """Answer requests until standard input ends."""
    out, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        request = json.loads(line)
        pcm = np.frombuffer(Path(request["audio"]).read_bytes(), dtype="<f4")
        player = Player(engine, out)
        player.play(pcm, request["enough"], request["patience"], paced=request.get("paced", True))


def size(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
