"""docs/configuration.md lists every key with its default and its range, and nothing else."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import msgspec
import pytest

from edge_runtime.config import RESERVED, TABLES, Admitting, Computing, Config, Profile
from edge_runtime.errors import ConfigError

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
RECORDS = {table: type(getattr(Config(), table)) for table in TABLES}
RECORDS["microphones.NAME"] = Profile
ROW = re.compile(r"^\| `(\w+)` \| `([^`]+)` \| (?:(\S+) to (\S+))? ?\| (.+) \|$", re.M)


def rows(table):
    """(key, default, lowest, highest, meaning) of each row under the table's heading."""
    (section,) = re.findall(rf"^## `\[{table}\]`.*?(?=^## )", PAGE, re.M | re.S)
    return ROW.findall(section)


ALL = [(table, *row) for table in RECORDS for row in rows(table)]


def test_every_table_has_a_section():
    assert re.findall(r"^## `\[([\w.]+)\]`", PAGE, re.M) == list(RECORDS)


@pytest.mark.parametrize("table", RECORDS)
def test_every_key_has_its_row_and_its_default(table):
    written = {key: json.loads(default) for key, default, *_ in rows(table)}
    assert written == msgspec.structs.asdict(RECORDS[table]())
    assert list(written) == list(RECORDS[table].__struct_fields__)


@pytest.mark.parametrize(("table", "key", "default", "low", "high", "meaning"), ALL)
def test_the_range_is_what_is_taken(table, key, default, low, high, meaning):
    value = json.loads(default)
    assert bool(low) == (not isinstance(value, (str, bool)))
    if not low:
        return
    # the cut is looked for inside the segment
    other = {"cap_ms": {"search_ms": 200}, "search_ms": {"cap_ms": 30_000}}.get(key, {})
    kind, record = type(value), RECORDS[table]
    lowest, highest = kind(float(low)), kind(float(high))
    for good in (lowest, highest):
        assert getattr(record(**{key: good}, **other), key) == good
    beyond = (lowest - 1, highest + 1)
    if kind is float:
        beyond = (math.nextafter(lowest, -math.inf), math.nextafter(highest, math.inf))
    for bad in beyond:
        with pytest.raises(ConfigError, match=rf"{table}\.{key} is "):
            record(**{key: bad}, **other)


@pytest.mark.parametrize(
    ("key", "meaning"),
    [(row[1], row[-1]) for row in ALL if row[0] == "computing" and row[2][0] == '"']
    + [(row[1], row[-1]) for row in ALL if row[:2] == ("admitting", "keys")],
)
def test_the_words_that_a_key_takes_are_named(key, meaning):
    record = Admitting if key == "keys" else Computing
    with pytest.raises(ConfigError, match=rf"\.{key} is '\?'") as caught:
        record(**{key: "?"})
    for word in caught.value.fix.removeprefix("Choose one of ").rstrip(".").split(", "):
        assert f"`{word}`" in meaning


def test_the_other_variables_are_named():
    assert set(re.findall(r"^\| `(EDGE_RUNTIME_\w+)` \|", PAGE, re.M)) == RESERVED
