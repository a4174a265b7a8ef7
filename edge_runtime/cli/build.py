"""`edge-runtime build`: make a model's TensorRT engine for this machine, or a portable one."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from edge_runtime.audio import RATE
from edge_runtime.cli.options import Model, Settings
from edge_runtime.engines import variants
from edge_runtime.engines.build import BuildOptions, MemoryPlan, Watch
from edge_runtime.engines.build import build as make
from edge_runtime.engines.build.need import needless
from edge_runtime.engines.engine import Engine, read
from edge_runtime.engines.form import AUTO, Form, form
from edge_runtime.engines.plans import ROWS
from edge_runtime.engines.recipe import (
    AnyRecipe,
    BuiltRecipe,
    TiledRecipe,
    TransducerRecipe,
    load_recipe,
)
from edge_runtime.engines.store import Store
from edge_runtime.engines.variant import INT8
from edge_runtime.errors import ConfigError

EXAMPLES = """\
edge-runtime build moonshine-tiny-en                        for this GPU
edge-runtime build moonshine-tiny-en --precision int8       of the calibrated model
edge-runtime build moonshine-tiny-en --workspace-mb 256     beside other programs
edge-runtime build moonshine-tiny-en --tensorrt tensorrt_rtx
                                                            portable, needs no GPU
