"""The publisher's own graphs, driven as plainly as they can be: one clip, greedy, one thread."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from edge_runtime.audio.ring import Samples
from edge_runtime.decode.shape import ModelShape
from edge_runtime.decode.tokens import Vocabulary

LIMIT = 112
"""The most tokens of a text, as ours."""


class Published:
    """`encoder_model.ort` and `decoder_model_merged.ort` of a folder."""

    def __init__(self, folder: Path, shape: ModelShape, vocabulary: Vocabulary) -> None:
        self._encoder, self._decoder = (
            _session(folder / f"{name}.ort") for name in ("encoder_model", "decoder_model_merged")
        )
        self._shape, self._vocabulary = shape, vocabulary
        self._names = [each.name for each in self._decoder.get_outputs()]
        self._past = [
            (each.name, each.shape)
            for each in self._decoder.get_inputs()
            if each.name.startswith("past")
        ]

    def __call__(self, samples: Samples) -> str:
        """The text of (n,) float32 samples at 16 kHz."""
        heard = self._heard(samples)
        tokens = [self._shape.begin]
        found = self._first(heard, tokens)
        past = self._kept(found, {})
        while len(tokens) <= LIMIT:
            tokens.append(int(found["logits"][0, -1].argmax()))
            if tokens[-1] == self._shape.end:
                break
            found = self._next(heard, tokens[-1], past)
            past = self._kept(found, past)
        return self._vocabulary.text([token for token in tokens[1:] if token != self._shape.end])

    def calls(self, samples: Samples, drafted: int) -> tuple[Callable[[], object], ...]:
        """What encodes, checks a draft of so many tokens, and steps once behind it."""
        heard = self._heard(samples)
        draft = [3 + number for number in range(drafted)]
        past = self._kept(self._first(heard, draft), {})
        return (
            lambda: self._heard(samples),
            lambda: self._first(heard, draft),
            lambda: self._next(heard, 5, past),
        )

    def _heard(self, samples: Samples) -> dict[str, Any]:
        mask = np.ones((1, len(samples)), np.int64)
        feeds = {"input_values": samples[None], "attention_mask": mask}
        (hidden,) = self._encoder.run(None, feeds)
        return {"encoder_hidden_states": hidden, "encoder_attention_mask": mask}

    def _first(self, heard: dict[str, Any], tokens: list[int]) -> dict[str, Any]:
        shape = (1, self._shape.heads, 0, self._past[0][1][3])
        empty = {name: np.zeros(shape, np.float32) for name, _ in self._past}
        return self._run(heard, tokens, empty, cached=False)

    def _next(self, heard: dict[str, Any], token: int, past: dict[str, Any]) -> dict[str, Any]:
        return self._run(heard, [token], past, cached=True)

    def _run(
        self, heard: dict[str, Any], tokens: list[int], past: dict[str, Any], *, cached: bool
    ) -> dict[str, Any]:
        feeds = {
            **heard,
            **past,
            "input_ids": np.array([tokens], np.int64),
            "use_cache_branch": np.array([cached]),
        }
        return dict(zip(self._names, self._decoder.run(None, feeds), strict=True))

    def _kept(self, found: dict[str, Any], past: dict[str, Any]) -> dict[str, Any]:
        """Keys and values so far; those of the audio stay what the first pass gave."""
        return {
            name: past[name]
            if past and ".encoder." in name
            else found[name.replace("past_key_values", "present")]
            for name, _ in self._past
        }


def _session(path: Path) -> Any:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.enable_mem_pattern = False
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
