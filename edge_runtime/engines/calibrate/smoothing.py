"""Factors that move what is hard to round from the activations into the weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.engines.calibrate.activation import constants_behind
from edge_runtime.engines.calibrate.observe import Seen
from edge_runtime.engines.calibrate.rewriting import Rewriting
from edge_runtime.engines.calibrate.scheme import TABLE
from edge_runtime.engines.calibrate.sites import as_matrix, sites

SHARE = 0.75
"""How much of the difference between channels the weights take over."""

LEAST = 2.0**-10
"""Of the middle factor: channels that hardly ever speak must not be blown up without end."""


class Channels:
    """The largest magnitude of each channel of what products read."""

    def __init__(self) -> None:
        self.largest: dict[str, NDArray[np.float32]] = {}

    def seen(self, name: str, array: NDArray[np.float32]) -> None:
        """Take in (rows, channels) of a product."""
        found = np.abs(array).max(axis=0)
        self.largest[name] = np.maximum(self.largest.get(name, np.float32(0)), found)


def factors(
    name: str, largest: NDArray[np.float32], weight: NDArray[np.float32], share: float = SHARE
) -> tuple[float, ...]:
    """Of each input channel of the product `name`: max|x|^share / max|w|^(1 - share).

    Their geometric mean is 1, channels without weights or signal have 1. Source: Xiao et al.
    2023, "SmoothQuant", equation 4.
    """
    matrix = weight.T if name == TABLE else as_matrix(weight)
    rows = np.abs(matrix).max(axis=1).reshape(-1, len(largest)).max(axis=0)
    live = (largest > 0) & (rows > 0)
    logs = np.zeros(len(largest))
    logs[live] = share * np.log(largest[live]) - (1 - share) * np.log(rows[live])
    logs[live] -= logs[live].mean()
    return tuple(np.maximum(np.exp(logs), LEAST).astype(np.float32).tolist())


def divided(seen: Seen, smooth: Mapping[str, Sequence[float]]) -> Seen:
    """`seen` told of activations over their factors, as they will be rounded."""

    def told(name: str, array: NDArray[np.float32]) -> None:
        parts = np.array(smooth.get(name) or [1.0], np.float32)
        seen(name, np.divide(array, parts, dtype=np.float32))

    return told


def absorbed(model: Any, weights: Mapping[str, NDArray[np.float32]]) -> set[str]:
    """The products of a graph whose factors cost nothing: the norm before them takes them."""
    graph = Rewriting(model, np.dtype(np.float32))
    return {
        site.name
        for site in sites(model)
        if site.kind != "lookup"
        and constants_behind(graph, site.activation, channels(site.name, weights[site.name]))
    }


def channels(name: str, weight: NDArray[np.float32]) -> int:
    """How many input channels a product has."""
    return int(weight.shape[1 if weight.ndim == 3 or name == TABLE else 0])
