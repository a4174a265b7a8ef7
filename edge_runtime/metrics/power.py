"""Figures of heat and power: what sensors say, what it took so far, how far we give way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge


class PowerMetrics:
    """A sensor that does not answer has no value, rather than its last one or 0."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._temperature = Gauge(
            "edge_runtime_temperature_celsius", "Temperatures", ["zone"], registry=registry
        )
        self._throttles = Gauge(
            "edge_runtime_throttle_celsius",
            "Where the board slows down what makes heat there",
            ["zone"],
            registry=registry,
        )
        self._throttled = Gauge(
            "edge_runtime_throttled",
            "1 while the board slows something down, by its own account",
            ["part"],
            registry=registry,
        )
        self._watts = Gauge(
            "edge_runtime_power_watts",
            "Power by rail; board is what feeds all of it",
            ["rail"],
            registry=registry,
        )
        self._joules = Counter(
            "edge_runtime_energy_joules",
            "Energy since the start: of the board, or of processor packages",
            ["source"],
            registry=registry,
        )
        self._hertz = Gauge(
            "edge_runtime_clock_hertz", "Clocks of GPU and memory", ["part"], registry=registry
        )
        self._load = Gauge(
            "edge_runtime_load_ratio", "Busy part of the GPU", ["part"], registry=registry
        )
        self._rpm = Gauge("edge_runtime_fan_rpm", "Turns a minute", ["fan"], registry=registry)
        self._share = Gauge(
            "edge_runtime_fan_ratio", "What a fan is given, of all", ["fan"], registry=registry
        )
        self._mode = Gauge(
            "edge_runtime_power_mode_info", "1 for the power mode", ["mode"], registry=registry
        )
        self._limit = Gauge(
            "edge_runtime_limit",
            "How far we give way: level from 0, hop times as long, lanes left of all",
            ["kind"],
            registry=registry,
        )
        self._changes = Counter(
            "edge_runtime_limit_changes",
            "Changes of these limits",
            ["direction"],
            registry=registry,
        )
        self._said: dict[str, set[str]] = {}
        self._taken: dict[str, float] = {}
        self.limits(0, 1.0, 1.0)

    def heat(
        self,
        celsius: Mapping[str, float],
        throttles: Mapping[str, float],
        throttled: Sequence[str],
    ) -> None:
        """Temperatures and where they throttle, °C by zone; what is throttled."""
        self._say("temperature", self._temperature, celsius)
        self._say("throttles", self._throttles, throttles)
        self._say("throttled", self._throttled, dict.fromkeys(throttled, 1.0))

    def power(self, watts: Mapping[str, float], mode: str | None) -> None:
        """Watts by rail, and the power mode."""
        self._say("watts", self._watts, watts)
        self._say("mode", self._mode, {} if mode is None else {mode: 1.0})

    def took(self, source: str, joules: float) -> None:
        """So much energy more."""
        self._joules.labels(source).inc(joules)
        self._taken[source] = self._taken.get(source, 0.0) + joules

    @property
    def joules(self) -> float | None:
        """Of the board so far, else of processor packages; None where nobody tells."""
        return self._taken.get("board", sum(self._taken.values()) if self._taken else None)

    def clocks(self, hertz: Mapping[str, float], load: Mapping[str, float]) -> None:
        """Hz, and busy parts from 0 to 1."""
        self._say("hertz", self._hertz, hertz)
        self._say("load", self._load, load)

    def fans(self, rpm: Mapping[str, float], share: Mapping[str, float]) -> None:
        """Turns a minute, and the part from 0 to 1 that each is given."""
        self._say("rpm", self._rpm, rpm)
        self._say("share", self._share, share)

    def limits(self, level: int, hop: float, lanes: float) -> None:
        """What is in force."""
        for kind, value in (("level", float(level)), ("hop", hop), ("lanes", lanes)):
            self._limit.labels(kind).set(value)

    def changed(self, direction: str) -> None:
        """Limits became "stricter" or "easier"."""
        self._changes.labels(direction).inc()

    def _say(self, what: str, gauge: Gauge, values: Mapping[str, float]) -> None:
        for gone in self._said.get(what, set()) - values.keys():
            gauge.remove(gone)
        self._said[what] = set(values)
        for name, value in values.items():
            gauge.labels(name).set(value)
