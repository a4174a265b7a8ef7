"""A finding: one sentence on one thing, and where it is not fine why, and what mends it."""

from __future__ import annotations

from typing import Literal

import msgspec

Level = Literal["ok", "warning", "error"]


class Finding(msgspec.Struct, frozen=True):
    """`check` is the thing, in one word; `fix` a command, or a line that says what to do.

    An error is what does not work as it is set up, and what leaves a GPU unused. A warning is
    what works now and will not always, or not as well as it could.
    """

    check: str
    level: Level
    what: str
    why: str = ""
    fix: str = ""


def ok(check: str, what: str) -> Finding:
    """It is fine."""
    return Finding(check, "ok", what)


def warning(check: str, what: str, why: str, fix: str) -> Finding:
    """It works, for now or in part."""
    return Finding(check, "warning", what, why, fix)


def error(check: str, what: str, why: str, fix: str) -> Finding:
    """It does not work."""
    return Finding(check, "error", what, why, fix)
