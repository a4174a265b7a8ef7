"""Every command that a page shows is one: the program takes its name, options and values."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from edge_runtime import cli
from edge_runtime.config import Computing

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("systemd/*")]
CALL = re.compile(r"(?:^|[\s/])edge-runtime(?:-jetson)? (?=[a-z])(?!edge-runtime)([^#|&;>\n`]*)")
JETSON = (ROOT / "docs" / "jetson.md").read_text()


def blocks(text: str) -> list[str]:
    """The code of a page: blocks as they are, and what stands between backticks; a unit is code."""
    fenced = re.findall(r"^```\w*\n(.*?)^```$", text, re.M | re.S)
    indented = re.findall(r"^    (?! )(.*)$", text, re.M)
    inline = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))
    settings = re.findall(r"^ExecStart=(.*)$", text, re.M)
    return [block.replace("\\\n", " ") for block in (*fenced, *indented, *inline, *settings)]


def calls() -> list[tuple[str, str]]:
    """(page, arguments) of every call of the program."""
    found = [
        (str(page.relative_to(ROOT)), line.strip())
        for page in PAGES
        for block in blocks(page.read_text())
        for line in CALL.findall(block)
    ]
    return list(dict.fromkeys(found))


def parse(line: str) -> None:
    """Parse arguments as the program does, running nothing; raises what is wrong with them."""
    name, *rest = shlex.split(line)
    assert name in cli.COMMANDS, f"No such command {name}"
    command = cli._load(name)
    if hasattr(command, "commands"):
        name, *rest = rest or [""]
        assert name in command.commands, f"No such command {name!r}"
        command = command.commands[name]
    command.make_context(name, rest)


@pytest.mark.parametrize(("page", "line"), calls())
def test_a_page_shows_commands_that_are(page, line) -> None:
    parse(line)


@pytest.mark.parametrize(
    "line", ["biuld X", "build X --presicion fp16", "build X --precision int4", "engines exprot X"]
)
def test_what_is_no_command_is_found(line) -> None:
    with pytest.raises(Exception, match=r"No such|Invalid value|not one of"):
        parse(line)


def test_the_page_of_the_jetson_is_among_them() -> None:
    shown = [line for page, line in calls() if page == "docs/jetson.md"]
    for command in ("pull", "build", "serve", "engines export", "engines import", "engines verify"):
        assert any(line.startswith(command) for line in shown), command


def test_extras_that_are_installed_are_extras() -> None:
    (known,) = re.findall(
        r"^\[project\.optional-dependencies\]\n(.*?)^\[",
        (ROOT / "pyproject.toml").read_text(),
        re.M | re.S,
    )
    extras = set(re.findall(r"^(\w+) = \[", known, re.M))
    shown = {
        extra
        for page in PAGES
        for group in re.findall(r"'(?:\.|/src|edge-runtime)\[([\w,]+)\]'", page.read_text())
        for extra in group.split(",")
    }
    assert {"mic", "jetson6", "jetson7"} <= shown
    assert shown <= extras


def test_its_keys_are_keys() -> None:
    (table,) = re.findall(r"^\| `\[computing\]` \|.*?(?=^\n)", JETSON, re.M | re.S)
    keys = re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`[^|]*) \|", table, re.M)))
    assert set(keys) - set(Computing.__struct_fields__) == set()
    assert {"memory_mb", "priority", "keep_warm_ms", "lanes", "precision"} <= set(keys)


def test_its_messages_are_those_of_the_code() -> None:
    source = "\n".join(path.read_text() for path in (ROOT / "edge_runtime").rglob("*.py"))
    source = re.sub(r'"\s*\n\s*f?"', "", source)  # literals that are written over two lines
    rows = re.findall(r"^\| `([^`]+)`[^|]*\| edge-runtime \|", JETSON, re.M)
    assert len(rows) > 15
    for message in rows:
        for part in message.split("…"):
            # What the system's loader says comes after the colon.
            said = part.split(": lib")[0].split(" libnv")[0].strip().removeprefix("CUDA_ERROR_")
            assert said.strip(" :") in source, message
