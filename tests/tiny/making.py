"""Small models as the store would have them: published files, and the graphs made of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from edge_runtime.engines.export import export
from edge_runtime.engines.recipe import AnyRecipe, MoonshineStreamingRecipe, TransducerRecipe
from edge_runtime.engines.sources import HubSource, SourceFile, Sources
from edge_runtime.engines.store import Store


def transducer(folder: Path, symbols: int = 1, name: str = "tiny-transducer") -> TransducerRecipe:
    """A recipe for the files in `folder`."""
    return TransducerRecipe(
        name=name,
        symbols_per_frame=symbols,
        flush_ms=660,
        tokens_per_second=20.0,
        **_of_nobody(folder),
    )


def _of_nobody(folder: Path) -> dict[str, Any]:
    """What recipes for the files in `folder` have in common."""
    files = tuple(SourceFile(name=path.name) for path in sorted(folder.iterdir()))
    return {
        "title": "A small one",
        "publisher": "Nobody",
        "languages": ("en",),
        "licence": "MIT",
        "streaming": "true streaming",
        "sources": Sources(
            hub=HubSource(reader="onnx", repo="no/body", revision="main", files=files)
        ),
        "requires": ("silero-vad",),
    }


def stored(
    root: Path,
    write: Callable[[Path], None],
    recipe_of: Callable[[Path], AnyRecipe] = transducer,
    name: str = "tiny-transducer",
) -> Path:
    """A store at `root` that has the model, and its recipe as a file beside."""
    store = Store(root)
    with store.lock(name), store.replacing(root / name / "weights", "a test") as weights:
        write(weights)
        recipe = recipe_of(weights)
    store.graphs(recipe)
    path = root / f"{name}.toml"
    path.write_text(_toml(recipe))
    return path


def growing(folder: Path) -> MoonshineStreamingRecipe:
    """A recipe for the five programs in `folder`."""
    return MoonshineStreamingRecipe(
        name="tiny-growing", tokens_per_second=6.5, **_of_nobody(folder)
    )


def exported(
    place: Path,
    write: Callable[[Path], None],
    symbols: int = 1,
    recipe: Callable[[Path], AnyRecipe] | None = None,
) -> tuple[Path, Path]:
    """What `write` publishes, and the graphs of it, each in a folder in `place`."""
    published, graphs = place / "published", place / "graphs"
    published.mkdir()
    graphs.mkdir()
    write(published)
    told = recipe(published) if recipe else transducer(published, symbols)
    export(told, published, graphs)
    return published, graphs


def _toml(recipe: AnyRecipe) -> str:
    told = msgspec.to_builtins(recipe) | {"family": recipe.family}
    files = told.pop("sources")["hub"]["files"]
    lines = [f"{key} = {msgspec.json.encode(value).decode()}" for key, value in told.items()]
    lines += ["[sources.hub]", 'reader = "onnx"', 'repo = "no/body"', 'revision = "main"']
    for file in files:
        lines += ["[[sources.hub.files]]", f'name = "{file["name"]}"']
    return "\n".join(lines)
