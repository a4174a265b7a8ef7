"""Probes that hung or took their process with them."""

from __future__ import annotations

from collections.abc import Iterator

from edge_runtime.doctor.base import Finding, error
from edge_runtime.doctor.facts import Facts

_FIXES = {
    "tensorrt": "python3 -X faulthandler -c 'import tensorrt'",
    "pycuda": "pip uninstall pycuda (it is optional), or compile it again",
    "onnxruntime": "python3 -X faulthandler -c 'import onnxruntime'",
    "card": "sudo journalctl -k -g 'NVRM|nvgpu', then start the machine again",
    "store": "ls -l the store's folder; if it hangs, too, its disk or network is gone: df -h",
    "settings": "cat the settings file; if it hangs, too, its disk or network is gone: df -h",
    "inputs": "arecord -l; restart the sound server: systemctl --user restart pipewire",
}


def unended(facts: Facts) -> Iterator[Finding]:
    """Each is an error: what it was to look at would stop the server as well."""
    for name, trouble in facts.troubles.items():
        yield error(
            name,
            f"looking at {name} {trouble}",
            "The same would stop the server; nothing more is known of it.",
            _FIXES.get(name, "df -h, to see whether a disk or a network folder is gone"),
        )
