"""Word errors and times of each form against float32's."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edge_runtime.audio import RATE
from edge_runtime.audio.ring import Samples
from edge_runtime.bench.manifest import Manifest, spread
from edge_runtime.decode.tiles import Chain
from edge_runtime.decode.tokens import Vocabulary
from edge_runtime.device import open_device
from edge_runtime.engines.calibrate.costs import calls, drafted
from edge_runtime.engines.calibrate.gate import Outcome, judge
from edge_runtime.engines.calibrate.texts import Writer
from edge_runtime.engines.recipe import MoonshineRecipe
from edge_runtime.engines.store import Store
from edge_runtime.errors import EdgeRuntimeError
from precisions.forms import FLOAT, PUBLISHED, ROWS, Form, Forms
from precisions.published import Published
from precisions.timing import Calls, times

LONGEST = 40  # seconds
SECONDS = (2, 8, 12, 16)
TURNS = 9

Said = Callable[[str], None]


@dataclass(frozen=True)
class Options:
    """What the command line said."""

    rows: Sequence[str] = tuple(ROWS)
    variant: Path | None = None
    quick: int = 0
    words: bool = True
    times: bool = True


def compare(
    store: Store, recipe: MoonshineRecipe, clips: Manifest, options: Options, said: Said
) -> list[dict[str, Any]]:
    """One row a form, float32 first: what it weighs, writes and takes; or why it cannot be had."""
    names = [FLOAT, *(name for name in options.rows if name != FLOAT)]
    rows: dict[str, dict[str, Any]] = {}
    forms: list[Form] = []
    with tempfile.TemporaryDirectory() as out:
        make = Forms(store, recipe, Path(out), options.variant)
        for name in names:
            rows[name] = {"name": name, "what": ROWS[name]}
            try:
                forms.append(make(name))
                rows[name]["bytes"] = forms[-1].bytes
            except EdgeRuntimeError as error:
                rows[name]["missing"] = str(error)
        if options.words:
            _judge(rows, forms, clips, options, said)
        if options.times:
            _time(rows, forms, clips, said)
    return list(rows.values())


def _judge(
    rows: dict[str, Any], forms: Sequence[Form], clips: Manifest, options: Options, said: Said
) -> None:
    speech = [c for c in spread(clips.clean, options.quick) if c.seconds <= LONGEST]
    full: dict[str, str] = {}
    for form in forms:
        said(f"{form.name}: {len(speech)} clips")
        write = _writer(form, forms[0])
        texts = {clip.name: write(clip.pcm) for clip in speech}
        full = full or texts
        verdict = judge(
            [Outcome(c.name, c.seconds, full[c.name], texts[c.name], c.reference) for c in speech]
        )
        rows[form.name] |= {
            "clips": verdict.clips,
            "words": verdict.words,
            "wer": round(verdict.wer_quantised, 3),
            "increase": round(verdict.increase, 3),
            "low": round(verdict.low, 3),
            "high": round(verdict.high, 3),
            "changed": verdict.changed,
        }


def _writer(form: Form, full: Form) -> Callable[[Samples], str]:
    if form.name == PUBLISHED:
        return _published(form, full)
    writer = Writer(form.folder, LONGEST * RATE)
    return lambda pcm: writer(pcm).text


def _time(rows: dict[str, Any], forms: Sequence[Form], clips: Manifest, said: Said) -> None:
    sound = max(clips.clean, key=lambda clip: clip.seconds).pcm
    for seconds in SECONDS:
        said(f"times of {seconds} seconds")
        turn: dict[str, Calls] = {}
        for form in forms:
            if form.name == PUBLISHED:
                shape = Chain(open_device("cpu"), forms[0].folder).shape
                samples = np.resize(sound, seconds * RATE)
                turn[form.name] = _published(form, forms[0]).calls(samples, drafted(shape, seconds))
            else:
                turn[form.name] = calls(Chain(open_device("cpu"), form.folder), sound, seconds)
        for name, found in times(turn, TURNS).items():
            rows[name].setdefault("times", {})[str(seconds)] = found


def _published(form: Form, full: Form) -> Published:
    shape = Chain(open_device("cpu"), full.folder).shape
    return Published(form.folder, shape, Vocabulary.load(full.folder))
