"""Judgements: from facts to findings, without a look at the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from edge_runtime.doctor.base import Finding
from edge_runtime.doctor.facts import Facts
from edge_runtime.doctor.judgements.engines import engines
from edge_runtime.doctor.judgements.gpu import gpu, nvrtc
from edge_runtime.doctor.judgements.jetson import jetpack, jtop, power
from edge_runtime.doctor.judgements.onnxruntime import onnxruntime
from edge_runtime.doctor.judgements.server import certificate, keys, ports, settings
from edge_runtime.doctor.judgements.sound import sound
from edge_runtime.doctor.judgements.store import disk, model, store
from edge_runtime.doctor.judgements.system import clock, memory, python
from edge_runtime.doctor.judgements.tensorrt import pycuda, tensorrt
from edge_runtime.doctor.judgements.unended import unended

Judgement = Callable[[Facts], Iterator[Finding]]

JUDGEMENTS: tuple[Judgement, ...] = (
    python, jetpack, gpu, tensorrt, nvrtc, pycuda, onnxruntime, settings, model, engines, store,
    disk, memory, power, jtop, ports, keys, certificate, sound, clock, unended,
)  # fmt: skip
"""In the order in which their findings are shown: what others stand on comes first."""


def judge(facts: Facts) -> list[Finding]:
    """All findings; a judgement whose facts are not there makes none, `unended` says why."""
    return [finding for judgement in JUDGEMENTS for finding in judgement(facts)]
