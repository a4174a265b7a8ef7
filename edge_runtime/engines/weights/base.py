"""What a set of weights must hold: names and shapes, whatever form they travelled in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edge_runtime.engines.architecture import MoonshineArchitecture
from edge_runtime.errors import ModelDamaged

Weights = dict[str, NDArray[np.float32]]
Shapes = dict[str, tuple[int, ...]]

_AGAIN = "Run: edge-runtime pull MODEL --again"


def damaged(path: Path, what: str) -> ModelDamaged:
    """The error for a file of weights that does not hold what it should."""
    return ModelDamaged(f"{path}: {what}", _AGAIN)


def moonshine_shapes(shape: MoonshineArchitecture) -> Shapes:
    """Every tensor of a Moonshine model under its Hugging Face name; linear layers [out, in]."""
    width = shape.width
    first, second, third = shape.conv_channels
    kernels = shape.conv_kernels
    shapes: Shapes = {
        "model.encoder.conv1.weight": (first, 1, kernels[0]),
        "model.encoder.groupnorm.weight": (first,),
        "model.encoder.groupnorm.bias": (first,),
        "model.encoder.conv2.weight": (second, first, kernels[1]),
        "model.encoder.conv2.bias": (second,),
        "model.encoder.conv3.weight": (third, second, kernels[2]),
        "model.encoder.conv3.bias": (third,),
        "model.encoder.layer_norm.weight": (width,),
        "model.decoder.embed_tokens.weight": (shape.vocabulary, width),
        "model.decoder.norm.weight": (width,),
    }
    for layer in range(shape.encoder_layers):
        stem = f"model.encoder.layers.{layer}"
        shapes |= _attention(f"{stem}.self_attn", width)
        shapes |= _mlp(stem, width, shape.encoder_mlp, shape.encoder_mlp)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            shapes[f"{stem}.{norm}.weight"] = (width,)
    for layer in range(shape.decoder_layers):
        stem = f"model.decoder.layers.{layer}"
        shapes |= _attention(f"{stem}.self_attn", width)
        shapes |= _attention(f"{stem}.encoder_attn", width)
        # A gated layer computes the gate beside the value.
        shapes |= _mlp(stem, width, 2 * shape.decoder_mlp, shape.decoder_mlp)
        for norm in ("input_layernorm", "post_attention_layernorm", "final_layernorm"):
            shapes[f"{stem}.{norm}.weight"] = (width,)
    return shapes


def check(weights: Mapping[str, NDArray[np.float32]], shapes: Shapes, path: Path) -> None:
    """Raises `ModelDamaged` naming the first tensor that is missing, unknown or of a wrong shape.

    Numbers that are not finite count as damage: one of them silences the model.
    """
    for name, shape in shapes.items():
        if name not in weights:
            raise damaged(path, f"has no tensor {name}")
        found = weights[name]
        if found.shape != shape:
            raise damaged(path, f"{name} is {found.shape}, not {shape}")
        if not np.isfinite(found).all():
            raise damaged(path, f"{name} holds numbers that are not finite")
    unknown = weights.keys() - shapes.keys()
    if unknown:
        raise damaged(path, f"holds an unknown tensor {min(unknown)}")


def _attention(stem: str, width: int) -> Shapes:
    return {f"{stem}.{part}_proj.weight": (width, width) for part in "qkvo"}


def _mlp(stem: str, width: int, rise: int, fall: int) -> Shapes:
    return {
        f"{stem}.mlp.fc1.weight": (rise, width),
        f"{stem}.mlp.fc1.bias": (rise,),
        f"{stem}.mlp.fc2.weight": (width, fall),
        f"{stem}.mlp.fc2.bias": (width,),
    }
