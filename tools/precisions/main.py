"""The command line."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edge_runtime.bench.hardware import hardware
from edge_runtime.bench.manifest import Manifest, read
from edge_runtime.engines.recipe import MoonshineRecipe, load_recipe
from edge_runtime.engines.store import Store
from edge_runtime.errors import EdgeRuntimeError, RecipeError
from precisions.forms import ROWS


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a line a row, write the file; 1 where that fails."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    what = given.pop(0) if given and given[0] in _OTHERS else "compare"
    options = _parser(what).parse_args(given)
    try:
        rows = {"compare": _compare, **_OTHERS}[what](options)
    except EdgeRuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    content = {"what": what, "hardware": hardware().record(), "rows": rows}
    options.json.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    for row in rows:
        print(json.dumps(row, ensure_ascii=False))
    return 0


def _parser(what: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"tools/compare-precisions {what}")
    parser.add_argument("--model", default="moonshine-tiny-en")
    parser.add_argument("--json", type=Path, required=True)
    if what == "tensorrt":
        return parser
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--quick", type=int, default=0, help="at most so many clips")
    if what == "exits":
        parser.add_argument("--heard", type=Path, required=True, help="clips to fit and choose by")
        return parser
    parser.add_argument("--exclude", type=Path, help="clips to leave out, one a line")
    parser.add_argument("--variant", type=Path, help="the folder of a calibrated model")
    if what == "streamed":
        parser.add_argument("--costs", type=Path, help="times as in a variant's costs.json")
        parser.add_argument("--slower", type=float, default=1.0, help="times as long updates take")
        return parser
    parser.add_argument("--rows", default=",".join(ROWS), help=", ".join(ROWS))
    parser.add_argument("--no-words", dest="words", action="store_false")
    parser.add_argument("--no-times", dest="times", action="store_false")
    return parser


def _judged(options: argparse.Namespace) -> Manifest:
    clips = read(options.manifest)
    return clips if options.exclude is None else clips.without(_lines(options.exclude))


def _compare(options: argparse.Namespace) -> list[dict[str, Any]]:
    from precisions.compare import Options, compare

    wanted = options.rows.split(",")
    unknown = [row for row in wanted if row not in ROWS]
    if unknown:
        raise RecipeError(f"no row is called {unknown[0]}", f"Choose from: {', '.join(ROWS)}.")
    clips = _judged(options)
    asked = Options(wanted, options.variant, options.quick, options.words, options.times)
    return compare(Store(), _recipe(options.model), clips, asked, _say)


def _exits(options: argparse.Namespace) -> list[dict[str, Any]]:
    from precisions.exits import exits

    clips = read(options.manifest)
    judged = clips.without(_lines(options.heard))
    heard = Manifest(clips.path, tuple(c for c in clips.clips if c not in judged.clips))
    return exits(Store(), _recipe(options.model), heard, judged, options.quick, _say)


def _streamed(options: argparse.Namespace) -> list[dict[str, Any]]:
    from precisions.streamed import streamed

    return streamed(
        Store(), _recipe(options.model), _judged(options), options.variant, options.quick,
        options.costs, options.slower, _say,
    )  # fmt: skip


def _tensorrt(options: argparse.Namespace) -> list[dict[str, Any]]:
    from precisions.tensorrt import built

    return built(Store(), _recipe(options.model), _say)


_OTHERS = {"exits": _exits, "streamed": _streamed, "tensorrt": _tensorrt}


def _recipe(name: str) -> MoonshineRecipe:
    recipe = load_recipe(name)
    if not isinstance(recipe, MoonshineRecipe):
        raise RecipeError(f"{name} turns no speech into text", "Choose a speech model.")
    return recipe


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
