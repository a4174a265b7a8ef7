"""TensorRT is found by name or in order, and what is wrong with it is said."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge_runtime.device.tensorrt import TensorRT, find_tensorrt, installed, module
from edge_runtime.errors import ConfigError, MissingExtra

NAMES = ("tensorrt", "tensorrt_rtx", "tensorrt_rtx_bindings", "tensorrt_rtx_libs")


class Site:
    """A folder of packages, and no other TensorRT than those in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, name: str, text: str) -> Path:
        package = self.folder / name
        package.mkdir()
        (package / "__init__.py").write_text(text)
        return package


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    loaded = {name: sys.modules.pop(name) for name in list(sys.modules) if name in NAMES}
    real = importlib.util.find_spec

    def find_spec(name: str) -> object:
        return real(name) if name not in NAMES or (tmp_path / name).is_dir() else None

    monkeypatch.setattr(module.importlib.util, "find_spec", find_spec)
    monkeypatch.syspath_prepend(tmp_path)
    yield Site(tmp_path)
    for name in NAMES:
        sys.modules.pop(name, None)
    sys.modules.update(loaded)


def test_the_first_that_is_there(site: Site) -> None:
    site.add("tensorrt_rtx", "__version__ = '1.7.1.116'\nMINE = 2")
    assert installed() == ("tensorrt_rtx",)
    assert find_tensorrt().flavour == "tensorrt_rtx"
    site.add("tensorrt", "__version__ = '10.3.0'\nMINE = 1")
    importlib.invalidate_caches()
    assert installed() == ("tensorrt", "tensorrt_rtx")
    found = find_tensorrt()
    assert (found.flavour, found.version, found.api.MINE) == ("tensorrt", "10.3.0", 1)
    assert (found.release, found.label) == ((10, 3), "tensorrt 10.3")
    assert find_tensorrt("tensorrt_rtx").api.MINE == 2


def test_looking_imports_nothing(site: Site) -> None:
    site.add("tensorrt", "raise SystemExit")
    assert installed() == ("tensorrt",)
    assert "tensorrt" not in sys.modules


def test_the_bindings_alone_find_their_libraries(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    libraries = site.add("tensorrt_rtx_libs", "")
    site.add("tensorrt_rtx_bindings", "__version__ = '1.7.1.116'")
    loaded: list[tuple[str, int]] = []
    monkeypatch.setattr(module.ctypes, "CDLL", lambda *how: loaded.append(how))
    assert find_tensorrt() == TensorRT(
        "tensorrt_rtx", "1.7.1.116", sys.modules["tensorrt_rtx_bindings"]
    )
    assert loaded == [
        (str(libraries / "libtensorrt_rtx.so.1"), module.ctypes.RTLD_GLOBAL),
        (str(libraries / "libtensorrt_onnxparser_rtx.so.1"), module.ctypes.RTLD_GLOBAL),
    ]


def test_bindings_without_a_package_of_libraries_look_for_themselves(site: Site) -> None:
    site.add("tensorrt_rtx_bindings", "__version__ = '1.7.1.116'")
    assert find_tensorrt("tensorrt_rtx").version == "1.7.1.116"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("auto", r"tensorrt or tensorrt_rtx is not installed.*JetPack.*pip install tensorrt"),
        ("tensorrt", r"tensorrt is not installed.*--system-site-packages"),
        ("tensorrt_rtx", r"tensorrt_rtx is not installed.*'edge-runtime\[rtx\]'"),
    ],
)
def test_what_is_not_there(site: Site, name: str, said: str) -> None:
    assert installed() == ()
    with pytest.raises(MissingExtra, match=said):
        find_tensorrt(name)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise OSError('libnvinfer.so.10: cannot open')", "does not load: libnvinfer.so.10"),
        ("import no_such_module", "does not load: No module named"),
        ("", "does not load: .*__version__"),
    ],
)
def test_what_does_not_load(site: Site, text: str, said: str) -> None:
    site.add("tensorrt", text)
    with pytest.raises(MissingExtra, match=said):
        find_tensorrt()


def test_libraries_that_do_not_load(site: Site) -> None:
    site.add("tensorrt_rtx_libs", "")
    site.add("tensorrt_rtx_bindings", "__version__ = '1.7.1.116'")
    with pytest.raises(MissingExtra, match=r"tensorrt_rtx_bindings does not load: .*librtx|\.so"):
        find_tensorrt()


def test_an_unknown_name() -> None:
    with pytest.raises(ConfigError, match=r"'trt'.*auto, tensorrt, tensorrt_rtx"):
        find_tensorrt("trt")
