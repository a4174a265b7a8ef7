"""Makes whole trees of the machines in `tests/data/doctor`, and libraries with GPU kernels."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import msgspec

from edge_runtime.engines import manifest
from edge_runtime.engines.engine import RECIPE, EngineInfo
from edge_runtime.engines.plans import ROWS, SAMPLES
from edge_runtime.engines.recipe import load_recipe
from edge_runtime.engines.store import ENGINE, Store, graphs_fingerprint

MACHINES = Path(__file__).parents[2] / "data" / "doctor"
STORE = "var/lib/edge-runtime"


def machine(name: str, root: Path) -> Path:
    """The machine of that name, whole, below `root`."""
    said = json.loads((MACHINES / name / "machine.json").read_text())
    base = said.pop("base", None)
    if base is not None:
        machine(base, root)
        for each in said.pop("without", ()):
            shutil.rmtree(root / each)
        said = merged(json.loads((root / "machine.json").read_text()), said)
        if (MACHINES / name / STORE).exists():
            shutil.rmtree(root / STORE / "moonshine-tiny-en", ignore_errors=True)
            fill(MACHINES / base / STORE / "moonshine-tiny-en", root / STORE / "moonshine-tiny-en")
    fill(MACHINES / name, root)
    (root / "machine.json").write_text(json.dumps(said))
    for path in root.rglob("*.so.json"):
        path.with_suffix("").write_bytes(library(**json.loads(path.read_text())))
        path.unlink()
    for path in root.glob(f"{STORE}/*/weights/manifest.json"):
        for file in json.loads(path.read_text())["files"]:
            with (path.parent / file["name"]).open("wb") as weights:
                weights.truncate(file["size"])
    engine(root / STORE / "moonshine-tiny-en")
    return root


def fill(source: Path, root: Path) -> None:
    shutil.copytree(source, root, dirs_exist_ok=True)


def merged(base: dict, patch: dict) -> dict:
    """`patch` over `base`, tables within tables; an empty table is none."""
    both = dict(base)
    for key, value in patch.items():
        inner = isinstance(value, dict) and value and isinstance(base.get(key), dict)
        both[key] = merged(base[key], value) if inner else value
    return both


def engine(model: Path) -> None:
    """What `engine/engine.json` says, as the program would have written it now."""
    drawn = model / "engine"
    if not (drawn / ENGINE).is_file():
        return
    recipe = load_recipe(model.name)
    hashes = Store(model.parent).hashes(recipe)
    said = json.loads((drawn / ENGINE).read_text())
    info = msgspec.convert(
        {
            "model": recipe.name,
            "recipe": recipe.hash,
            "weights": hashes,
            "graphs": graphs_fingerprint(recipe, said["precision"], hashes.values()),
            "split": recipe.decoder_tiles,
            "rows": ROWS,
            "samples": SAMPLES,
            "queries": 112,
            **said,
        },
        EngineInfo,
    )
    (drawn / ENGINE).write_bytes(msgspec.json.encode(info))
    (drawn / RECIPE).write_bytes(msgspec.json.encode(recipe))
    (drawn / "encoder.plan").write_bytes(b"plan")
    manifest.seal(drawn, "drawn")
    drawn.rename(model / info.fingerprint)


def library(
    cubins: list[int],
    ptx: list[int] = (),
    alone: list[int] = (),
    needed: list[str] = (),
    text: str = "",
) -> bytes:
    """An ELF file as a linker writes it: needs, texts, and a fat binary for each architecture."""
    strings = b"\0" + b"".join(each.encode() + b"\0" for each in needed)
    names = b"\0.rodata\0.nv_fatbin\0.shstrtab\0"
    rodata = b"some text\0" + text.encode() + b"\0"
    kernels = b"".join(fat([(2, each, 0)]) for each in cubins)
    kernels += b"".join(fat([(2, each, 0x100000)]) for each in alone)
    kernels += fat([(1, each, 0) for each in ptx])
    at, places = 64 + 2 * 56, []
    for part in (strings, rodata, kernels, names):
        at += -at % 8
        places.append(at)
        at += len(part)
    at += -at % 8
    base = 0x10000  # addresses are not offsets
    offset = 1
    dynamic = struct.pack("<QQ", 5, base + places[0])
    for each in needed:
        dynamic += struct.pack("<QQ", 1, offset)
        offset += len(each) + 1
    dynamic += struct.pack("<QQ", 0, 0)
    table = at + len(dynamic)
    head = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 3, 183, 1, 0, 64, table, 0, 64, 56, 2, 64, 4, 3
    )
    head += struct.pack("<IIQQQQQQ", 1, 4, 0, base, base, table, table, 8)
    head += struct.pack("<IIQQQQQQ", 2, 4, at, base + at, base + at, len(dynamic), len(dynamic), 8)
    body = head
    for place, part in zip((*places, at), (strings, rodata, kernels, names, dynamic), strict=True):
        body = body.ljust(place, b"\0") + part
    rows = [(0, 0, 0)]
    for name, place, part in (
        (b".rodata", 1, rodata),
        (b".nv_fatbin", 2, kernels),
        (b".shs", 3, names),
    ):
        rows.append((names.index(name), places[place], len(part)))
    for name, place, size in rows:
        body += struct.pack("<IIQQQQIIQQ", name, 1, 0, 0, place, size, 0, 0, 1, 0)
    return body


def fat(images: list[tuple[int, int, int]]) -> bytes:
    """One fat binary of (kind, architecture, flags): headers as nvcc's, and 24 bytes for each."""
    packed = b"".join(
        struct.pack(
            "<HHIQIIHHIIIQQQ",
            kind,
            0x101,
            64,
            24,
            0,
            0,
            8,
            1,
            architecture,
            0,
            0,
            flags | 0x8011,
            0,
            0,
        )
        + bytes(24)
        for kind, architecture, flags in images
    )
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(packed)) + packed
