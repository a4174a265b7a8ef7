"""Looks at the board's sensors while a runtime serves, and limits it before the board does."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from typing import Any

from edge_runtime.config import Power
from edge_runtime.metrics import PowerMetrics
from edge_runtime.power import FULL, Limits, Reader, Readings, govern, open_reader
from edge_runtime.power.govern import WINDOW

_log = logging.getLogger(__name__)


class Governor:
    """Samples in a thread, so that a slow sensor costs nobody time; `limits` are those in force."""

    def __init__(self, power: Power, metrics: PowerMetrics) -> None:
        self.limits: Limits = FULL
        self._power = power
        self._metrics = metrics
        self._recent: deque[Readings] = deque(maxlen=1 + int(WINDOW / power.period_seconds))

    async def run(self) -> None:
        """Sample for ever; where that fails, nothing is limited any more, and the log says so."""
        if not self._power.enabled:
            return
        reader: Reader | None = None
        try:
            reader = await asyncio.to_thread(open_reader, self._power)
            while True:
                self.take(await asyncio.to_thread(reader.read, time.monotonic()))
                await asyncio.sleep(self._power.period_seconds)
        except Exception:  # noqa: BLE001 – captions matter more than their temperature
            _log.exception("heat and power are watched no more")
            self._recent.clear()
            self._follow(FULL)
        finally:
            if reader is not None:
                reader.close()

    def take(self, readings: Readings) -> None:
        """Count what the sensors said, and give way where it takes that."""
        last = self._recent[-1] if self._recent else None
        self._recent.append(readings)
        self._count(readings)
        if last is not None:
            self._took(last, readings)
        if self._governs(readings):
            self._follow(govern(self._recent, self.limits, self._power))

    @property
    def about(self) -> dict[str, Any] | None:
        """For people: mode, temperatures, watts, limits and why; None where nothing is read."""
        if not self._recent:
            return None
        now, limits = self._recent[-1], self.limits
        return {
            "mode": None if now.mode is None else now.mode.name,
            "temperatures": {zone.name: round(zone.celsius, 1) for zone in now.zones},
            "watts": None if now.board is None else round(now.board, 2),
            "throttled": list(now.throttled),
            "governed": self._governs(now),
            "limit": {
                "level": limits.level,
                "hop": round(limits.hop, 2),
                "lanes": limits.lanes,
                "why": limits.why,
            },
        }

    def _governs(self, readings: Readings) -> bool:
        how = self._power.govern
        return how == "always" or (how == "auto" and readings.jetson)

    def _follow(self, limits: Limits) -> None:
        before, self.limits = self.limits, limits
        if limits is before or limits.level == before.level:
            return
        stricter = limits.level > before.level
        self._metrics.limits(limits.level, limits.hop, limits.lanes)
        self._metrics.changed("stricter" if stricter else "easier")
        _log.log(
            logging.WARNING if stricter else logging.INFO,
            "power limit %d (hop times %.1f, %.0f %% of lanes): %s",
            limits.level,
            limits.hop,
            100 * limits.lanes,
            limits.why or "full power again",
        )

    def _count(self, now: Readings) -> None:
        metrics = self._metrics
        metrics.heat(
            {zone.name: zone.celsius for zone in now.zones},
            {zone.name: zone.throttles for zone in now.zones if zone.throttles is not None},
            now.throttled,
        )
        board = {} if now.board is None else {"board": now.board}
        metrics.power({**now.rails, **board}, None if now.mode is None else now.mode.name)
        clocks = dict(now.gpu) if now.memory is None else {**now.gpu, "memory": now.memory}
        metrics.clocks(
            {name: clock.hertz for name, clock in clocks.items() if clock.hertz is not None},
            {name: clock.load for name, clock in clocks.items() if clock.load is not None},
        )
        metrics.fans(
            {name: fan.rpm for name, fan in now.fans.items() if fan.rpm is not None},
            {name: fan.share for name, fan in now.fans.items() if fan.share is not None},
        )

    def _took(self, last: Readings, now: Readings) -> None:
        """Energy between two looks: the mean of both powers, or what a counter grew by."""
        if now.board is not None and last.board is not None:
            joules = (now.board + last.board) / 2 * (now.at - last.at)
            self._metrics.took("board", max(0.0, joules))  # monitors at rest may say less than 0
        for name, joules in now.joules.items():
            grown = joules - last.joules.get(name, joules)
            if grown > 0:  # a counter that began anew tells nothing of this while
                self._metrics.took(name, grown)
