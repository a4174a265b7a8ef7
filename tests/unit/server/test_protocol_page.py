"""docs/protocol.md names all messages, fields, errors and close codes; README's are real ones."""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from pathlib import Path

import pytest

from edge_runtime import events
from edge_runtime.server.guest import _CLOSE_CODES

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "protocol.md").read_text()
RECORDS = [*events.Event.__subclasses__(), *events.Request.__subclasses__()]


RECORDINGS = {"uploads.py", "form.py"}
"""What these raise is answered over HTTP, and is in docs/dialects.md."""


def raised(*, recordings=False):
    """(code, close code) of every ProtocolError that the server's source makes."""
    found = set()
    for path in (ROOT / "edge_runtime" / "server").glob("*.py"):
        if (path.name in RECORDINGS) != recordings:
            continue
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


def test_errors_of_recordings_are_on_the_page_of_dialects():
    page = (ROOT / "docs" / "dialects.md").read_text()
    codes = raised(recordings=True)
    assert len(codes) > 5
    for code, _ in codes:
        assert re.search(rf"^\| \d{{3}} \|.*`{code}`", page, re.M), code


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


def test_the_session_in_the_readme_is_one():
    """Every line is a message as we write it, and stable text is kept to."""
    readme = (ROOT / "README.md").read_text()
    requests = [events.decode_request(line) for line in re.findall(r"^→ (\{.*)$", readme, re.M)]
    assert [type(request) for request in requests] == [events.Start, events.Stop]
    lines = re.findall(r"^← (\{.*)$", readme, re.M)
    said = [events.decode_event(line) for line in lines]
    assert [events.encode(event).decode() for event in said] == lines
    ready, *turn, closed = said
    assert isinstance(ready, events.Ready)
    assert isinstance(closed, events.Closed)
    numbers = range(turn[0].seq, turn[0].seq + len(turn) + 1)
    assert [event.seq for event in (*turn, closed)] == list(numbers)
    assert [type(event) for event in turn if not isinstance(event, events.Partial)] == [
        events.SpeechStart, events.Final, events.SpeechEnd,
    ]  # fmt: skip
    stable = [event.stable for event in turn if isinstance(event, events.Partial)]
    stable += [event.text for event in turn if isinstance(event, events.Final)]
    assert any(stable[:-1])
    assert all(later.startswith(earlier) for earlier, later in pairwise(stable))
