"""Which system is played to."""

from __future__ import annotations

import sys

from peering.player import serve


def main(arguments: list[str]) -> int:
    """Play to the system that is named; the exit code."""
    if arguments[:1] == ["faster-whisper"] and len(arguments) > 1:
        from peering.whisper import Whisper

        serve(Whisper(arguments[1:]))
        return 0
    if arguments == ["pocketsphinx"]:
        from peering.sphinx import Sphinx

        serve(Sphinx())
        return 0
    print("usage: peer faster-whisper FOLDER|PACKAGE…, or peer pocketsphinx", file=sys.stderr)
    return 2
