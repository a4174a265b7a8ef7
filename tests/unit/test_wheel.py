"""The wheel holds the package, its recipes and one clip, and finds them when installed."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def build(folder: Path, kind: str) -> Path:
    code = f"from hatchling import build; print(build.build_{kind}({str(folder)!r}))"
    name = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()[-1]
    return folder / name


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("wheel"), "wheel")


def split(path: Path) -> tuple[set[str], set[str]]:
    """The files of a wheel: its own, and those of its dist-info folder."""
    names = set(zipfile.ZipFile(path).namelist())
    info = {name for name in names if name.split("/")[0].endswith(".dist-info")}
    return names - info, {name.split("/", 1)[1] for name in info}


def test_holds_exactly_the_package_recipes_and_one_clip(wheel: Path) -> None:
    package = ROOT / "edge_runtime"
    # Kernels are compiled, pages are filled in there.
    sources = [each for kind in ("py", "cu", "cuh", "html") for each in package.rglob(f"*.{kind}")]
    sources += [path for path in (package / "page").iterdir() if path.suffix != ".html"]
    modules = {str(path.relative_to(ROOT)) for path in sources}
    recipes = {f"edge_runtime/recipes/{path.name}" for path in (ROOT / "engines").glob("*.toml")}
    assert {"edge_runtime/cli/__init__.py", "edge_runtime/device/base.py"} <= modules
    assert {"edge_runtime/page/app.js", "edge_runtime/page/style.css"} <= modules
    assert "edge_runtime/recipes/moonshine-tiny-en.toml" in recipes

    files, info = split(wheel)

    units = {
        f"edge_runtime/units/{path.name}"
        for path in (ROOT / "systemd").iterdir()
        if path.suffix != ".md"
    }
    assert "edge_runtime/units/edge-runtime.service" in units
    data = {"edge_runtime/py.typed", "edge_runtime/clips/demo.flac"}
    assert files == modules | recipes | units | data
    assert info == {
        "METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE", "licenses/NOTICE",
    }  # fmt: skip


def test_clip_and_recipes_are_the_checkout_s_own(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for inside, outside in (
            ("edge_runtime/clips/demo.flac", "audio/demo.flac"),
            ("edge_runtime/recipes/silero-vad.toml", "engines/silero-vad.toml"),
        ):
            assert archive.read(inside) == (ROOT / outside).read_bytes()


def test_an_editable_install_copies_nothing(tmp_path: Path) -> None:
    files, _ = split(build(tmp_path, "editable"))
    assert files == {"_edge_runtime.pth"}


def test_installed_it_finds_its_recipes_and_its_clip(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", str(site), str(wheel)], check=True)
    code = (
        "import edge_runtime, pathlib;"
        "from edge_runtime.engines.recipe import recipes, load_recipe;"
        "package = pathlib.Path(edge_runtime.__file__).parent;"
        "print(package, *recipes(), load_recipe('moonshine-tiny-en').name,"
        " (package / 'clips' / 'demo.flac').is_file())"
    )
    said = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    names = sorted(path.stem for path in (ROOT / "engines").glob("*.toml"))
    assert said == [str(site / "edge_runtime"), *names, "moonshine-tiny-en", "True"]
    assert (site / "bin" / "edge-runtime").is_file()
