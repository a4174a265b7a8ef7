"""How commands name a device, and say that another one is used."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

Name = Literal["auto", "tensorrt", "onnx-cuda", "onnx-tensorrt", "cpu"]
"""The names of `edge_runtime.device`, whose libraries `--help` does without."""

Device = Annotated[
    Name | None,
    typer.Option(help="What computes; any but auto is used or fails [as the settings have it]."),
]


def say_fallback(fallback: str | None) -> None:
    """One line on standard error where a device before the one that is used has failed."""
    if fallback is not None:
        typer.echo(f"fallback: {fallback}", err=True)
