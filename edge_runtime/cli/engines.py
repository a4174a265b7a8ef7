"""`edge-runtime engines`: what was built or calibrated; checked, removed, carried, promoted."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from edge_runtime.cli import variants
from edge_runtime.cli.options import group
from edge_runtime.config import load
from edge_runtime.engines import bundle
from edge_runtime.engines.board import Board, board
from edge_runtime.engines.engine import Engine
from edge_runtime.engines.engine import engines as stored
from edge_runtime.engines.plans import unlike_here
from edge_runtime.engines.store import Store
from edge_runtime.engines.variant import INT8, Variant
from edge_runtime.engines.variants import remove as forget
from edge_runtime.engines.variants import variants as calibrated
from edge_runtime.errors import ConfigError, ModelDamaged, ModelMissing

EXAMPLES = """\
edge-runtime engines list                                    what there is, and what serves here
edge-runtime engines verify                                  are all files as they were built?
edge-runtime engines export moonshine-tiny-en -o tiny.tar    for another board of this kind
edge-runtime engines import tiny.tar
edge-runtime engines promote moonshine-tiny-en               let the candidate serve
edge-runtime engines rollback moonshine-tiny-en              what served before, again"""

engines = group("List, check, remove, export and import engines; promote what was calibrated.")

_Model = Annotated[str, typer.Argument(metavar="MODEL", help="Name of a model.")]
_Some = Annotated[
    str | None, typer.Argument(metavar="MODEL", help="Only the engines of this model.")
]
_Fingerprint = Annotated[
    str | None,
    typer.Option("--engine", metavar="FP", help="Its fingerprint, or how that begins."),
]
_Json = Annotated[bool, typer.Option("--json", help="Write JSON, one line an engine.")]
_Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Settings, for which GPU [/etc/edge-runtime/config.toml, if there].",
    ),
]
_Kept = TypeVar("_Kept", bound=Engine | Variant)
SHORT = 8
"""Digits of a fingerprint that tell one engine from another."""


@engines.command("list")
def listing(model: _Some = None, as_json: _Json = False, config: _Config = None) -> None:
    """Show what was built, and whether it serves on this machine."""
    store, here = Store(), board(load(config).computing.index)
    rows = [variants.row(store, variant) for variant in calibrated(store, model or "*")]
    rows += [_row(store, engine, here) for engine in stored(store, model or "*")]
    if as_json:
        for row in rows:
            typer.echo(msgspec.json.encode(row))
        return
    if not rows:
        _nothing(store, model)
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("model", "name"):
        table.add_column(heading, no_wrap=True)
    table.add_column("what it is, and whether it serves here", overflow="fold")
    for row in rows:
        table.add_row(row["model"], row["fingerprint"][:SHORT], Text(_told(row)))
    console = Console()
    console.print(table)
    console.print(f"Store: {store.root}", highlight=False, soft_wrap=True)


def _row(store: Store, engine: Engine, here: Board) -> dict[str, Any]:
    return {
        "model": engine.info.model,
        "fingerprint": engine.folder.name,
        "folder": str(engine.folder),
        "bytes": engine.size,
        "state": _state(store, engine, here),
        "engine": engine.info,
    }


def _state(store: Store, engine: Engine, here: Board) -> str:
    """`usable here`, or why not."""
    try:
        engine.check()
        unlike = unlike_here(store, engine, here)
    except ModelDamaged as error:
        return f"damaged: {error.message}"
    if unlike:
        return f"not here: {', '.join(map(str, unlike))}"
    return "usable here" if here.capability else "whole; no GPU here"


def _told(row: dict[str, Any]) -> str:
    if "variant" in row:
        return variants.told(row)
    info = row["engine"]
    what = (
        f"{info.tensorrt} {info.version}",
        info.precision,
        f"GPU {' '.join(info.target)}",
        f"layers {'+'.join(map(str, info.split))}",
        f"{row['bytes'] / 1e6:.0f} MB",
        info.built[:16].replace("T", " "),
    )
    return f"{', '.join(what)}\n{row['state']}"


def _nothing(store: Store, model: str | None) -> None:
    """Say that there is no engine of the model, or none at all, and what helps."""
    of = f" of {model}" if model else ""
    typer.echo(f"no engines{of} in {store.root}{_others(store)}")
    typer.echo(f"Next: edge-runtime build {model or 'moonshine-tiny-en'}")


def _others(store: Store) -> str:
    """Of which models there are engines, as the end of a sentence."""
    models = sorted({engine.info.model for engine in stored(store)})
    return f", which has engines of {', '.join(models)}" if models else ""


@engines.command()
def verify(model: _Some = None, as_json: _Json = False) -> None:
    """Compare every file with its sha256.

    Exits 1 where one is not as it was built, or where there is none of the model.
    """
    store, damaged = Store(), 0
    found = _of(store, model, None) if model else _all(store, "*")
    for engine in found:
        said, fix = "whole", ""
        try:
            engine.check(verify=True)
        except ModelDamaged as error:
            damaged, said, fix = damaged + 1, error.message, error.fix
        name = f"{engine.info.model} {engine.folder.name}"
        if as_json:
            row = {"model": engine.info.model, "fingerprint": engine.folder.name}
            typer.echo(msgspec.json.encode({**row, "whole": not fix, "said": said, "fix": fix}))
        elif fix:
            typer.echo(f"error: {name}: {said}\nfix:   {fix}", err=True)
        else:
            typer.echo(f"{name}: {said}")
    if not found and not as_json:
        _nothing(store, None)
    if damaged:
        raise typer.Exit(1)


@engines.command("rm")
def remove(
    model: _Model,
    engine: _Fingerprint = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All engines; what was calibrated stays.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete an engine or a calibrated model; the model's weights and graphs stay."""
    store = Store()
    chosen: Sequence[Engine | Variant]
    if everything:
        chosen = _engines(store, model, engine)
    else:
        chosen = [_one(model, _of(store, model, engine), ", or take --all")]
    size = sum(each.size for each in chosen)
    names = ", ".join(each.folder.name for each in chosen)
    if not yes:
        if not sys.stdin.isatty():
            raise ConfigError(f"{names} would be deleted", "Add --yes.")
        if not typer.confirm(f"Delete {names} of {model}, {size / 1e6:.1f} MB?", err=True):
            raise typer.Exit(1)
    for each in chosen:
        if not isinstance(each, Variant):
            store.delete(model, each.folder)
        elif variants.serves(store, each):
            left = forget(store, each).active
            typer.echo(f"{model}: {left or 'full precision'} is active now", err=True)
        else:
            forget(store, each)
    typer.echo(f"{model}: deleted {names}, {size / 1e6:.1f} MB")
    typer.echo(f"Next: edge-runtime build {model}, or edge-runtime engines list")


