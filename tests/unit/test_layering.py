"""The rooms of the package import only what this table allows; a violation names its line."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "edge_runtime"

# A room is a set of modules. The longest prefix decides, `x.__init__` is the package's own file.
ROOMS: dict[str, tuple[str, ...]] = {
    "leaf": (
        "__init__", "config", "errors", "events", "metrics", "subtitles", "transcript", "words",
    ),
    "device.base": ("device.base",),
    "device": ("device",),
    "audio pure": ("audio.endpoint", "audio.quiet", "audio.ring", "audio.spoken", "audio.__init__"),
    "audio": ("audio",),
    "decode pure": ("decode",),
    "decode device": (
        "decode.decoding", "decode.graphs", "decode.lane", "decode.mirror", "decode.pricing",
        "decode.proof", "decode.trial", "decode.runner", "decode.tiles", "decode.watch",
        "decode.family",
        "decode.growing.chain", "decode.growing.lane", "decode.growing.runner",
        "decode.chunked.chain", "decode.chunked.job", "decode.chunked.lane",
        "decode.chunked.runner", "decode.chunked.states",
    ),
    "engines": ("engines",),
    "session": ("session",),
    "power": ("power",),
    "systemd": ("systemd",),
    "runtime": ("runtime",),
    "transcribe": ("transcribe",),
    "dialects": ("dialects",),
    "server": ("server",),
    "bench": ("bench",),
    "doctor pure": ("doctor.base", "doctor.facts", "doctor.judgements"),
    "doctor": ("doctor",),
    "cli": ("cli", "__main__"),
}  # fmt: skip

# What each room may import besides itself and the leaves.
MAY_IMPORT: dict[str, set[str]] = {
    "leaf": set(),
    "device.base": set(),
    "device": {"device.base"},
    "audio pure": set(),
    "audio": {"audio pure", "device.base"},
    "decode pure": set(),
    "decode device": {"decode pure", "device.base"},
    "engines": {
        "device", "device.base", "decode pure", "decode device", "audio", "audio pure", "session",
    },
    "session": {"decode pure", "audio pure"},
    "power": set(),
    "systemd": set(),
    "runtime": set(ROOMS) - {
        "transcribe", "dialects", "server", "bench", "doctor", "doctor pure", "cli",
    },
    "transcribe": set(ROOMS) - {
        "dialects", "server", "bench", "doctor", "doctor pure", "cli",
    },
    # Bytes of a socket become samples where they come in, so both know codecs and sources.
    "dialects": {"runtime", "session", "audio", "audio pure"},
    "server": {"runtime", "session", "dialects", "systemd", "audio", "audio pure"},
    "bench": set(ROOMS) - {"cli", "doctor", "doctor pure"},
    "doctor pure": {"engines"},
    "doctor": set(ROOMS) - {"cli", "bench"},
    "cli": set(ROOMS),
}  # fmt: skip

# Libraries that belong to a room; builders and weight readers may use those of the device line
# inside functions, so that only the machine that builds needs them.
DEVICE_LIBRARIES = {
    "cuda", "onnxruntime", "pycuda", "tensorrt", "tensorrt_rtx", "tensorrt_rtx_bindings",
}  # fmt: skip
GRAPH_LIBRARIES = {"onnx", "onnxscript"}


@dataclass(frozen=True)
class Import:
    """A module that is imported, by which line, and whether inside a function."""

    module: str
    line: int
    inside: bool


def test_every_import_is_allowed() -> None:
    found = violations(PACKAGE)
    assert not found, "\n" + "\n".join(found)


def test_every_module_has_a_room() -> None:
    homeless = [str(path) for path in modules(PACKAGE) if room(name_of(PACKAGE, path)) is None]
    assert not homeless


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("session.py", "from edge_runtime.audio.vad import Voice", "session.py:1: session may not"),
        ("session.py", "import edge_runtime.decode.runner", "imports edge_runtime.decode.runner"),
        ("session.py", "from edge_runtime.decode import tiles", "edge_runtime.decode.tiles"),
        ("decode/merge.py", "def f():\n    from edge_runtime import device", "merge.py:2: decode"),
        ("audio/vad.py", "from ..device import open_device", "audio may not import device"),
        (
            "audio/codec.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import edge_runtime.session",
            "codec.py:3: audio may not import session",
        ),
        ("errors.py", "from edge_runtime.config import Config", ""),
        ("errors.py", "from edge_runtime.device import base", "leaf may not import device.base"),
        ("server/app.py", "import onnxruntime as ort", "only device/ imports onnxruntime"),
        ("engines/build.py", "import tensorrt", "engines/ imports tensorrt only inside functions"),
        ("engines/build.py", "def build():\n    import tensorrt", ""),
        ("engines/build.py", "import onnx", ""),
        ("device/cuda.py", "import pycuda.driver\nfrom cuda.bindings import runtime", ""),
        ("runtime.py", "from onnx import helper", "only engines/ imports onnx"),
        ("runtime.py", "from edge_runtime import device, session, errors", ""),
        ("cli/serve.py", "from edge_runtime.server import serve", ""),
        ("surprise.py", "import edge_runtime.config", "no room"),
    ],
)
def test_catches(tmp_path: Path, file: str, text: str, said: str) -> None:
    for name in ("device", "audio", "decode", "engines", "server", "cli"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    for name in ("device/base.py", "audio/vad.py", "decode/tiles.py", "session.py", "errors.py"):
        (tmp_path / name).touch()
    (tmp_path / file).write_text(text)
    found = "\n".join(violations(tmp_path))
    assert said in found
    assert bool(said) == bool(found), found


def violations(package: Path) -> list[str]:
    """One sentence for each import that the table does not allow, in order of file and line."""
    found = []
    for path in modules(package):
        here = room(name_of(package, path))
        if here is None:
            found.append(f"{path}:1: no room of the table holds it")
            continue
        for imported in imports(package, path):
            why = (
                _ours(here, imported.module)
                if imported.module.split(".")[0] == "edge_runtime"
                else _theirs(here, imported)
            )
            if why:
                found.append(f"{path}:{imported.line}: {why}")
    return found


def _ours(here: str, module: str) -> str:
    there = room(module.removeprefix("edge_runtime."))
    if there in ("leaf", here) or there in MAY_IMPORT[here]:
        return ""
    return f"{here} may not import {there} (imports {module})"


def _theirs(here: str, imported: Import) -> str:
    library = imported.module.split(".")[0]
    if library in GRAPH_LIBRARIES and here != "engines":
        return f"only engines/ imports {library}"
    if library not in DEVICE_LIBRARIES or here == "device":
        return ""
    if here != "engines":
        return f"only device/ imports {library}"
    return "" if imported.inside else f"engines/ imports {library} only inside functions"


def modules(package: Path) -> list[Path]:
    return sorted(package.rglob("*.py"))


def name_of(package: Path, path: Path) -> str:
    """`decode.runner` for `decode/runner.py`, `decode.__init__` for the package's own file."""
    return ".".join(path.relative_to(package).with_suffix("").parts)


