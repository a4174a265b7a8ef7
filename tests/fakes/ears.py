"""A voice detector that goes by loudness, for tests whose store has none."""

from __future__ import annotations

import numpy as np

from edge_runtime.audio import FRAME


class Ears:
    """Loud is speech, at 0.95."""

    room = 1
    open = staticmethod(lambda: 0)
    close = staticmethod(lambda slot: None)

    @staticmethod
    def hear(slots, samples):
        return [
            [0.95 if np.abs(frame).max() > 0.1 else 0.02 for frame in each.reshape(-1, FRAME)]
            for each in samples
        ]
