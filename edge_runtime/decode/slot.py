"""Memory for the state of one stream at a time, which knows whose state it holds."""

from __future__ import annotations

from edge_runtime.decode.update import Update


class Slot:
    """One of a fixed number. Who uses which is the scheduler's business: none is used by two.

    What it holds is a cache: it follows from the stream's audio, so that whoever finds the state of
    another stream here, or none, begins anew and says the same.
    """

    def __init__(self) -> None:
        self._key: tuple[str, int] | None = None
        self._busy = False
        self.begin(0)

    def begin(self, base: int) -> None:
        """Forget everything: sample 0 of the stream is sample `base` of the session."""
        raise NotImplementedError

    def open(self, update: Update) -> None:
        """Go on with the stream of that update, from its start where the state is not here."""
        assert not self._busy, f"{update.session} and {self._key} are at the same state"
        self._busy = True
        key = update.session, update.segment
        if key != self._key:
            self.begin(update.start)
            self._key = key

    def close(self, *, over: bool) -> None:
        """Let go of it. Nothing follows where the stream is `over`, or what is here is spoilt."""
        self._busy = False
        if over:
            self._key = None
