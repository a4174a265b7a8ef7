"""Every call of TensorRT is in the table of docs/tensorrt.md, and every row of it is used."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from edge_runtime.device.tensorrt import find_tensorrt, installed
from tests.unit.device.tensorrt_uses import PARAMETERS, RESULTS, arguments, uses

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "tensorrt.md"
FILES = sorted(
    path
    for pattern in ("device/tensorrt/*.py", "engines/build*.py", "engines/build/*.py")
    for path in (ROOT / "edge_runtime").glob(pattern)
)


@dataclass
class Row:
    """A line of the table: since when TensorRT has it, whether 11 still has it and RTX, too."""

    call: str
    since: str
    later: str
    rtx: str


def used() -> dict[str, str]:
    """Everything that the package uses of TensorRT, and where it does so first."""
    found: dict[str, str] = {}
    for path in FILES:
        for call, line in uses(path).items():
            found.setdefault(call, f"{path.relative_to(ROOT)}:{line}")
    return found


def table() -> Iterator[Row]:
    """The rows whose first cell is `Class.name`."""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if match := re.match(r"\| `(\w+\.\w+)` \|(.*)\|$", line):
            since, later, rtx, *_ = (cell.strip() for cell in match[2].split("|"))
            yield Row(match[1], since, later, rtx)


def removed() -> set[str]:
    """What the page says that TensorRT 11 has no more."""
    text = PAGE.read_text(encoding="utf-8")
    section = text.split("## What TensorRT 11 removed")[1].split("\n## ")[0]
    return set(re.findall(r"`(\w+\.\w+)`", section))


@pytest.fixture(scope="module")
def real() -> ModuleType:
    if "tensorrt_rtx" not in installed():
        pytest.skip("TensorRT-RTX is not installed here: pip install .[rtx]")
    return find_tensorrt("tensorrt_rtx").api


def test_the_table_is_complete() -> None:
    rows = {row.call for row in table()}
    missing = {call: where for call, where in used().items() if call not in rows}
    assert not missing, f"not in {PAGE.name}: {missing}"


def test_nothing_in_the_table_is_unused() -> None:
    rows = [row.call for row in table()]
    assert len(rows) == len(set(rows))
    assert not set(rows) - set(used())


def test_the_oldest_supported_version_has_it_all() -> None:
    for row in table():
        if row.since != "–":
            assert release(row.since) <= (10, 3), row
        else:
            assert row.rtx.startswith("yes"), row


def test_nothing_that_tensorrt_11_removed_is_used() -> None:
    gone = removed()
    assert len(gone) > 30
    assert not gone & {row.call for row in table()}
    # By its bare name as well: an object whose class nobody could tell.
    bare = {call.split(".")[1] for call in gone if "_" in call.split(".")[1]}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                assert node.attr not in bare, f"{path}:{node.lineno}: {node.attr}"


def test_nothing_untyped_is_unknown() -> None:
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef):
                continue
            where = f"{path}:{node.lineno}: {node.name}"
            for each in arguments(node):
                if each.annotation is not None and ast.unparse(each.annotation) == "Any":
                    assert each.arg in PARAMETERS, f"{where}: what is {each.arg}?"
            if node.returns is not None and ast.unparse(node.returns) == "Any":
                assert node.name in RESULTS, f"{where}: what does it give?"


def test_tensorrt_rtx_has_what_the_table_says(real: ModuleType) -> None:
    for row in table():
        owner, name = row.call.split(".")
        found = hasattr(getattr(real, owner, None), name)
        # What the library calls of ours need not be a method of its own class.
        assert found == row.rtx.startswith("yes") or "called" in row.rtx, row


def test_no_name_of_tensorrt_slips_through(real: ModuleType) -> None:
    """Names that only TensorRT has are in the table, on whatever object they are used."""
    theirs = {
        name
        for owner in vars(real).values()
        if inspect.isclass(owner) and owner.__module__.startswith("tensorrt_rtx")
        for name in dir(owner)
        if "_" in name.strip("_") and not name.startswith("_")
    }
    rows = {row.call.split(".")[1] for row in table()}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in theirs:
                assert node.attr in rows, f"{path}:{node.lineno}: {node.attr}"


def test_versions_are_of_the_form_that_people_write() -> None:
    for row in table():
        assert row.since == "–" or re.fullmatch(r"≤ 8\.6|\d+\.\d+", row.since), row
        assert row.later in ("yes", "–"), row
        assert row.rtx in ("yes", "no", "called"), row


def release(text: str) -> tuple[int, int]:
    major, minor = text.removeprefix("≤ ").split(".")
    return int(major), int(minor)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def f(trt: Any):\n    b = trt.Builder(1)\n    b.reset()", {"Builder.reset"}),
        (
            (
                "def f(tensorrt):\n    c = tensorrt.api.Builder(1).create_builder_config()\n"
                "    if c.flags:\n        c.l2 = 3"
            ),
            {"Builder.create_builder_config", "IBuilderConfig.flags", "IBuilderConfig.l2"},
        ),
        (
            (
                "def f(network: Any):\n    return [t.dtype.itemsize for t in "
                "[network.get_input(n) for n in range(3)]]"
            ),
            {"INetworkDefinition.get_input", "ITensor.dtype", "DataType.itemsize"},
        ),
        (
            (
                "def f(api: Any):\n    base = api.ILogger\n    class L(base):\n"
                "        def log(self, severity: Any):\n            severity.value"
            ),
            {"ILogger.log", "Severity.value"},
        ),
        ("def f(trt: Any):\n    getattr(trt.BuilderFlag, 'FP16', None)", {"BuilderFlag.FP16"}),
        (
            (
                "def f(e: Engine):\n    api, raw = e.tensorrt.api, e.raw\n"
                "    return raw.get_tensor_mode(0) == api.TensorIOMode.INPUT"
            ),
            {"ICudaEngine.get_tensor_mode", "TensorIOMode.INPUT"},
        ),
        ("class C:\n    def f(self):\n        self._context.engine", {"IExecutionContext.engine"}),
        ("def f(severity: Any):\n    severity.name", set()),
        ("def f(engine: Engine):\n    engine.anything", set()),
    ],
)
def test_what_is_used_is_found(tmp_path: Path, text: str, found: set[str]) -> None:
    path = tmp_path / "any.py"
    path.write_text(text)
    assert set(uses(path)) == found
