"""One lane of a model with a growing memory: its stream of the device, its buffers, its calls."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edge_runtime.decode.graphs import Graphs
from edge_runtime.decode.growing.chain import Front, GrowingChain, Memory
from edge_runtime.decode.mirror import Mirror
from edge_runtime.device.base import Buffer, Samples


class GrowingLane:
    """Calls are bound as they come: hardly two of them have memories of the same length."""

    def __init__(self, chain: GrowingChain, samples: int) -> None:
        self.chain = chain
        device, shape = chain.device, chain.shape
        self.stream = device.stream()
        self.graphs = Graphs(device, self.stream, 1)
        self.padding = {"samples": (0, 0), "queries": (0, 0)}
        vectors = chain.vectors(samples)
        queries = shape.past + 1
        self.audio = device.alloc((shape.chunk,), np.float32)
        self.fronts = (Front(device, shape), Front(device, shape))
        self.memory = Memory(device, shape, vectors)
        self._encoded = device.alloc((vectors * shape.encoder_dim,), np.float32)
        self._adapted = device.alloc((vectors * shape.decoder_dim,), np.float32)
        self._fresh = Memory(device, shape, vectors)
        self._offset = Mirror(device, (1,), np.int64, "length")
        self._tokens = Mirror(device, (queries,), np.int64, "tokens")
        self._keep = Mirror(device, (1,), np.int64, "tokens")
        self._caches = (Memory(device, shape, queries), Memory(device, shape, queries))
        self._turn = 0
        self._logits = device.alloc((queries * shape.vocabulary,), np.float32)
        self._answers = {
            "next_token": Mirror(device, (queries,), np.int64, "results"),
            "logprob": Mirror(device, (queries,), np.float32, "results"),
            "margin": Mirror(device, (queries,), np.float32, "results"),
        }

    def choose(self) -> None:
        """There is one way of doing it."""

    def _call(self, part: str, bindings: dict[str, Buffer]) -> None:
        self.chain.parts[part].bind(bindings, self.stream)()

    def take_in(
        self, pieces: Sequence[Samples], source: Front, target: Front, features: Buffer
    ) -> None:
        """A chunk of audio through the front end, zeros behind what there is of it.

        `features` (n, encoder_dim) is where what comes of it goes.
        """
        self.chain.device.stage(list(pieces), self.audio, self.stream)
        self._call(
            "frontend",
            {
                "audio_chunk": self.audio.view((1, self.chain.shape.chunk)),
                "features": features.view((1, *features.shape)),
                **source.buffers,
                **{f"{name}_out": buffer for name, buffer in target.buffers.items()},
            },
        )

    def encode(self, window: Buffer, new: range, at: int) -> dict[str, Buffer]:
        """Keys and values of the vectors `new` of a window (n, encoder_dim) of features.

        The first of them is vector `at` of the stream.
        """
        shape = self.chain.shape
        length, width, count = window.shape[0], shape.encoder_dim, len(new)
        encoded = self._encoded.view((1, length, width))
        self._call("encoder", {"features": window.view((1, length, width)), "encoded": encoded})
        self._offset.host.host[0] = at
        self._offset.send(self.stream, 1)
        memory = self._adapted.view((1, count, shape.decoder_dim))
        self._call(
            "adapter",
            {
                "encoded": self._encoded.view((1, count, width), new.start * width),
                "pos_offset": self._offset.there,
                "memory": memory,
            },
        )
        fresh = self._fresh.view(count)
        self._call("cross_kv", {"memory": memory, "k_cross": fresh["k"], "v_cross": fresh["v"]})
        # The host writes the next offset: this one must have been read.
        self.stream.synchronize()
        return fresh

    def append(self, source: Memory, length: int, fresh: dict[str, Buffer], target: Memory) -> None:
        """What is in `source`, and `fresh` behind it, into `target`."""
        count = fresh["k"].shape[3]
        if not length:
            for name, buffer in target.view(count).items():
                self.chain.device.copy(fresh[name], buffer, self.stream, "state")
            return
        bindings = source.view(length)
        bindings |= {f"{name}_new": buffer for name, buffer in fresh.items()}
        joined = target.view(length + count)
        bindings |= {f"{name}_next": buffer for name, buffer in joined.items()}
        self._call("append", bindings)

    def decode(
        self, tokens: Sequence[int], position: int, memory: Memory, length: int
    ) -> dict[str, NDArray[np.generic]]:
        """What follows each of `tokens`, the first of which is token `position` of the text."""
        shape, count = self.chain.shape, len(tokens)
        self._tokens.host.host[:count] = tokens
        self._tokens.send(self.stream, count)
        before = self._caches[self._turn].view(position)
        after = self._caches[1 - self._turn].view(position + count)
        cross = memory.view(length)
        logits = self._logits.view((1, count, shape.vocabulary))
        self._call(
            "decoder_kv",
            {
                "token": self._tokens.there.view((1, count)),
                "k_self": before["k"],
                "v_self": before["v"],
                "out_k_cross": cross["k"],
                "out_v_cross": cross["v"],
                "logits": logits,
                "out_k_self": after["k"],
                "out_v_self": after["v"],
            },
        )
        told = {name: each.there.view((1, count)) for name, each in self._answers.items()}
        self._call("choose", {"logits": logits, **told})
        for each in self._answers.values():
            each.fetch(self.stream, count)
        self._turn = 1 - self._turn
        self.stream.synchronize()
        return {name: each.host.host[:count] for name, each in self._answers.items()}

    def keep(self, position: int, length: int) -> None:
        """Of the `length` tokens in the cache only the first `position` were true."""
        if position == length:
            return
        self._keep.host.host[0] = position
        self._keep.send(self.stream, 1)
        bindings: dict[str, Buffer] = {"keep": self._keep.there}
        bindings |= self._caches[self._turn].view(length)
        kept = self._caches[1 - self._turn].view(position)
        bindings |= {f"{name}_next": buffer for name, buffer in kept.items()}
        self._call("cut", bindings)
        self._turn = 1 - self._turn
