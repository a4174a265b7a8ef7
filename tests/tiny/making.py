"""Small models as the store would have them: published files, and the graphs made of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from edge_runtime.engines.export import export
from edge_runtime.engines.recipe import HubSource, SourceFile, Sources, TransducerRecipe


def transducer(folder: Path, symbols: int = 1, name: str = "tiny-transducer") -> TransducerRecipe:
    """A recipe for the files in `folder`."""
    files = tuple(SourceFile(name=path.name) for path in sorted(folder.iterdir()))
    return TransducerRecipe(
        name=name,
        title="A small one",
        publisher="Nobody",
        languages=("en",),
        licence="MIT",
        streaming="true streaming",
        sources=Sources(hub=HubSource(reader="onnx", repo="no/body", revision="main", files=files)),
        requires=("silero-vad",),
        symbols_per_frame=symbols,
        flush_ms=660,
        tokens_per_second=20.0,
    )


def exported(place: Path, write: Callable[[Path], None], symbols: int = 1) -> tuple[Path, Path]:
    """What `write` publishes, and the graphs of it, each in a folder in `place`."""
    published, graphs = place / "published", place / "graphs"
    published.mkdir()
    graphs.mkdir()
    write(published)
    export(transducer(published, symbols), published, graphs)
    return published, graphs
