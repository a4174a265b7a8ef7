"""The command, its server's own limits stretched: for a processor that is emulated."""

from __future__ import annotations

from edge_runtime.cli import main
from edge_runtime.server import base, deadline

TIMES = 50

deadline.SECONDS *= TIMES
base.Limits.__init__.__defaults__ = tuple(
    TIMES * each if isinstance(each, float) else each
    for each in base.Limits.__init__.__defaults__ or ()
)

main()
