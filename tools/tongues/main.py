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
    made = Making(options.folder, options.model, options.peer)
    found = [(source, made.heard(source)) for source in sources]
    rows = [judge.row(each.language, heard, words=each.words) for each, heard in found]
    _print(rows)
    if options.json:
        options.json.write_text(_report(options.model, found, rows), encoding="utf-8")
    return 0


class Making:
    """Clips of a language, and what is heard in them: kept in a folder, made once."""

    def __init__(self, folder: Path, model: str, beside: bool) -> None:
        self._folder, self._model, self._beside = folder, model, beside
        self._judge: judge.Judge | None = None

    def heard(self, source: prompts.Source) -> list[judge.Heard]:
        """Of each clip."""
        kept = self._folder / "heard" / f"{self._model}-{source.language}.json"
        if kept.is_file():
            heard = [judge.Heard(**each) for each in json.loads(kept.read_text())]
        else:
            heard = self._clips(source)
            self._judge = self._judge or judge.Judge(self._model)
            for each in heard:
                self._judge.hear(each, self._file(each))
        if self._beside and not heard[0].peer:
            for each, said in zip(heard, self._peer(heard), strict=True):
                each.peer = said
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps([judge.record(each) for each in heard], ensure_ascii=False))
        return heard

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

    def _peer(self, heard: list[judge.Heard]) -> list[dict[str, Any]]:
        name = "faster-whisper-base"
        child = [str(peer.environment(name)), str(Path(__file__).with_name("peer.py"))]
        done = subprocess.run(
            [*child, *peer.known(name).arguments[1:]],
            input="".join(f"{self._file(each)}\n" for each in heard),
            stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
        return [json.loads(line) for line in done.stdout.splitlines()]


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
