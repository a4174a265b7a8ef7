"""A runtime on a board that gets hot: what it samples, tells and leaves to others."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from edge_runtime.audio import FRAME
from edge_runtime.config import Config, Power
from edge_runtime.events import Partial
from edge_runtime.metrics import Metrics
from edge_runtime.power import FULL, Readings
from edge_runtime.power.limits import LEVELS
from edge_runtime.power.readings import Clock, Fan, Mode, Zone
from edge_runtime.runtime import Options, power
from edge_runtime.runtime.power import Governor
from tests.waiting import until

COOL = Readings(
    at=0.0,
    zones=(Zone("tj-thermal", 60.0, {"passive": 99.0}), Zone("Tboard", 40.0)),
    rails={"VDD_IN": 6.0, "VDD_SOC": 1.5},
    board=6.0,
    gpu={"17000000.gpu": Clock(306e6, 0.4)},
    memory=Clock(2133e6),
    mode=Mode(0, "15W", 0.6),
    fans={"pwmfan": Fan(share=0.4), "pwm_tach": Fan(rpm=2400)},
    jetson=True,
)
HOT = replace(COOL, zones=(Zone("tj-thermal", 98.5, {"passive": 99.0}),), at=10.0)
SPEECH = np.full(125 * FRAME, 1.0, np.float32)


class Reader:
    """Sensors that say one thing."""

    def __init__(self, says: Readings, fails_after: int = 1000) -> None:
        self.says, self.left, self.closed = says, fails_after, False
        self.opened = 0

    def read(self, at: float) -> Readings:
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("made to fail")
        return replace(self.says, at=at)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def sensors(monkeypatch):
    """`sensors(readings)`: what every governor reads from then on."""

    def say(readings: Readings, fails_after: int = 1000) -> Reader:
        reader = Reader(readings, fails_after)

        def opened(_: Power) -> Reader:
            reader.opened += 1
            return reader

        monkeypatch.setattr(power, "open_reader", opened)
        return reader

    return say


def test_what_sensors_say_is_counted_and_told():
    metrics = Metrics()
    governor = Governor(Power(), metrics.power)
    assert governor.about is None
    governor.take(COOL)
    value = metrics.value
    assert value("edge_runtime_temperature_celsius", zone="tj-thermal") == 60.0
    assert value("edge_runtime_throttle_celsius", zone="tj-thermal") == 99.0
    assert value("edge_runtime_power_watts", rail="VDD_SOC") == 1.5
    assert value("edge_runtime_power_watts", rail="board") == 6.0
    assert value("edge_runtime_clock_hertz", part="17000000.gpu") == 306e6
    assert value("edge_runtime_clock_hertz", part="memory") == 2133e6
    assert value("edge_runtime_load_ratio", part="17000000.gpu") == 0.4
    assert value("edge_runtime_fan_ratio", fan="pwmfan") == 0.4
    assert value("edge_runtime_fan_rpm", fan="pwm_tach") == 2400
    assert value("edge_runtime_power_mode_info", mode="15W") == 1
    assert value("edge_runtime_limit", kind="hop") == 1.0
    assert governor.about == {
        "mode": "15W",
        "temperatures": {"tj-thermal": 60.0, "Tboard": 40.0},
        "watts": 6.0,
        "throttled": [],
        "governed": True,
        "limit": {"level": 0, "hop": 1.0, "lanes": 1.0, "why": None},
    }


def test_a_sensor_that_falls_silent_has_no_value():
    metrics = Metrics()
    governor = Governor(Power(), metrics.power)
    governor.take(COOL)
    governor.take(Readings(2.0))
    text = metrics.text().decode()
    for name in ("temperature_celsius", "power_watts", "clock_hertz", "fan_rpm", "mode_info"):
        assert f"edge_runtime_{name}{{" not in text
    assert governor.about["watts"] is None


def test_heat_is_met_logged_and_counted(caplog):
    caplog.set_level("INFO")
    metrics = Metrics()
    governor = Governor(Power(), metrics.power)
    governor.take(COOL)
    governor.take(replace(HOT, throttled=("gpu",)))
    assert governor.limits.level == LEVELS
    assert metrics.value("edge_runtime_limit", kind="level") == LEVELS
    assert metrics.value("edge_runtime_limit", kind="hop") == pytest.approx(4.0)
    assert metrics.value("edge_runtime_limit", kind="lanes") == 0
    assert metrics.value("edge_runtime_limit_changes_total", direction="stricter") == 1
    assert metrics.value("edge_runtime_throttled", part="gpu") == 1
    assert governor.about["limit"]["why"] == "the board throttles: gpu"
    for at in (71.0, 132.0, 193.0, 254.0, 315.0):
        governor.take(replace(COOL, at=at))
    assert governor.limits.level == 0
    assert metrics.value("edge_runtime_limit_changes_total", direction="easier") == LEVELS
    told = [record.getMessage() for record in caplog.records]
    assert told[0] == "power limit 5 (hop times 4.0, 0 % of lanes): the board throttles: gpu"
    assert told[-1] == "power limit 0 (hop times 1.0, 100 % of lanes): full power again"
    assert len(told) == 1 + LEVELS


def test_energy_is_power_over_time():
    metrics = Metrics()
    governor = Governor(Power(), metrics.power)
    for at, board, joules in ((0.0, 6.0, 100.0), (2.0, 8.0, 130.0), (4.0, None, 10.0)):
        governor.take(replace(COOL, at=at, board=board, joules={"package-0": joules}))
    value = metrics.value
    assert value("edge_runtime_energy_joules_total", source="board") == pytest.approx(14.0)
    # the counter began anew: of that while nothing is known
    assert value("edge_runtime_energy_joules_total", source="package-0") == pytest.approx(30.0)


def test_a_monitor_that_says_less_than_nothing_ends_nothing():
    metrics = Metrics()
    governor = Governor(Power(), metrics.power)
    for at in (0.0, 2.0):
        governor.take(replace(COOL, at=at, board=-0.4))
    assert metrics.value("edge_runtime_energy_joules_total", source="board") == 0


@pytest.mark.parametrize(
    ("how", "jetson", "governed"),
    [("auto", True, True), ("auto", False, False), ("always", False, True), ("never", True, False)],
)
def test_who_is_governed(how, jetson, governed):
    governor = Governor(Power(govern=how), Metrics().power)
    governor.take(replace(HOT, jetson=jetson))
    assert (governor.limits.level > 0) == governed
    assert governor.about["governed"] == governed


async def test_sensors_that_fail_lift_all_limits(sensors, caplog):
    reader = sensors(HOT, fails_after=0)
    governor = Governor(Power(), Metrics().power)
    governor.take(HOT)
    assert governor.limits.level == LEVELS
    await asyncio.wait_for(governor.run(), 5)
    assert "heat and power are watched no more" in caplog.text
    assert governor.limits is FULL
    assert governor.about is None
    assert reader.closed


async def test_off_is_off(sensors):
    reader = sensors(HOT)
    governor = Governor(Power(enabled=False), Metrics().power)
    await asyncio.wait_for(governor.run(), 5)
    assert reader.left == 1000
    assert governor.about is None


async def test_a_hot_board_lends_one_lane(make, devices, sensors):
    reader = sensors(HOT)
    device = devices["cpu"]
    device.lanes, device.held = 3, {"s1", "s2", "s3"}
    runtime = make("cpu")
    async with runtime.serving():
        await until(lambda: runtime.about["power"] is not None)
        assert runtime.about["power"]["limit"]["level"] == LEVELS
        streams = [runtime.open(Options(partials=False)) for _ in range(3)]
        for stream in streams:
            await stream.feed(SPEECH[: 40 * FRAME])
            stream.flush()
        await until(lambda: all(s.wanted_at or s.served_at for s in streams))
        assert sum(stream.served_at > 0 for stream in streams) == 1
        device.free.set()
        for stream in streams:
            stream.stop()
            assert [event async for event in stream]
    assert sorted(set(device.ran)) == ["s1", "s2", "s3"], "one after the other"
    assert reader.closed


@pytest.mark.parametrize(("readings", "hop"), [(COOL, 1.0), (HOT, 4.0)])
async def test_a_hot_board_is_asked_for_partials_as_much_less(
    make, devices, sensors, readings, hop
):
    sensors(readings)
    device = devices["cpu"]
    runtime = make("cpu", Config(power=Power(slowest=4.0)))
    async with runtime.serving():
        await until(lambda: runtime.about["power"] is not None)
        stream = runtime.open(Options())
        reading = asyncio.create_task(_partials(stream))
        for start in range(0, len(SPEECH), FRAME):
            await stream.feed(SPEECH[start : start + FRAME])
            while not stream.session.at_rest:  # noqa: ASYNC110 – nothing tells of it
                await asyncio.sleep(0.001)
        stream.stop()
        await reading
    partials = len(device.ran) - 1
    seconds = len(SPEECH) / 16000
    assert partials == pytest.approx(seconds / (0.2 * hop), rel=0.4)


async def _partials(stream) -> int:
    return sum([isinstance(event, Partial) async for event in stream])


async def test_two_runtimes_on_a_board_share_its_sensors(make, devices, sensors):
    reader = sensors(HOT)
    steady, trial = make("cpu"), make("cpu")
    trial.follow(steady)
    async with steady.serving(), trial.serving():
        await until(lambda: steady.about["power"] is not None)
        assert trial.about["power"] == steady.about["power"]
        assert trial.about["power"]["limit"]["level"] == LEVELS
        await asyncio.sleep(0.05)  # time enough for a second look
    assert reader.opened == 1, "one of them looks"
