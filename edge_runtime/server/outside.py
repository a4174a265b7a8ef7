"""What leaves for clients: without the paths of this machine's file system."""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

from edge_runtime import events
from edge_runtime.events import Error

Record = TypeVar("Record")

# Two names at least, so that /readyz stays; not within a URL, a word or a fraction; the paths
# that clients call are no secret.
_PATH = re.compile(r"(?<![\w.:/])~?/(?!v\d+/)(?:[^\s/'\",;:()]+/)+([^\s/'\",;:()]*)")


def without_paths(text: str) -> str:
    """`text` with only the last name of every absolute path."""
    return _PATH.sub(lambda found: found[1] or "…", text)


def discreet(record: Record) -> Record:
    """An error or a warning without paths; everything else as it is."""
    if isinstance(record, Error):
        message, fix = without_paths(record.message), without_paths(record.fix)
        return msgspec.structs.replace(record, message=message, fix=fix)
    if isinstance(record, events.Warning):
        return msgspec.structs.replace(record, message=without_paths(record.message))
    return record
