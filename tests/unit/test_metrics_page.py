"""docs/protocol.md lists every metric with its kind and labels, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.parser import text_string_to_metric_families

from edge_runtime.metrics import Metrics

PAGE = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text()
ROW = re.compile(r"^\| `(edge_runtime_\w+)` \| (\w+) \|(.*?)\|(.*?)\|$", re.M)
WRITTEN = {
    name: (kind, tuple(re.findall(r"`(\w+)`", labels)))
    for name, kind, labels, _ in ROW.findall(PAGE)
}


def counted() -> dict[str, tuple[str, tuple[str, ...]]]:
    metrics = Metrics()
    found = {}
    rooms = (
        metrics.batches, metrics.device, metrics.dialects, metrics.models, metrics.variants,
        metrics.load, metrics.power,
    )  # fmt: skip
    for owner in (metrics, *rooms):
        for each in vars(owner).values():
            if isinstance(each, MetricWrapperBase):
                name = each._name + ("_total" if each._type == "counter" else "")
                found[name] = (each._type, tuple(each._labelnames))
    return found


def test_what_is_counted_is_written():
    found = counted()
    assert len(found) > 20
    named = {name: said for name, said in WRITTEN.items() if "_process_" not in name}
    assert named == found


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs /proc")
def test_what_prometheus_reads_is_written():
    families = text_string_to_metric_families(Metrics().text().decode())
    names = {
        family.name + ("_total" if family.type == "counter" else ""): family.type
        for family in families
        if not family.name.endswith("_created")  # when each counter was made
    }
    assert {name: kind for name, (kind, _) in WRITTEN.items()} == names


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ("queue", ("prefill", "decode")),
        ("pages", ("active", "cold", "free")),
        ("copied_bytes_total", ("audio", "length", "tokens", "results", "align", "in", "out")),
        ("graphs_total", ("hit", "miss", "failed")),
        ("padding_total", ("samples", "queries", "real", "padding")),
        ("stage_seconds", ("queue", "encode", "draft", "decode", "emit")),
        ("tokens_total", ("drafted", "accepted", "bonus", "produced")),
    ],
)
def test_the_values_of_labels_are_written(metric, words):
    (row,) = re.findall(rf"^\| `edge_runtime_{metric}` \|.*$", PAGE, re.M)
    for word in words:
        assert f"`{word}`" in row
