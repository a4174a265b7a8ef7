"""What is counted, and how Prometheus reads it."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from edge_runtime import events
from edge_runtime.decode.update import Cost
from edge_runtime.metrics import Metrics


def final(reason, rejected=None):
    return events.Final(
        segment=0, turn=0, reason=reason, text="", start=0.0, end=0.0, logprob=0.0,
        rejected=rejected,
    )  # fmt: skip


def test_updates_are_split_into_stages_and_tokens():
    metrics = Metrics()
    cost = Cost(
        queue=0.004, encode=0.04, draft=0.012, decode=0.25,
        drafted=20, accepted=15, bonus=1, produced=18, passes=4,
    )  # fmt: skip
    metrics.update("partial", cost)
    metrics.update("partial", cost)
    metrics.update("final", Cost())
    assert metrics.value("edge_runtime_updates_total", purpose="partial") == 2
    assert metrics.value("edge_runtime_updates_total", purpose="final") == 1
    for stage, seconds in {"queue": 0.008, "encode": 0.08, "draft": 0.024, "decode": 0.5}.items():
        labels = {"purpose": "partial", "stage": stage}
        assert metrics.value("edge_runtime_stage_seconds_sum", **labels) == pytest.approx(seconds)
        assert metrics.value("edge_runtime_stage_seconds_count", **labels) == 2
    at_most = {"purpose": "partial", "stage": "queue"}
    assert metrics.value("edge_runtime_stage_seconds_bucket", le="0.002", **at_most) == 0
    assert metrics.value("edge_runtime_stage_seconds_bucket", le="0.005", **at_most) == 2
    tokens = {k: metrics.value("edge_runtime_tokens_total", purpose="partial", kind=k) for k in
              ("drafted", "accepted", "bonus", "produced")}  # fmt: skip
    assert tokens == {"drafted": 40, "accepted": 30, "bonus": 2, "produced": 36}
    assert metrics.value("edge_runtime_passes_total", purpose="partial") == 8


def test_events_are_counted_by_what_they_say():
    metrics = Metrics()
    for event in [
        final("endpoint"), final("endpoint", "loop"), final("flush"),
        events.Overrun(dropped_ms=250), events.Overrun(dropped_ms=750),
        events.Warning(code="odd_bytes", message=""),
        events.Error(code="too_big", message="", fix=""),
        events.Flushed(),
    ]:  # fmt: skip
        metrics.event(event)
    assert metrics.value("edge_runtime_finals_total", reason="endpoint") == 2
    assert metrics.value("edge_runtime_finals_total", reason="flush") == 1
    assert metrics.value("edge_runtime_finals_rejected_total", rejected="loop") == 1
    assert metrics.value("edge_runtime_overruns_total") == 2
    assert metrics.value("edge_runtime_dropped_seconds_total") == 1.0
    assert metrics.value("edge_runtime_warnings_total", code="odd_bytes") == 1
    assert metrics.value("edge_runtime_errors_total", code="too_big") == 1


def test_sessions_bytes_and_emission_are_counted():
    metrics = Metrics()
    metrics.opened()
    metrics.opened()
    metrics.closed("stop")
    metrics.parked(1)
    metrics.refused("full")
    metrics.heard(1.5)
    metrics.received(3200)
    metrics.sent(final("stop"), 120, 0.03)
    metrics.sent(events.Flushed(), 30, 9.0)
    metrics.conflict()
    metrics.overtaken()
    assert metrics.value("edge_runtime_sessions_open") == 1
    assert metrics.value("edge_runtime_sessions_parked") == 1
    assert metrics.value("edge_runtime_sessions_total", reason="stop") == 1
    assert metrics.value("edge_runtime_refused_total", code="full") == 1
    assert metrics.value("edge_runtime_audio_seconds_total") == 1.5
    assert metrics.value("edge_runtime_bytes_total", direction="in") == 3200
    assert metrics.value("edge_runtime_bytes_total", direction="out") == 150
    emitted = {"purpose": "final", "stage": "emit"}
    assert metrics.value("edge_runtime_stage_seconds_sum", **emitted) == pytest.approx(0.03)
    assert metrics.value("edge_runtime_stable_conflicts_total") == 1
    assert metrics.value("edge_runtime_speculations_overtaken_total") == 1


def test_what_the_device_did_is_counted():
    metrics = Metrics()
    device = metrics.device
    device.update("final", waits=3, ties=2)
    device.update("final", waits=5, ties=0)
    for kind, size in {"audio": 640, "length": 8, "tokens": 16, "results": 24, "align": 4}.items():
        device.copied(kind, size)
    device.copied("audio", 60)
    device.graphs(hits=7, misses=2, failed=1)
    device.padded("samples", 900, 100)
    device.padded("queries", 5, 11)
    device.allocated(3)
    device.fallback(True)
    value = metrics.value
    assert value("edge_runtime_host_waits_sum", purpose="final") == 8
    assert value("edge_runtime_host_waits_bucket", purpose="final", le="3.0") == 1
    assert value("edge_runtime_host_waits_bucket", purpose="final", le="5.0") == 2
    assert value("edge_runtime_near_ties_total") == 2
    copied = {
        kind: value("edge_runtime_copied_bytes_total", direction=direction, kind=kind)
        for kind, direction in {
            "audio": "in",
            "length": "in",
            "tokens": "in",
            "results": "out",
            "align": "out",
        }.items()
    }
    assert copied == {"audio": 700, "length": 8, "tokens": 16, "results": 24, "align": 4}
    graphs = [value("edge_runtime_graphs_total", result=each) for each in ("hit", "miss", "failed")]
    assert graphs == [7, 2, 1]
    assert value("edge_runtime_padding_total", kind="samples", part="padding") == 100
    assert value("edge_runtime_padding_total", kind="queries", part="real") == 5
    assert value("edge_runtime_device_allocations_total") == 3
    one, other = (("one", "fp16", "", "false"), ("other", "fp16", "", "false"))
    for model in (one, other):
        device.serves(model, None)
    device.memory(other, 50, 900, 910)
    device.memory(one, 600, 310, 320)
    device.memory(one, 650, 300, 310)
    parts = ("taken", "free", "free_when_warm")
    found = [value("edge_runtime_device_memory_bytes", part=part) for part in parts]
    assert found == [700, 300, 310]
    device.retires(other)
    device.memory(one, 650, 350, 310)
    assert value("edge_runtime_device_memory_bytes", part="taken") == 650
    assert value("edge_runtime_fallback") == 1
    device.fallback(False)
    assert value("edge_runtime_fallback") == 0


def test_energy_for_each_hour_of_audio():
    metrics = Metrics()
    metrics.power.took("package-0", 900.0)
    assert metrics.energy_per_hour is None  # no audio so far
    metrics.heard(300.0)
    assert Metrics().energy_per_hour is None
    assert metrics.energy_per_hour == 3.0
    metrics.power.took("package-1", 300.0)
    assert metrics.energy_per_hour == 4.0
    metrics.power.took("board", 1800.0)  # feeds the packages, too
    assert metrics.energy_per_hour == 6.0


def test_the_text_is_what_prometheus_parses():
    metrics = Metrics()
    metrics.heard(2.0)
    families = {f.name: f for f in text_string_to_metric_families(metrics.text().decode())}
    assert families["edge_runtime_audio_seconds"].samples[0].value == 2.0
    assert all(name.startswith("edge_runtime_") for name in families)
    assert all(family.documentation for family in families.values())


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs /proc")
def test_the_process_is_measured():
    metrics = Metrics()
    text = metrics.text().decode()
    values = {s.name: s.value for f in text_string_to_metric_families(text) for s in f.samples}
    assert values["edge_runtime_process_resident_memory_bytes"] > 10_000_000
    assert values["edge_runtime_process_cpu_seconds_total"] > 0


def test_two_servers_in_one_process_count_apart():
    one, other = Metrics(), Metrics()
    one.heard(1.0)
    assert other.value("edge_runtime_audio_seconds_total") == 0
