"""No path of the file system goes to a client."""

from __future__ import annotations

import pytest

from edge_runtime import events
from edge_runtime.events import Closed, Error
from edge_runtime.server.outside import discreet, without_paths


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("/home/ann/.cache/edge-runtime/x is damaged", "x is damaged"),
        ("cannot load '/usr/lib/libnvinfer.so.10': none", "cannot load 'libnvinfer.so.10': none"),
        ("x: /var/lib/edge-runtime/a/b.plan (size 3)", "x: b.plan (size 3)"),
        ("see ~/.cache/edge-runtime/m, please", "see m, please"),
        ("File \"/opt/a/b.py\", line 3", "File \"b.py\", line 3"),
        ("/var/lib/edge-runtime/", "…"),
        ("Try again; /readyz tells when.", "Try again; /readyz tells when."),
        ("POST to /v1/audio/transcriptions", "POST to /v1/audio/transcriptions"),
        ("see https://example.org/a/b/c", "see https://example.org/a/b/c"),
        ("16/24/32 bits and/or a/b/c", "16/24/32 bits and/or a/b/c"),
    ],
)  # fmt: skip
def test_only_the_last_name_is_told(said, told):
    assert without_paths(said) == told


def test_of_errors_and_warnings():
    error = Error(code="device", message="/a/b/c failed", fix="Look at /d/e/f.")
    assert discreet(error) == Error(code="device", message="c failed", fix="Look at f.")
    warning = events.Warning(code="device", message="/a/b/c failed")
    assert discreet(warning) == events.Warning(code="device", message="c failed")
    closed = Closed(reason="stop", audio_seconds=1.0)
    assert discreet(closed) is closed
