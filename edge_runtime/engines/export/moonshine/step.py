"""The decoder's weights for the kernels of single steps, in the layout of the tiles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from edge_runtime.device.kernels import archive
from edge_runtime.device.step.spec import FILE, StepSpec
from edge_runtime.engines.export.moonshine import blocks
from edge_runtime.engines.export.moonshine.blocks import Weights
from edge_runtime.engines.recipe import MoonshineRecipe


def write(recipe: MoonshineRecipe, weights: Weights, folder: Path, dtype: Any) -> None:
    """Write `step.npz` into `folder`: matrices and biases in `dtype`, norms in float32."""
    shape = recipe.architecture
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for layer in range(shape.decoder_layers):
        name = f"model.decoder.layers.{layer}."
        norms = {
            "self_norm": "input_layernorm",
            "cross_norm": "post_attention_layernorm",
            "mlp_norm": "final_layernorm",
        }
        matrices = {
            "qkv": blocks.qkv_weight(recipe, weights, name + "self_attn"),
            "self_out": blocks.out_weight(recipe, weights, name + "self_attn"),
            "query": blocks.query_weight(recipe, weights, name + "encoder_attn"),
            "cross_out": blocks.out_weight(recipe, weights, name + "encoder_attn"),
            "fc1": weights[name + "mlp.fc1.weight"].T,
            "fc1_bias": weights[name + "mlp.fc1.bias"],
            "fc2": weights[name + "mlp.fc2.weight"].T,
            "fc2_bias": weights[name + "mlp.fc2.bias"],
        }
        for kind, norm in norms.items():
            arrays[f"{layer}.{kind}"] = np.asarray(weights[f"{name}{norm}.weight"], np.float32)
        for kind, matrix in matrices.items():
            arrays[f"{layer}.{kind}"] = np.ascontiguousarray(matrix, dtype)
    arrays["norm"] = np.asarray(weights["model.decoder.norm.weight"], np.float32)
    spec = StepSpec(
        layers=shape.decoder_layers,
        width=shape.width,
        heads=shape.heads,
        head_dim=shape.padded_head_dim,
        rotary=shape.rotary,
        inner=shape.decoder_mlp,
        past=shape.past,
        vocabulary=shape.vocabulary,
        theta=shape.theta,
        epsilon=shape.norm_epsilon,
        alignment_heads=recipe.alignment_heads,
    )
    archive.save(folder / FILE, spec, arrays)
