"""How commands name a device, and say that another one is used."""

from __future__ import annotations

import typer

DEVICES = "auto, tensorrt, onnx-cuda, onnx-tensorrt or cpu; any but auto is used or fails."


def say_fallback(fallback: str | None) -> None:
    """One line on standard error where a device before the one that is used has failed."""
    if fallback is not None:
        typer.echo(f"fallback: {fallback}", err=True)
