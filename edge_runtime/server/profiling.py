"""Profiles of our own code for a Pyroscope that the settings name, as long as a server lives."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import threading
from collections.abc import Iterator

from edge_runtime import __version__
from edge_runtime.config import Telemetry
from edge_runtime.errors import MissingExtra

_log = logging.getLogger(__name__)

EVERY = 10
"""Seconds between two profiles that are sent."""

LAST = 2.0
"""Seconds that the end of a server waits for the last one."""


@contextlib.contextmanager
def profiled(telemetry: Telemetry) -> Iterator[None]:
    """Send which functions take the processor's time inside, or nothing where nobody is named.

    A thread that is no Python samples all of ours, and sends: what a Pyroscope does not take is
    lost, and nobody waits for it. Raises `MissingExtra`.
    """
    if not telemetry.pyroscope_server:
        yield
        return
    if importlib.util.find_spec("pyroscope") is None:
        raise MissingExtra(
            "the agent of Pyroscope is not installed", "Run: pip install 'edge-runtime[pyroscope]'"
        )
    import pyroscope

    begun = pyroscope.configure(
        application_name="edge-runtime",
        server_address=telemetry.pyroscope_server,
        # threads of the engine compute without the interpreter's lock
        gil_only=False,
        report_thread_name=True,
        upload_interval=EVERY,
        tags={"version": __version__},
    )
    if not begun:
        _log.warning("no profiles are sent: the agent of Pyroscope did not begin")
    try:
        yield
    finally:
        last = threading.Thread(target=pyroscope.shutdown, name="pyroscope-end", daemon=True)
        last.start()
        last.join(LAST)
