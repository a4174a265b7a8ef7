"""The encoder's weights for the kernels that stand in for its plan, in the layout of the tile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.device.encode.spec import FILE, EncodeSpec
from edge_runtime.device.kernels import archive
from edge_runtime.engines.export.moonshine import blocks
from edge_runtime.engines.export.moonshine.blocks import Weights
from edge_runtime.engines.export.moonshine.encoder import cross_weight
from edge_runtime.engines.recipe import MoonshineRecipe


def write(recipe: MoonshineRecipe, weights: Weights, folder: Path) -> None:
    """Write `encode.npz` into `folder`: matrices in float16, norms and biases in float32."""
    dims = recipe.architecture
    spec = EncodeSpec(
        layers=dims.encoder_layers,
        width=dims.width,
        heads=dims.heads,
        head_dim=dims.padded_head_dim,
        rotary=dims.rotary,
        inner=dims.encoder_mlp,
        channels=dims.conv_channels,
        kernels=dims.conv_kernels,
        strides=dims.conv_strides,
        memories=dims.decoder_layers,
        theta=dims.theta,
        epsilon=dims.norm_epsilon,
    )
    arrays = _front_end(weights, spec)
    for layer in range(spec.layers):
        arrays |= _layer(recipe, weights, layer)
    arrays["norm"] = _wide(weights["model.encoder.layer_norm.weight"])
    arrays["memory"] = _narrow(cross_weight(recipe, weights))
    archive.save(folder / FILE, spec, arrays)


def _front_end(weights: Weights, spec: EncodeSpec) -> archive.Arrays:
    """The convolutions as matrices; the second with the norm before it in its weights."""
    name = "model.encoder."
    scale, shift = weights[name + "groupnorm.weight"], weights[name + "groupnorm.bias"]
    kernel = weights[name + "conv2.weight"]
    second = _narrow(_matrix(kernel * scale[None, :, None], spec.depths[1]))
    return {
        "conv1": _narrow(_matrix(weights[name + "conv1.weight"], spec.depths[0])),
        "conv2": second,
        # Of what is multiplied, as it was rounded: the mean must vanish.
        "conv2_sums": second.astype(np.float64).sum(0).astype(np.float32),
        "conv2_bias": _wide(
            np.einsum("ock,c->o", kernel.astype(np.float64), shift) + weights[name + "conv2.bias"]
        ),
        "conv3": _narrow(_matrix(weights[name + "conv3.weight"], spec.depths[2])),
        "conv3_bias": _wide(weights[name + "conv3.bias"]),
    }


def _layer(recipe: MoonshineRecipe, weights: Weights, layer: int) -> archive.Arrays:
    name = f"model.encoder.layers.{layer}."
    return {
        f"{layer}.mix_norm": _wide(weights[name + "input_layernorm.weight"]),
        f"{layer}.qkv": _narrow(blocks.qkv_weight(recipe, weights, name + "self_attn")),
        f"{layer}.mix_out": _narrow(blocks.out_weight(recipe, weights, name + "self_attn")),
        f"{layer}.mlp_norm": _wide(weights[name + "post_attention_layernorm.weight"]),
        f"{layer}.fc1": _narrow(weights[name + "mlp.fc1.weight"].T),
        f"{layer}.fc1_bias": _wide(weights[name + "mlp.fc1.bias"]),
        f"{layer}.fc2": _narrow(weights[name + "mlp.fc2.weight"].T),
        f"{layer}.fc2_bias": _wide(weights[name + "mlp.fc2.bias"]),
    }


def _matrix(kernel: NDArray[np.float32], depth: int) -> NDArray[np.float32]:
    """A convolution's (out, in, positions) as (positions · in, out), zeros up to `depth` rows."""
    out, channels, positions = kernel.shape
    made = np.zeros((depth, out), np.float32)
    made[: positions * channels] = kernel.transpose(2, 1, 0).reshape(-1, out)
    return made


def _narrow(array: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(array, np.float16)


def _wide(array: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(array, np.float32)
