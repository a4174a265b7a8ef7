"""What several commands take alike, and what groups of commands have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

HELP = {"help_option_names": ["-h", "--help"]}
"""How every command is asked for its help."""

Model = Annotated[
    str | None,
    typer.Argument(
        metavar="MODEL",
        help="A model that was pulled, or a recipe (.toml) [as the settings have it].",
    ),
]

Manifest = Annotated[
    Path | None,
    typer.Argument(help="Tab-separated: id, path, transcript, condition."),
]

Settings = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Settings [/etc/edge-runtime/config.toml, if there]."),
]


def required(manifest: Path | None) -> Path:
    """The manifest, where one was given; else it is wrong usage."""
    if manifest is None:
        raise typer.BadParameter("name a manifest of clips; a checkout has audio/manifest.tsv")
    return manifest


def group(does: str) -> typer.Typer:
    """Commands under one name; `does` is what its help says."""
    return typer.Typer(
        help=does,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        context_settings=HELP,
    )
