"""The fake of TensorRT has no name and no parameter that the real module has not."""

import enum
import inspect
import re
from types import ModuleType
from typing import Any

import pytest

from edge_runtime.device.tensorrt import find_tensorrt, installed
from edge_runtime.device.tensorrt.logger import make_logger
from tests.fakes import tensorrt as fake

# What is a test's own in it.
OURS = {"MAGIC", "Plan", "connect", "profile"}
CLASSES = {
    name: value
    for name, value in vars(fake).items()
    if inspect.isclass(value) and value.__module__ == fake.__name__ and not name.startswith("_")
    and name not in OURS
}  # fmt: skip
MEMBERS = [
    (name, member)
    for name, value in CLASSES.items()
    for member in (value.__members__ if issubclass(value, enum.Enum) else vars(value))
    if not member.startswith("_")
]


@pytest.fixture(scope="module")
def real() -> ModuleType:
    if "tensorrt_rtx" not in installed():
        pytest.skip("TensorRT-RTX is not installed here: pip install .[rtx]")
    return find_tensorrt("tensorrt_rtx").api


def test_all_of_the_fake_is_looked_at() -> None:
    public = {name for name in vars(fake) if not name.startswith("_")}
    imported = {name for name in public if inspect.ismodule(getattr(fake, name))}
    borrowed = {"Any", "Enum", "Mapping", "Path", "Sequence", "asdict", "dataclass", "field"}
    known = set(CLASSES) | OURS | imported | borrowed | {"annotations", "Ranges"}
    assert public <= known
    assert len(MEMBERS) > 50


@pytest.mark.parametrize(("owner", "member"), MEMBERS, ids=[".".join(each) for each in MEMBERS])
def test_a_name_is_real(real: ModuleType, owner: str, member: str) -> None:
    mine = inspect.getattr_static(CLASSES[owner], member)
    theirs = inspect.getattr_static(getattr(real, owner), member, None)
    if theirs is None:  # inherited
        theirs = getattr(getattr(real, owner), member)
    if isinstance(mine, property):
        assert isinstance(theirs, property)
        if mine.fset is not None:
            assert theirs.fset is not None
    elif inspect.isfunction(mine):
        assert parameters(mine) in signatures(theirs)


def test_what_is_set_is_real(real: ModuleType) -> None:
    """Properties that the fake has as plain attributes."""
    for name, value in vars(fake.IRuntimeConfig()).items():
        if not name.startswith("_"):
            assert getattr(real.IRuntimeConfig, name).fset is not None
            assert type(value).__name__ in vars(real)


def test_severities_are_real(real: ModuleType) -> None:
    assert set(fake.ILogger.Severity.__members__) == set(real.ILogger.Severity.__members__)


def parameters(function: Any) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]


def signatures(function: Any) -> list[list[str]]:
    """The parameters of each overload, as the bindings' docstring tells them."""
    name = function.__name__
    found = []
    for line in function.__doc__.splitlines():
        match = re.match(rf"(?:\d+\. )?{name}\((.*)\) -> ", line.strip())
        if match:
            found.append([each for each in names(match[1]) if each != "self"])
    return found


def names(arguments: str) -> list[str]:
    """The names in `self: a.B, name: str, shape: list[int, int] = (1, 2)`."""
    flat = arguments
    while (flatter := re.sub(r"\[[^\[\]]*\]|\([^()]*\)|<[^<>]*>", "", flat)) != flat:
        flat = flatter
    return [each.split(":")[0].strip() for each in flat.split(",") if each.strip()]


def test_names_in_docstrings() -> None:
    text = "self: a.B, sizes: list[tuple[int, str]], kind: a.K = <K.ONE: 0>, at: int = f(1, 2)"
    assert names(text) == ["self", "sizes", "kind", "at"]


def test_the_real_module_makes_what_we_subclass(
    real: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    """A logger and an allocator of ours are taken by it, and a plan that is none is refused."""
    from edge_runtime.device.tensorrt.allocator import make_allocator

    tensorrt = find_tensorrt("tensorrt_rtx")
    said: list[str] = []

    class Heard:
        def said(self, message: str) -> None:
            said.append(message)

    class Memory:
        def take(self, size: int) -> int:
            raise AssertionError(size)

        def give(self, pointer: int) -> None:
            raise AssertionError(pointer)

    logger = make_logger(tensorrt, said.append)
    allocator = make_allocator(tensorrt, Memory(), Heard())  # type: ignore[arg-type]
    runtime = real.Runtime(logger)
    runtime.gpu_allocator = allocator
    assert runtime.deserialize_cuda_engine(b"no plan at all, of a hundred bytes or so" * 3) is None
    assert "Serialization" in said[0]
    assert said[0] in caplog.text
