"""Any sample rate to 16 kHz, as a stream: the same samples whatever the sizes of the pieces."""

from __future__ import annotations

from typing import Any

import numpy as np
import soxr

from edge_runtime.audio import RATE
from edge_runtime.audio.ring import Samples
from edge_runtime.errors import AudioError

RATE_MIN = 8_000
RATE_MAX = 192_000
"""The sample rates that can be converted, in samples per second."""

_NOTHING = np.zeros(0, np.float32)


class Resampler:
    """Mono float32 at `rate` to mono float32 at 16 kHz (soxr, HQ).

    The filter holds back up to about 40 ms (115 ms at 8 kHz), in bursts; `flush` gives the rest,
    so that output sample n belongs to the time of input sample n × rate / 16000.
    """

    def __init__(self, rate: int) -> None:
        """Raises `AudioError` for a rate outside 8000 to 192000."""
        if not RATE_MIN <= rate <= RATE_MAX:
            raise AudioError(
                f"a sample rate of {rate} Hz is not supported",
                f"Convert to a rate from {RATE_MIN} to {RATE_MAX} Hz, best {RATE}.",
            )
        # None: nothing to convert.
        self._stream: Any = None
        if rate != RATE:
            self._stream = soxr.ResampleStream(rate, RATE, 1, "float32", "HQ")

    def push(self, samples: Samples) -> Samples:
        """What can be said after these samples (n,), of any number."""
        if self._stream is None:
            return samples
        result: Samples = self._stream.resample_chunk(samples)
        return result

    def flush(self) -> Samples:
        """What was held back; the next `push` begins a new stream."""
        if self._stream is None:
            return _NOTHING
        result: Samples = self._stream.resample_chunk(_NOTHING, last=True)
        self._stream.clear()
        return result
