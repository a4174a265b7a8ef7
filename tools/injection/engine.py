"""Lanes that fail where they are told to: once, at a chosen update of a chosen session."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

from edge_runtime.audio.ring import Ring, Samples
from edge_runtime.decode import family
from edge_runtime.decode.round import Round
from edge_runtime.decode.runner import Audio, Runner
from edge_runtime.decode.update import Hypothesis, Purpose, Update
from edge_runtime.errors import MemoryCapped
from edge_runtime.runtime.rings import Rings

Rounds = Iterator[Round]

KINDS = ("raises", "nan", "memory")


class Plan:
    """Which session meets what, and at which of its updates; `met` counts what happened.

    What sessions say that are not `watched` is decoded once: the same audio gives the same
    hypothesis, and thousands of them would take hours.
    """

    def __init__(self) -> None:
        self.met = 0
        self.watched: set[str] = set()
        self._due: dict[str, tuple[str, int]] = {}
        self._known: dict[bytes, Hypothesis] = {}

    def decoded(self, update: Update, audio: Audio, decode: Rounds) -> Rounds:
        """What `decode` gives of an update alone, or gave for the same."""
        if update.session in self.watched:
            yield from decode
            return
        asked = (update.draft, update.forced, update.align, update.limit)
        digest = hashlib.sha256(repr(asked).encode())
        for piece in audio:
            digest.update(piece)
        key = digest.digest()
        if key in self._known:
            yield Round({0: replace(self._known[key], update=update)})
            return
        for each in decode:
            if isinstance(found := each.done.get(0), Hypothesis):
                self._known[key] = found
            yield each

    def doom(self, session: str, kind: str, after: int) -> None:
        """The session's update after so many others fails; -1: the first that is final."""
        self._due[session] = (kind, after)

    def meets(self, update: Update) -> str:
        """What the update meets, nothing for most."""
        kind, left = self._due.get(update.session, ("", 0))
        if not kind:
            return ""
        if left > 0 or (left < 0 and update.purpose is not Purpose.FINAL):
            self._due[update.session] = (kind, left - 1 if left > 0 else left)
            return ""
        del self._due[update.session]
        self.met += 1
        return kind


@contextlib.contextmanager
def failing(plan: Plan) -> Iterator[None]:
    """Runtimes that are made inside have lanes that go by the plan."""

    class Failing(Runner):
        """A lane that does its work, but for what the plan says."""

        def rounds(
            self,
            updates: Sequence[Update],
            audio: Sequence[Audio],
            recalled: Callable[[], bool] = lambda: False,
        ) -> Rounds:
            kinds = {plan.meets(update) for update in updates}
            if "raises" in kinds:
                raise RuntimeError("injected: the engine raised")
            if "memory" in kinds:
                raise MemoryCapped("injected: out of device memory", "Nothing: it is a drill.")
            rounds = super().rounds(updates, audio, recalled)
            if "nan" not in kinds:
                alone = len(updates) == 1
                yield from plan.decoded(updates[0], audio[0], rounds) if alone else rounds
                return
            with patch.object(self.lane, "answers", _nan(self.lane.answers)):
                yield from rounds

    with patch.object(family, "Runner", Failing):
        yield


def starve(ring: Ring, rings: Rings) -> None:
    """Let the ring find no memory when its first audio comes."""
    capped = MemoryCapped("injected: out of device memory", "Nothing: it is a drill.")

    def claim() -> Samples:
        with patch.object(rings, "_spare", []), patch.object(rings, "_make", side_effect=capped):
            return rings._take(rings._device)

    ring._claim = claim


def _nan(answers: Any) -> Any:
    """Answers as a device gives them whose numbers went wrong: no best token, no odds."""

    def spoilt(*given: Any) -> dict[str, Any]:
        return {
            name: np.full_like(rows, np.nan)
            if np.issubdtype(rows.dtype, np.floating)
            else np.zeros_like(rows)
            for name, rows in answers(*given).items()
        }

    return spoilt
