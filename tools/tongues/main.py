"""Which languages, and where what was heard is kept; the table at the end."""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import soundfile

from edge_runtime.audio import RATE
from edge_runtime.bench import peer
from edge_runtime.bench.hardware import hardware
from tongues import clips, judge, prompts

COUNT = 3
"""Clips of each language."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Hear what was not heard before, print the table."""
    parser = argparse.ArgumentParser(prog="languages")
    parser.add_argument("folder", type=Path, help="keeps packages, clips, and what was heard")
    parser.add_argument("--languages", default="", help="only these: cs,nl,…")
    parser.add_argument("--model", default="whisper-base")
    parser.add_argument("--peer", action="store_true", help="faster-whisper on the same clips, too")
    parser.add_argument("--json", type=Path, help="write all of it here")
    options = parser.parse_args(arguments)
    wanted = [name for name in options.languages.split(",") if name]
    sources = [each for each in prompts.SOURCES if not wanted or each.language in wanted]
    if len(sources) < len(wanted):
        known = ", ".join(each.language for each in prompts.SOURCES)
        parser.error(f"choose from {known}")
    made = Making(options.folder, options.model)
    found = [(source, made.heard(source)) for source in sources]
    if options.peer:
        made.ask([each for _, heard in found for each in heard])
    rows = [judge.row(each.language, heard, words=each.words) for each, heard in found]
    _print(rows)
    if options.json:
        options.json.write_text(_report(options.model, found, rows), encoding="utf-8")
    return 0


class Making:
    """Clips of a language, and what is heard in them: kept in a folder, made once."""

    def __init__(self, folder: Path, model: str) -> None:
        self._folder, self._model = folder, model
        self._judge: judge.Judge | None = None

    def heard(self, source: prompts.Source) -> list[judge.Heard]:
        """Of each clip."""
        return [self._once(each) for each in self._clips(source)]

    def ask(self, heard: Sequence[judge.Heard]) -> None:
        """What the other system hears in those clips where it was not asked before."""
        name = "faster-whisper-base"
        child = [str(peer.environment(name)), str(Path(__file__).with_name("peer.py"))]
        left = [each for each in heard if not each.peer]
        with subprocess.Popen(
            [*child, *peer.known(name).arguments[1:], *(str(self._file(each)) for each in left)],
            stdout=subprocess.PIPE, text=True,
        ) as asked:  # fmt: skip
            assert asked.stdout is not None
            for each, line in zip(left, asked.stdout, strict=True):
                each.peer = json.loads(line)
                self._keep(each)

    def _once(self, heard: judge.Heard) -> judge.Heard:
        """With what we hear, now or before."""
        kept = self._kept(heard)
        if kept.is_file():
            return judge.Heard(**json.loads(kept.read_text()))
        self._judge = self._judge or judge.Judge(self._model)
        self._judge.hear(heard, self._file(heard))
        self._keep(heard)
        return heard

    def _kept(self, heard: judge.Heard) -> Path:
        return self._folder / "heard" / self._model / f"{Path(heard.clip).stem}.json"

    def _keep(self, heard: judge.Heard) -> None:
        kept = self._kept(heard)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(judge.record(heard), ensure_ascii=False))

    def _file(self, heard: judge.Heard) -> Path:
        return self._folder / "clips" / heard.clip

    def _clips(self, source: prompts.Source) -> list[judge.Heard]:
        made = []
        listed = source.prompts(self._folder)
        for number, clip in enumerate(clips.clips(listed, COUNT, words=source.words), 1):
            heard = judge.Heard(
                f"{source.language}-{number}.flac", round(clip.seconds, 2), clip.names, clip.text
            )
            self._file(heard).parent.mkdir(parents=True, exist_ok=True)
            soundfile.write(self._file(heard), clip.samples, RATE)
            made.append(heard)
        return made


COLUMNS = (
    ("language", "language"), ("kind", "kind"), ("clips", "clips"), ("right", "right"),
    ("heard", "found"), ("script %", "script"), ("words wrong %", "wer"),
    ("finals right %", "finals_right"), ("peer right", "peer_right"), ("as ours", "peer_same"),
    ("probability", "probability"), ("peer words wrong %", "peer_wer"),
)  # fmt: skip


def _print(rows: list[dict[str, Any]]) -> None:
    print("  ".join(heading for heading, _ in COLUMNS))
    for row in rows:
        cells = []
        for heading, name in COLUMNS:
            value = row.get(name)
            shown = ",".join(value) if isinstance(value, list) else value
            cells.append(f"{'–' if shown is None else shown:<{len(heading)}}")
        print("  ".join(cells))
    for kind in ("sentences", "words"):
        of = [row for row in rows if row["kind"] == kind]
        good = sum(2 * row["right"] > row["clips"] for row in of)
        if of:
            print(f"{kind}: {good} of {len(of)} languages right in most of their clips")


def _report(
    model: str, found: list[tuple[prompts.Source, list[judge.Heard]]], rows: list[dict[str, Any]]
) -> str:
    machine = hardware()
    report = {
        "model": model,
        "hardware": machine.record(),
        "rule": (
            f"prompts in the order of their paths, of {clips.LEAST_WORDS} words or more and "
            f"without digits or brackets (single words: all), joined with {clips.PAUSE} s between "
            f"them to {clips.SHORTEST:g} to {clips.LONGEST:g} s; the first {COUNT} clips"
        ),
        "languages": [
            {
                **row,
                "packages": source.packages,
                "licence": source.licence,
                "speakers": source.speakers,
            }
            for (source, _), row in zip(found, rows, strict=True)
        ],
        "clips": [judge.record(each) for _, heard in found for each in heard],
    }
    return json.dumps(report, indent=1, ensure_ascii=False) + "\n"
