"""The command line with a device that hangs: `python -m injection.hanging N serve …`.

The lane that gets the Nth piece of work never comes through with it.
"""

from __future__ import annotations

import itertools
import sys
import threading
from typing import Any
from unittest.mock import patch

from edge_runtime.cli import main
from edge_runtime.decode.lane import Lane
from edge_runtime.runtime.engine import Engine

if __name__ == "__main__":
    pieces = itertools.count(1)
    nth = int(sys.argv.pop(1))
    armed = threading.Event()
    submit, answers = Engine.submit, Lane.answers

    def counted(self: Engine, work: Any) -> None:
        """One piece more."""
        if next(pieces) == nth:
            armed.set()
        submit(self, work)

    def hung(self: Lane, *given: Any, **named: Any) -> Any:
        """Never comes back, once."""
        if armed.is_set():
            armed.clear()
            print("injected: a lane hangs", file=sys.stderr, flush=True)
            threading.Event().wait()
        return answers(self, *given, **named)

    with patch.object(Engine, "submit", counted), patch.object(Lane, "answers", hung):
        main()
