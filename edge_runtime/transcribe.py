"""Recordings to text in one thread: one update a segment, segments decoded in batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from edge_runtime.audio import RATE
from edge_runtime.audio.ring import Ring, Samples
from edge_runtime.audio.vad import AT_ONCE
from edge_runtime.config import Computing, Config
from edge_runtime.decode.family import AnyRunner, make_runner
from edge_runtime.decode.prompt import TRANSCRIBE
from edge_runtime.decode.tiles import Size
from edge_runtime.decode.update import Purpose, Update
from edge_runtime.engines.store import Store
from edge_runtime.events import Event
from edge_runtime.runtime.files import Served
from edge_runtime.runtime.load import Loaded, Loader
from edge_runtime.runtime.rings import ring_memory
from edge_runtime.session import Options, Session, fitting, longest, shortest

BATCH = 12
"""Segments decoded together."""

AHEAD = 24
"""Segments gathered before decoding, so that those of a batch are about as long."""

ALIKE = 0.7
"""The shortest of a batch is at least this share of its longest."""


class Transcriber:
    """Turns whole recordings into finals, the same each time: nothing depends on a clock."""

    def __init__(  # noqa: PLR0913 - an option of the command each
        self,
        model: str | Path = "moonshine-tiny-en",
        *,
        device: str = "auto",
        words: bool = False,
        threads: int = 1,
        endpoint_ms: int = 500,
        language: str = "",
        task: str = TRANSCRIBE,
        config: Config | None = None,
        store: Store | None = None,
    ) -> None:
        """Loads the model; raises what `Loader.load` raises, and `LanguageError`."""
        config = config or Config()
        self._options = Options(
            partials=False,
            words=words,
            endpoint_ms=endpoint_ms,
            speculate=False,
            language=language,
            task=task,
        )
        size = Size(BATCH, longest(config))
        loader = Loader(
            model,
            device,
            size,
            least=Size(1, shortest(config)),
            computing=config.computing,
            threads=threads,
            store=store,
        )
        self._loaded, (self._runner, self._ring) = loader.made(
            loader.load(), lambda loaded: (_runner(loaded), _ring(loaded))
        )
        self._loaded.model.check(language, task)
        self._loaded.served.tell(config)
        self._config = fitting(self._loaded.served.suited(config), self._loaded.size.samples)
        self._ear = self._loaded.ear(1)

    @property
    def device(self) -> str:
        """The name of the device that is used."""
        return self._loaded.device.name

    @property
    def fallback(self) -> str | None:
        """Which devices failed before it, why, and what helps."""
        return self._loaded.fallback

    def transcribe(self, blocks: Iterable[Samples]) -> Iterator[Event]:
        """The events of one recording, given as 16 kHz mono float32 blocks of any size."""
        self._ring.clear()
        session = Session("file", self._loaded.model, self._config, self._options, self._ring)
        slot = self._ear.open()
        try:
            for block in blocks:
                for start in range(0, len(block), RATE):
                    yield from self._fed(session, slot, block[start : start + RATE])
            yield from session.stop()
            while session.waiting:
                yield from self._decode(session)
        finally:
            self._ear.close(slot)

    def _fed(self, session: Session, slot: int, samples: Samples) -> Iterator[Event]:
        # What waits keeps its audio, and all that came after it: a long silence, too.
        while session.waiting and session.room < len(samples):
            yield from self._decode(session)
        yield from session.feed(samples)
        while session.due:
            (heard,) = self._ear.hear([slot], [session.frames(AT_ONCE)])
            for probability in heard:
                yield from session.heard(probability)
        while session.waiting >= AHEAD:
            yield from self._decode(session)

    def _decode(self, session: Session) -> Iterator[Event]:
        """Decode what waits, longest first, in batches of about the same length."""
        updates = []
        while (update := session.take()) is not None:
            updates.append(update)
        updates.sort(key=_length, reverse=True)
        while updates:
            least = ALIKE * _length(updates[0])
            most = updates[: self._loaded.size.rows]
            batch = [update for update in most if _length(update) >= least]
            del updates[: len(batch)]
            audio = [session.ring.pieces(update.start, update.end) for update in batch]
            for hypothesis in self._runner.run(batch, audio):
                yield from session.accept(hypothesis)


class WholeUtterance:
    """Decodes a recording as one segment, without a voice detector: a yardstick."""

    def __init__(
        self,
        model: str | Path = "moonshine-tiny-en",
        *,
        device: str = "auto",
        seconds: float = 30.0,
        computing: Computing | None = None,
        store: Store | None = None,
    ) -> None:
        """`seconds` is the longest recording that is wanted."""
        size = Size(1, int(seconds * RATE))
        least = Size(1, shortest(Config()))
        loader = Loader(model, device, size, least=least, computing=computing, store=store)
        self._loaded, self._runner = loader.made(loader.load(), _runner)

    @property
    def model(self) -> str:
        """Its name."""
        return self._loaded.name

    @property
    def device(self) -> str:
        """The name of the device that is used."""
        return self._loaded.device.name

    @property
    def served(self) -> Served:
        """The form in which the model is computed."""
        return self._loaded.served

    @property
    def longest(self) -> int:
        """Samples of the longest recording: what was wanted, or all that the engine takes."""
        return self._loaded.size.samples

    def __call__(self, samples: Samples) -> str:
        """The greedy text of (n,) float32 samples at 16 kHz.

        Raises `AudioError` for more than `longest`.
        """
        return self.heard(samples)[0]

    def heard(self, samples: Samples) -> tuple[str, str]:
        """The text, and the language where the model tells one; else that is empty."""
        samples = np.asarray(samples, np.float32)
        update = Update("whole", 0, Purpose.FINAL, 0, len(samples))
        (hypothesis,) = self._runner.run([update], [[samples]])
        return self._loaded.model.vocabulary.text(hypothesis.tokens), hypothesis.language


def _runner(loaded: Loaded) -> AnyRunner:
    runner = make_runner(loaded.chain, loaded.size)
    runner.lane.choose()
    return runner


def _ring(loaded: Loaded) -> Ring:
    return Ring(ring_memory(loaded.device, loaded.size.samples * (AHEAD + 2)))


def _length(update: Update) -> int:
    return update.end - update.start