edge-runtime build --if-needed                              for a unit: mostly nothing to do"""


def build(
    model: Model = None,
    precision: Annotated[
        Literal["auto", "fp16", "fp32", "int8"] | None,
        typer.Option(
            help="What the model computes in; auto is int8 where a calibrated one is active, "
            "else fp16 [as the settings have it]."
        ),
    ] = None,
    variant: Annotated[
        str | None,
        typer.Option(
            metavar="FP", help="With int8: fingerprint of the calibrated model [the active one]."
        ),
    ] = None,
    tensorrt: Annotated[
        Literal["auto", "tensorrt", "tensorrt_rtx"] | None,
        typer.Option(help="Which library builds; auto takes the first that is installed [auto]."),
    ] = None,
    workspace_mb: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Scratch memory of kernels [a quarter of what is free]."
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(metavar="N,N…", help="Layers in each decoder tile [as the recipe says]."),
    ] = None,
    rows: Annotated[
        int, typer.Option(metavar="N", min=1, max=64, help="Streams in the largest batch.")
    ] = ROWS,
    seconds: Annotated[
        float | None,
        typer.Option(
            metavar="N", min=0.5, max=600, help="Longest audio at a time [as the settings have it]."
        ),
    ] = None,
    config: Settings = None,
    again: Annotated[bool, typer.Option("--again", help="Build even what is there.")] = False,
    if_needed: Annotated[
        bool,
        typer.Option(
            "--if-needed",
            help="Only where the server would use an engine and finds none; else exit 0.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write one line of JSON.")] = False,
) -> None:
    """Build a model's TensorRT engine into the store.

    It serves only with the TensorRT version that built it. One that is there is kept. What
    no option says is as the settings have it: model, precision, library, how long a segment
    gets.
    """
    from edge_runtime.config import load
    from edge_runtime.session import longest

    settings, store = load(config), Store()
    for name in (model,) if model else settings.serving.served:
        recipe = load_recipe(name)
        chosen = _form(store, recipe, precision or settings.computing.precision, variant)
        options = BuildOptions(
            precision=chosen.precision,
            tensorrt=tensorrt or settings.computing.tensorrt,
            index=settings.computing.index,
            workspace_mb=workspace_mb,
            split=None if split is None else _split(split),
            rows=rows,
            samples=longest(settings) if seconds is None else round(seconds * RATE),
            again=again,
            variant=variant,
        )
        idle = None
        if if_needed and not again:
            idle = _needless(recipe, store, settings.serving.device, chosen, options)
        if idle is None:
            _build(recipe, store, options, as_json=as_json)
        else:
            typer.echo(_idle(recipe.name, idle, as_json))


def _needless(
    recipe: AnyRecipe, store: Store, device: str, chosen: Form, options: BuildOptions
) -> str | None:
    """Why no engine is due; None where one is."""
    if not isinstance(recipe, BuiltRecipe):
        return "it runs in the form that it is published in, without an engine"
    return needless(
        recipe,
        store,
        device=device,
        form=chosen,
        tensorrt=options.tensorrt,
        index=options.index,
        samples=options.samples,
    )


def _build(recipe: AnyRecipe, store: Store, options: BuildOptions, *, as_json: bool) -> None:
    began = time.monotonic()
    with _Screen(recipe.name, shown=not as_json) as screen:
        folder = make(recipe, store, options, screen)
    engine, seconds = read(folder), time.monotonic() - began
    if as_json:
        typer.echo(msgspec.json.encode(_row(engine, seconds, built=not screen.was_there)))
        return
    if screen.was_there:
        typer.echo(f"{recipe.name}: was there, in {folder}")
    else:
        typer.echo(f"{recipe.name}: built in {seconds:.0f} s, in {folder}")
    typer.echo(f"Next: {_next(engine)}")


def _form(store: Store, recipe: AnyRecipe, precision: str, variant: str | None) -> Form:
    """What to build; says aloud where the calibrated model that is active cannot be built."""
    if isinstance(recipe, TransducerRecipe) and precision == AUTO:
        return Form("fp32")  # as it is published
    if not isinstance(recipe, TiledRecipe):
        return Form("fp16" if precision == AUTO else precision)
    if variant is not None and precision in (AUTO, INT8):
        found = variants.find(store, recipe.name, variant).folder.name
        return Form(INT8, variants.usable(store, recipe, found))
    chosen = form(store, recipe, precision, full="fp16")
    if chosen.unused is not None:
        typer.echo(f"the calibrated model is left out: {chosen.unused}", err=True)
    return chosen


def _idle(model: str, reason: str, as_json: bool) -> str:
    """How to say that nothing was done."""
    if not as_json:
        return f"{model}: {reason}"
    return msgspec.json.encode({"model": model, "built_now": False, "reason": reason}).decode()


def _split(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ConfigError(
            f"--split {text} is no list of numbers", "Write it as in --split 3,3."
        ) from None


def _next(engine: Engine) -> str:
    """Where there is no GPU, the engine is for another machine."""
    info = engine.info
    option = "" if info.model == "moonshine-tiny-en" else f" --model {info.model}"
    if info.gpu:
        return f"edge-runtime serve --device tensorrt{option}"
    bundle = f"{info.model}-{info.precision}.tar"
    return f"edge-runtime engines export {info.model} --engine {info.fingerprint} -o {bundle}"


def _row(engine: Engine, seconds: float, *, built: bool) -> dict[str, Any]:
    return {
        "folder": str(engine.folder),
        "fingerprint": engine.info.fingerprint,
        "built_now": built,
        "took": round(seconds, 1),
        "engine": engine.info,
    }


class _Screen(Watch):
    """The memory plan as text, a bar for each tile; bars only at a terminal."""

    def __init__(self, model: str, *, shown: bool) -> None:
        self.was_there = False
        self._model, self._shown = model, shown
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            disable=not (shown and sys.stderr.isatty()),
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> _Screen:
        self._progress.__enter__()
        return self

    def __exit__(self, *reason: Any) -> None:
        self._progress.__exit__(*reason)

    def exporting(self, name: str, done: int, total: int) -> None:
        self._draw("graphs", done / max(total, 1))

    def planned(self, plan: MemoryPlan) -> None:
        if self._shown:
            self._progress.console.print(str(plan), highlight=False, soft_wrap=True)

    def waiting(self) -> None:
        if self._shown:
            said = f"another process builds {self._model}: waiting for it"
            self._progress.console.print(said, highlight=False, soft_wrap=True)

    def found(self, folder: Path) -> None:
        self.was_there = True

    def advanced(self, tile: str, done: float) -> None:
        self._draw(tile, done)

    def _draw(self, what: str, done: float) -> None:
        if what not in self._tasks:
            self._tasks[what] = self._progress.add_task(f"{self._model}: {what}", total=1.0)
        self._progress.update(self._tasks[what], completed=done)
