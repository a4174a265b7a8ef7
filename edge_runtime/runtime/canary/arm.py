"""One of the two models of a trial: its runtime, and what it did so far."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from prometheus_client import CollectorRegistry

from edge_runtime.audio.ring import Samples
from edge_runtime.config import Config
from edge_runtime.engines.store import Store
from edge_runtime.engines.variant import Variant
from edge_runtime.events import Closed, Event, Final
from edge_runtime.events import Warning as WarningEvent
from edge_runtime.metrics import Cost, LoadMetrics, Metrics
from edge_runtime.runtime import Options, Runtime
from edge_runtime.runtime.canary.counts import Counts
from edge_runtime.runtime.commons import Commons
from edge_runtime.runtime.stream import Stream

FULL = "full"
"""How the model in full precision is called among variants."""


class Arm:
    """Counts what its runtime and its streams do, among all figures and apart.

    The runtime takes it for its metrics.
    """

    def __init__(
        self,
        config: Config,
        store: Store,
        metrics: Metrics,
        trial: Variant | None = None,
        commons: Commons | None = None,
    ) -> None:
        """Loads the active model, or the variant on `trial`; raises what `Runtime` raises."""
        self.device = metrics.device
        self.power = metrics.power
        self.models = metrics.models
        self.batches = metrics.batches
        # The load that is told is that of the lanes of the active model.
        self.load = metrics.load if trial is None else LoadMetrics(CollectorRegistry())
        self.counts = Counts()
        self._all = metrics
        self.runtime = Runtime(config, store=store, metrics=self, trial=trial, commons=commons)

    @property
    def name(self) -> str:
        """The fingerprint of the variant that it runs."""
        return self.runtime.loaded.served.variant or FULL

    def open(self, options: Options | None, changed: Callable[[], None]) -> Watched:
        """A stream whose finals are counted; `changed` is called after each and at the end."""
        return Watched(self.runtime.open(options), self, changed)

    # -- what a runtime counts

    def update(self, purpose: str, cost: Cost) -> None:
        """See `Metrics`."""
        seconds = cost.encode + cost.draft + cost.decode
        self._all.update(purpose, cost)
        self._all.variants.update(self.name, seconds)
        self.counts.updates.append(seconds)

    def conflict(self, count: int = 1) -> None:
        """See `Metrics`."""
        self._all.conflict(count)
        self._all.variants.conflict(self.name, count)
        self.counts.conflicts += count

    def overtaken(self, count: int = 1) -> None:
        """See `Metrics`."""
        self._all.overtaken(count)

    # -- what streams count

    def final(self, final: Final) -> None:
        """A segment has its final."""
        counts, rejected = self.counts, final.rejected is not None
        words = 0 if rejected else len(final.text.split())
        seconds = final.end - final.start if words else 0.0
        counts.finals += 1
        counts.rejected += rejected
        counts.words += words
        counts.speech += seconds
        self._all.variants.final(self.name, rejected=rejected, words=words, seconds=seconds)

    def ended(self, *, failed: bool) -> None:
        """A session is over; `failed` says that an update of it failed."""
        self.counts.sessions += 1
        self.counts.failed += failed
        self._all.variants.ended(self.name, failed=failed)


class Watched:
    """A stream that its arm counts."""

    def __init__(self, stream: Stream, arm: Arm, changed: Callable[[], None]) -> None:
        self._stream, self._arm, self._changed = stream, arm, changed
        self.offer = stream.offer
        self.flush = stream.flush
        self.stop = stream.stop

    async def feed(self, samples: Samples) -> None:
        """See `Stream`."""
        await self._stream.feed(samples)

    async def __aiter__(self) -> AsyncIterator[Event]:
        failed = False
        async for event in self._stream:
            # The runtime warns of nothing else.
            failed = failed or isinstance(event, WarningEvent)
            if isinstance(event, Final):
                self._arm.final(event)
                self._changed()
            elif isinstance(event, Closed):
                self._arm.ended(failed=failed)
                self._changed()
            yield event