def room(name: str) -> str | None:
    """The room of the longest prefix of a module's name; None where there is none."""
    best: tuple[int, str] | None = None
    for candidate, prefixes in ROOMS.items():
        for prefix in prefixes:
            if name == prefix or name.startswith(prefix + "."):
                best = max(best or (0, ""), (len(prefix), candidate))
    return best[1] if best else None


def imports(package: Path, path: Path) -> Iterator[Import]:
    """Every import of a file: at the top, in functions, under TYPE_CHECKING; ours in full."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    inner = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        inside = id(node) in inner
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(_resolved(package, alias.name), node.lineno, inside)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = path.relative_to(package).parts[: -node.level]
                base = ".".join(["edge_runtime", *parents, *([base] if base else [])])
            for alias in node.names:
                yield Import(_resolved(package, base, alias.name), node.lineno, inside)


def _resolved(package: Path, module: str, attribute: str = "") -> str:
    """The module that an import loads: `from a import b` is `a.b` where that is a module."""
    parts = module.split(".")
    if parts[0] != "edge_runtime":
        return module
    if attribute:
        inner = package.joinpath(*parts[1:], attribute)
        if inner.is_dir() or inner.with_suffix(".py").is_file():
            parts.append(attribute)
    if package.joinpath(*parts[1:]).is_dir():
        parts.append("__init__")
    return ".".join(parts)
