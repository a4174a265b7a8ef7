"""What goes into every product of a model while it listens to clips."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from edge_runtime.decode.shape import ModelShape
from edge_runtime.engines.calibrate.sites import Site, sites

Seen = Callable[[str, NDArray[np.float32]], None]
"""Told the name of a product and what it reads, (rows, channels), of one clip."""


class Observer:
    """The float32 tiles of a model in onnxruntime, with the activations of all products."""

    def __init__(
        self, graphs: Mapping[str, Any], table: NDArray[np.float32], shape: ModelShape,
        threads: int = 1,
    ) -> None:  # fmt: skip
        """`graphs` are the tiles by name: `encoder`, `embedding`, `layers_…`."""
        self._table = table
        self._shape = shape
        names = [f"layers_{layers.start}_{layers.stop}" for layers in shape.tiles]
        self._encoder = _Exposed(graphs["encoder"], threads)
        self._embedding = _Exposed(graphs["embedding"], threads)
        self._tiles = [_Exposed(graphs[name], threads) for name in names]

    def __call__(self, samples: NDArray[np.float32], tokens: Sequence[int], seen: Seen) -> None:
        """Run (n,) `samples` at 16 kHz and, in one pass, the text `tokens` they are known to say.

        The begin mark goes first; more tokens than a pass takes are left out.
        """
        shape = self._shape
        count = np.array([len(samples)], np.int64)
        values = self._encoder.run({"audio": samples[None], "length": count}, seen)
        fed = [*shape.opening(), *tokens][: shape.widest]
        values["position"] = np.zeros(1, np.int64)
        values["tokens"] = np.array([fed], np.int64)
        values |= self._embedding.run({**values, "table": self._table}, seen)
        size = (1, shape.heads, shape.past, shape.padded_head_dim)
        empty = np.zeros(size, np.float32)
        for tile in self._tiles:
            past = {name: empty for name in tile.inputs if name.startswith("past_")}
            given = tile.run({**values, "table": self._table, **past}, seen)
            values |= {name.replace("_next", ""): value for name, value in given.items()
                       if name == "hidden_next"}  # fmt: skip
            if "align_next" in given:
                values["align_past"] = given["align_next"]


class _Exposed:
    """A session of a graph that also gives what its products read."""

    def __init__(self, model: Any, threads: int) -> None:
        import onnxruntime as ort

        exposed = onnx.ModelProto()
        exposed.CopyFrom(model)
        self._sites: list[Site] = [site for site in sites(exposed) if site.kind != "lookup"]
        kind = onnx.TensorProto.FLOAT
        known = {value.name for value in (*exposed.graph.output, *exposed.graph.input)}
        for name in {site.activation: None for site in self._sites}:
            if name not in known:
                exposed.graph.output.append(onnx.helper.make_tensor_value_info(name, kind, None))
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.enable_mem_pattern = False
        options.log_severity_level = 3
        self._session = ort.InferenceSession(
            exposed.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        self.inputs = [each.name for each in self._session.get_inputs()]
        self._outputs = [each.name for each in self._session.get_outputs()]

    def run(self, values: Mapping[str, Any], seen: Seen) -> dict[str, NDArray[Any]]:
        fed = {name: values[name] for name in self.inputs}
        given = dict(zip(self._outputs, self._session.run(None, fed), strict=True))
        for site in self._sites:
            array = given.get(site.activation)
            array = fed[site.activation] if array is None else array
            rows = np.moveaxis(array, site.channels_axis, -1)
            seen(site.name, rows.reshape(-1, rows.shape[-1]))
        return given