@engines.command()
def export(
    model: _Model,
    out: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The tar to write.")],
    engine: _Fingerprint = None,
) -> None:
    """Write an engine, and all that serving it takes, to one tar."""
    chosen = _one(model, _engines(Store(), model, engine))
    size = bundle.export(chosen, out)
    typer.echo(f"{model}: {chosen.folder.name} in {out}, {size / 1e6:.1f} MB")
    typer.echo(f"Next: on the other board, edge-runtime engines import {out.name}")


@engines.command("import")
def bring(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A tar of `engines export`.")],
    config: _Config = None,
) -> None:
    """Take an engine out of a tar into the store.

    Names, hashes, target and versions are checked before it appears there.
    """
    here = board(load(config).computing.index)
    engine, came = bundle.bring(Store(), path, here)
    state = "imported" if came else "was there"
    typer.echo(f"{engine.info.model}: {state}, in {engine.folder}")
    if here.capability is None:
        typer.echo("no GPU here: whether it serves one was not checked", err=True)
    typer.echo("Next: edge-runtime engines list, or edge-runtime serve --device tensorrt")


def _of(store: Store, model: str, fingerprint: str | None) -> list[Engine | Variant]:
    """The model's engines and what was calibrated of it, or the one whose name begins so."""
    found = [each for each in _all(store, model) if each.folder.name.startswith(fingerprint or "")]
    if not found:
        which = f" {fingerprint}" if fingerprint else ""
        raise ModelMissing(
            f"there is no engine{which} of {model} in {store.root}{_others(store)}",
            f"See edge-runtime engines list, or run: edge-runtime build {model}",
        )
    return found


def _all(store: Store, model: str) -> list[Engine | Variant]:
    found: list[Engine | Variant] = list(calibrated(store, model))
    found.extend(stored(store, model))
    return found


def _engines(store: Store, model: str, fingerprint: str | None) -> list[Engine]:
    """The same without what was calibrated."""
    found = _of(store, model, fingerprint)
    built = [each for each in found if isinstance(each, Engine)]
    if not built:
        name = found[0].folder.name
        raise ConfigError(
            f"{name} is a calibrated model, no engine",
            f"Run: edge-runtime build {model} --precision {INT8} --variant {name}",
        )
    return built


def _one(model: str, found: Sequence[_Kept], otherwise: str = "") -> _Kept:
    if len(found) > 1:
        names = ", ".join(each.folder.name for each in found)
        raise ConfigError(
            f"{model} has {len(found)} engines: {names}",
            f"Choose one with --engine{otherwise}.",
        )
    return found[0]


engines.command()(variants.promote)
engines.command()(variants.rollback)
