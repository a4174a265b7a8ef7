"""Calibrated models under `edge-runtime engines`: told among engines, promoted, rolled back."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from edge_runtime.device.cuda import present
from edge_runtime.engines import choice, variants
from edge_runtime.engines.engine import engines as stored
from edge_runtime.engines.store import Store
from edge_runtime.engines.variant import INT8, Variant
from edge_runtime.errors import EngineMismatch, ModelDamaged, ModelMissing

_Model = Annotated[str, typer.Argument(metavar="MODEL", help="Name of a model.")]
_Json = Annotated[bool, typer.Option("--json", help="Write one line of JSON.")]
SERVED = "systemctl restart edge-runtime, or start edge-runtime serve again"


def promote(
    model: _Model,
    fingerprint: Annotated[
        str | None,
        typer.Argument(metavar="FP", help="How its fingerprint begins [the one on trial]."),
    ] = None,
    as_json: _Json = False,
) -> None:
    """Make a calibrated model the one that serves, from the server's next start on."""
    store = Store()
    variant = variants.promote(store, model, fingerprint)
    name = variant.folder.name
    missing = present() and not any(
        engine.info.scheme == variant.info.scheme for engine in stored(store, model)
    )
    steps = [f"edge-runtime build {model} --precision {INT8}"] if missing else []
    if as_json:
        typer.echo(msgspec.json.encode({**row(store, variant), "next": [*steps, SERVED]}))
        return
    typer.echo(f"{model}: {name} is active")
    if variant.info.forced:
        typer.echo("its gate refused it, it was forced: /healthz says so, too", err=True)
    typer.echo(f"Next: {', then '.join([*steps, SERVED])}")


def rollback(model: _Model, as_json: _Json = False) -> None:
    """Go back to what served before, at last to the model in full precision."""
    store = Store()
    was = variants.rollback(store, model)
    if as_json:
        typer.echo(msgspec.json.encode({"model": model, "active": was, "next": [SERVED]}))
        return
    typer.echo(f"{model}: {was or 'full precision'} is active again")
    typer.echo(f"Next: {SERVED}")


def row(store: Store, variant: Variant) -> dict[str, Any]:
    """What `engines list --json` tells of it."""
    return {
        "model": variant.info.model,
        "fingerprint": variant.folder.name,
        "folder": str(variant.folder),
        "bytes": variant.size,
        "state": state(store, variant),
        "variant": variant.info,
    }


def state(store: Store, variant: Variant) -> str:
    """Whether it serves, and what speaks against it."""
    model = variant.folder.parent.name
    try:
        said = choice.read(store, model).state(variant.folder.name)
        variants.usable(store, variants.recipe(variant), variant.folder.name)
    except (EngineMismatch, ModelDamaged, ModelMissing) as error:
        said = f"of no use: {error.message}"
    return f"{said}, forced" if variant.info.forced else said


def serves(store: Store, variant: Variant) -> bool:
    """Whether it is the active one."""
    return choice.read(store, variant.folder.parent.name).active == variant.folder.name


def told(row: dict[str, Any]) -> str:
    """The same for people."""
    info = row["variant"]
    judged = "not judged"
    if info.wer_increase is not None:
        judged = f"WER {info.wer_increase:+.2f} points over {info.words:,} words"
    return f"calibrated, {info.precision}, {judged}, {row['bytes'] / 1e6:.0f} MB\n{row['state']}"
