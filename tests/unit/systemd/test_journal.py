"""Log lines with the priorities of the journal, where it reads them and only there."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import pytest

from edge_runtime.systemd import journal


@pytest.mark.parametrize(
    ("level", "priority"),
    [("CRITICAL", 2), ("ERROR", 3), ("WARNING", 4), ("INFO", 6), ("DEBUG", 7)],
)
def test_each_level_has_its_priority(level, priority) -> None:
    record = logging.makeLogRecord({"name": "a", "levelno": getattr(logging, level), "msg": "hm"})
    assert journal.Lines().format(record) == f"<{priority}>a: hm"


def test_a_traceback_is_as_urgent_as_its_message() -> None:
    try:
        int("two\nlines")
    except ValueError:
        record = logging.makeLogRecord(
            {"name": "a", "levelno": logging.ERROR, "msg": "hm", "exc_info": sys.exc_info()}
        )
    lines = journal.Lines().format(record).splitlines()
    assert len(lines) > 3
    assert all(line.startswith("<3>") for line in lines)


def test_it_listens_where_its_stream_is_standard_error(tmp_path) -> None:
    with (tmp_path / "journal").open("w") as file:
        found = os.fstat(file.fileno())
        stream = {"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"}
        assert journal.listens(stream, file.fileno())
        assert not journal.listens({"JOURNAL_STREAM": "1:2"}, file.fileno())
        assert not journal.listens({}, file.fileno())
    assert not journal.listens(stream, 987)


def test_the_program_complains_to_the_journal_with_a_priority(tmp_path) -> None:
    path, config = tmp_path / "journal", str(tmp_path / "none.toml")
    with path.open("w") as file:
        found = os.fstat(file.fileno())
        subprocess.run(
            [sys.executable, "-m", "edge_runtime", "serve", "--config", config],
            stderr=file,
            check=False,
            env={**os.environ, "JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"},
        )
    error, fix = path.read_text().splitlines()
    assert error == f"<3>error: {config} does not exist"
    assert fix.startswith("<3>fix:   Check")
