"""The tensors of a Whisper model."""

from __future__ import annotations

from edge_runtime.engines.architecture import WhisperArchitecture
from edge_runtime.engines.weights.base import Shapes


def whisper_shapes(shape: WhisperArchitecture) -> Shapes:
    """Every tensor under its Hugging Face name; linear layers [out, in]."""
    width = shape.width
    shapes: Shapes = {
        "model.encoder.conv1.weight": (width, shape.mel_bins, 3),
        "model.encoder.conv1.bias": (width,),
        "model.encoder.conv2.weight": (width, width, 3),
        "model.encoder.conv2.bias": (width,),
        "model.encoder.embed_positions.weight": (shape.context, width),
        "model.decoder.embed_tokens.weight": (shape.tokens, width),
        "model.decoder.embed_positions.weight": (shape.positions, width),
    }
    for half, layers, inner in (
        ("encoder", shape.encoder_layers, shape.encoder_mlp),
        ("decoder", shape.decoder_layers, shape.decoder_mlp),
    ):
        shapes |= _norm(f"model.{half}.layer_norm", width)
        attentions = ("self_attn", "encoder_attn") if half == "decoder" else ("self_attn",)
        for layer in range(layers):
            stem = f"model.{half}.layers.{layer}"
            for attention in attentions:
                shapes |= _attention(f"{stem}.{attention}", width)
                shapes |= _norm(f"{stem}.{attention}_layer_norm", width)
            shapes |= _linear(f"{stem}.fc1", width, inner)
            shapes |= _linear(f"{stem}.fc2", inner, width)
            shapes |= _norm(f"{stem}.final_layer_norm", width)
    return shapes


def _norm(name: str, width: int) -> Shapes:
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def _linear(name: str, rise: int, fall: int) -> Shapes:
    return {f"{name}.weight": (fall, rise), f"{name}.bias": (fall,)}


def _attention(name: str, width: int) -> Shapes:
    made: Shapes = {f"{name}.k_proj.weight": (width, width)}
    for part in ("q", "v", "out"):
        made |= _linear(f"{name}.{part}_proj", width, width)
    return made
