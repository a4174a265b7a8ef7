"""What `pull --list` shows: every recipe, what is known of it, and what the store has of it."""

from __future__ import annotations

import os
from typing import Any

import msgspec
import typer
from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from edge_runtime.engines.store import Store, Stored

NARROW = 110
"""Columns of a terminal below which each model gets a block of lines in place of one."""

_PAPER = 160  # columns of a file or a pipe
_LANGUAGES = 6  # that are named; of more, how many there are
_NOT_RUN = "not run here"


def show(store: Store, *, as_json: bool) -> None:
    """Write all models to standard output, as a table or as one line of JSON each."""
    listing = store.listing()
    if as_json:
        for stored in listing:
            typer.echo(msgspec.json.encode(row(stored)))
        return
    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(width=_PAPER)
    console.print(_blocks(listing) if console.width < NARROW else _table(listing))
    console.print(f"Store: {store.root}", highlight=False, soft_wrap=True)


def row(stored: Stored) -> dict[str, Any]:
    """All of it for programs; sizes in bytes, `wer` in percent."""
    recipe, weights = stored.recipe, stored.weights
    # The first figure of a recipe is that of the graphs we make from it.
    expected = recipe.expected[0] if recipe.expected else None
    return {
        "model": recipe.name,
        "title": recipe.title,
        "family": recipe.family,
        "languages": recipe.languages,
        "streaming": recipe.streaming,
        "licence": recipe.licence,
        "state": stored.state,
        "source": weights.source if weights else None,
        "megabytes": round(weights.size / 1e6, 1) if weights else None,
        "bytes": stored.size,
        "download_bytes": recipe.size,
        "graphs": stored.graphs,
        "wer": expected.wer if expected else None,
        "wer_set": expected.set if expected else None,
        "wer_source": expected.source if expected else None,
        "expected": recipe.expected,
        "verified": recipe.verified,
    }


def _table(listing: list[Stored]) -> Table:
    table = Table(box=None, pad_edge=False)
    headings = ("model", "family", "languages", "streaming", "licence", "state", "size", "WER %")
    for heading in headings:
        table.add_column(heading, no_wrap=heading in {"model", "size"})
    table.add_column("run here")
    for stored in listing:
        recipe = stored.recipe
        table.add_row(
            recipe.name,
            recipe.family,
            _languages(recipe.languages),
            recipe.streaming,
            recipe.licence,
            stored.state,
            _size(stored),
            str(recipe.expected[0].wer) if recipe.expected else "-",
            "\n".join(map(str, recipe.verified)) or _NOT_RUN,
        )
    return table


def _blocks(listing: list[Stored]) -> Group:
    blocks: list[Text | Padding] = []
    for stored in listing:
        recipe = stored.recipe
        what = (recipe.family, _languages(recipe.languages), recipe.streaming, recipe.licence)
        lines = [", ".join(what)]
        lines += [f"WER {each.wer} %: {each.set} ({each.source})" for each in recipe.expected[:1]]
        lines += [f"run here: {each}" for each in recipe.verified] or [_NOT_RUN]
        head = Text(recipe.name, style="bold")
        blocks.append(head.append(f"  {stored.state}, {_size(stored)}", style="not bold"))
        blocks += [Padding(Text(line), (0, 0, 0, 2)) for line in lines]
    return Group(*blocks)


def _size(stored: Stored) -> str:
    """On this disk; of what is not here, what comes over the wire."""
    size = stored.recipe.size if stored.state == "absent" else stored.size
    return f"{size / 1e6:.0f} MB" if size else "-"


def _languages(codes: tuple[str, ...]) -> str:
    return ", ".join(codes) if len(codes) <= _LANGUAGES else f"{len(codes)} languages"
