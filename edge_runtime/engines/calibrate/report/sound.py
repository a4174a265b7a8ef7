"""Clips to play inside a page: FLAC in data addresses, up to a size."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence

import soundfile

from edge_runtime.audio import RATE
from edge_runtime.audio.ring import Samples

LARGEST = 4_000_000
"""Characters of all clips together: a page that opens on a phone."""


def addresses(
    names: Sequence[str], sounds: Mapping[str, Samples], largest: int = LARGEST
) -> dict[str, str]:
    """A `data:` address for each name whose (n,) samples at 16 kHz are there and still fit.

    The first names come first; one that is too long does not keep a later one out.
    """
    found: dict[str, str] = {}
    room = largest
    for name in names:
        if name not in sounds:
            continue
        file = io.BytesIO()
        soundfile.write(file, sounds[name], RATE, format="FLAC", subtype="PCM_16")
        address = "data:audio/flac;base64," + base64.b64encode(file.getvalue()).decode()
        if len(address) <= room:
            room -= len(address)
            found[name] = address
    return found
