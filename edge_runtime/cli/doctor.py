"""`edge-runtime doctor`: what is wrong with this machine, why, and the command that mends it."""

from __future__ import annotations

import contextlib
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edge_runtime.cli.options import Settings

if TYPE_CHECKING:
    from edge_runtime.doctor import Facts, Finding
    from edge_runtime.doctor.probes import Probe

EXAMPLES = """\
edge-runtime doctor                          what is fine, what is not, and what to do
edge-runtime doctor --config kiosk.toml      by these settings
edge-runtime doctor --json                   findings and facts, for scripts and reports
sudo --user=edge-runtime edge-runtime doctor         as the user of the service
edge-runtime doctor > /dev/null || echo "this machine needs attention\""""

_COLOURS = {"ok": "green", "warning": "yellow", "error": "red"}
_INDENT = 9  # after the level
_WIDEST = 100


def doctor(
    config: Settings = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write JSON: findings, and the facts they follow from.")
    ] = False,
    root: Annotated[
        Path | None, typer.Option(metavar="DIR", hidden=True, help="A recorded machine.")
    ] = None,
) -> None:
    """Look for what keeps this machine from serving, or from serving well.

    Nothing is changed. The exit code is 0 where nothing is wrong (warnings may be), 1 where
    something is, 2 on wrong usage.
    """
    import msgspec

    from edge_runtime.doctor import Survey, judge

    if root is not None:
        from edge_runtime.doctor.recorded import RecordedMachine

        RecordedMachine(root)  # whether it is one
    survey = Survey(str(config or ""), str(root or ""))
    with _watching() as watch:
        facts = survey.run(watch)
    findings = judge(facts)
    count = {level: sum(each.level == level for each in findings) for level in _COLOURS}
    if as_json:
        whole = {
            "errors": count["error"],
            "warnings": count["warning"],
            "findings": findings,
            "facts": facts,
        }
        typer.echo(msgspec.json.format(msgspec.json.encode(whole)))
    else:
        _show(_title(facts), findings)
    raise typer.Exit(1 if count["error"] else 0)


@contextlib.contextmanager
def _watching() -> Iterator[Callable[[Probe], None]]:
    """What is looked at now, in a line that goes away; nothing where it would stay."""
    if not sys.stderr.isatty():
        yield lambda probe: None
        return
    from rich.console import Console

    with Console(stderr=True).status("looking") as status:
        yield lambda probe: status.update(f"looking at {probe.what}")


def _title(facts: Facts) -> str:
    from edge_runtime import __version__

    parts = [f"edge-runtime {__version__}"]
    if facts.jetson is not None and facts.jetson.model:
        parts.append(facts.jetson.model)
    elif facts.card is not None and facts.card.name:
        parts.append(facts.card.name)
    if facts.python is not None:
        parts.append(facts.python.machine)
    return ", ".join(parts)


def _show(title: str, findings: Sequence[Finding]) -> None:
    """At a terminal in colours and as wide as it is; in a pipe each thing on one line."""
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True, highlight=False)
    width = min(console.width, _WIDEST) if console.is_terminal else 0
    console.print(Text(_wrapped(title, width, 0), style="bold"))
    for each in findings:
        level = Text(f"{each.level:{_INDENT}}", style=_COLOURS[each.level])
        console.print(level + Text(_wrapped(f"{each.check}: {each.what}", width, _INDENT)))
        if each.level != "ok":
            lead = " " * _INDENT
            console.print(Text(f"{lead}why: {_wrapped(each.why, width, _INDENT + 5)}"))
            # A command stays on one line, so that it can be copied.
            console.print(Text(f"{lead}fix: ") + Text(each.fix, style="bold"))
    console.print(Text(_summary(findings)))


def _wrapped(text: str, width: int, indent: int) -> str:
    """Lines of at most `width` columns, of which `indent` are taken; 0 is any."""
    if not width:
        return text
    lines = textwrap.wrap(
        text, max(20, width - indent), break_long_words=False, break_on_hyphens=False
    )
    return ("\n" + " " * indent).join(lines)


def _summary(findings: Sequence[Finding]) -> str:
    errors = [each for each in findings if each.level == "error"]
    warnings = [each for each in findings if each.level == "warning"]
    counted = f"{_counted(len(errors), 'error')}, {_counted(len(warnings), 'warning')}"
    worst = [*errors, *warnings]
    if not worst:
        return f"{counted}: nothing is in the way\nNext: edge-runtime serve"
    return f"{counted}\nNext: {worst[0].fix}\n      then again: edge-runtime doctor"


def _counted(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"
