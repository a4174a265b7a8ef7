"""docs/protocol.md names every message, field, error and close code that there is."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from edge_runtime import events
from edge_runtime.server.guest import _CLOSE_CODES

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "protocol.md").read_text()
RECORDS = [*events.Event.__subclasses__(), *events.Request.__subclasses__()]


def raised():
    """(code, close code) of every ProtocolError that the server's source makes."""
    found = set()
    for path in (ROOT / "edge_runtime" / "server").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "ProtocolError"
                and isinstance(node.args[0], ast.Constant)
            ):
                close = node.args[3].value if len(node.args) > 3 else 1008
                found.add((node.args[0].value, close))
    return sorted(found)


@pytest.mark.parametrize("record", RECORDS)
def test_every_field_is_in_the_row_of_its_message(record):
    name = record.__struct_config__.tag
    if record is events.Start:
        rows = re.findall(r"^\| `(\w+)` \|", PAGE, re.M)
        assert set(events.Start.__struct_fields__) <= set(rows)
        return
    (row,) = re.findall(rf"^\| `{name}` \|(.*)$", PAGE, re.M)
    for field in set(record.__struct_fields__) - {"seq"}:
        assert f"`{field}`" in row, field


def test_every_error_is_in_the_table_with_its_close_code():
    codes = raised()
    assert len(codes) > 10
    for code, close in codes:
        (row,) = re.findall(rf"^\| (`{code}` \|.*|.*, `{code}` \|.*)$", PAGE, re.M)
        assert str(close) in row, code


@pytest.mark.parametrize("code", ["full", "slow_client", "bad_json", "device", "internal"])
def test_errors_from_elsewhere_are_in_the_table(code):
    assert re.search(rf"^\|.*`{code}`.*\| 1\d{{3}} \|", PAGE, re.M)


@pytest.mark.parametrize("reason", _CLOSE_CODES)
def test_every_reason_to_close_is_named(reason):
    assert f"`{reason}`" in PAGE


def test_every_encoding_and_rate_is_named():
    from edge_runtime.audio.codec import RATES
    from edge_runtime.server.requests import ENCODINGS

    for each in (*ENCODINGS, *map(str, RATES)):
        assert each in PAGE
