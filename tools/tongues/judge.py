"""What a model made of clips whose language and text are known."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import jiwer
import numpy as np
from whisper_normalizer.basic import BasicTextNormalizer

from edge_runtime.audio.file import FileSource
from edge_runtime.decode.scripts import SCRIPTS, script
from edge_runtime.events import Final
from edge_runtime.transcribe import Transcriber, WholeUtterance


@dataclass
class Heard:
    """One clip: what is said in it, and what was heard.

    `found`, `text`: of the clip decoded at once. `served`: the language of each final, where the
    voice detector cut it as a recording is cut, with its seconds. `peer`: what the other system
    says of the clip at once, its `probability` of the language.
    """

    clip: str
    seconds: float
    prompts: list[str]
    said: str
    found: str = ""
    text: str = ""
    served: list[tuple[str, float]] = field(default_factory=list)
    peer: dict[str, Any] = field(default_factory=dict)


class Judge:
    """Our model, both ways."""

    def __init__(self, model: str) -> None:
        """Raises `ModelMissing` where it was never pulled."""
        self._whole = WholeUtterance(model, device="cpu")
        self._served = Transcriber(model, device="cpu")

    def hear(self, heard: Heard, file: Path) -> None:
        """Fill in what we hear."""
        samples = np.concatenate(list(FileSource(file)))
        heard.text, heard.found = self._whole.heard(samples)
        heard.served = [
            (event.language or "", round(event.end - event.start, 2))
            for event in self._served.transcribe([samples])
            if isinstance(event, Final) and event.text.strip()
        ]


def row(language: str, heard: list[Heard], *, words: bool) -> dict[str, Any]:
    """The figures of a language, in percent where they are shares; None where there are none.

    Of single `words` no text is known that could be compared.
    """
    said = None if words else [each.said for each in heard]
    finals = [final for each in heard for final in each.served]
    spoken = sum(seconds for _, seconds in finals)
    right = sum(seconds for found, seconds in finals if found == language)
    figures: dict[str, Any] = {
        "language": language,
        "kind": "words" if words else "sentences",
        "clips": len(heard),
        "seconds": round(sum(each.seconds for each in heard), 1),
        "right": sum(each.found == language for each in heard),
        "found": sorted({each.found for each in heard}),
        "script": _percent(_in_script(language, (each.text for each in heard))),
        "wer": said and _percent(_errors(said, [each.text for each in heard])),
        "finals": len(finals),
        "finals_right": _percent(right / spoken if spoken else 0.0),
    }
    if all(each.peer for each in heard):
        figures |= {
            "peer_right": sum(each.peer["found"] == language for each in heard),
            "peer_same": sum(each.peer["found"] == each.found for each in heard),
            "probability": round(sum(each.peer["probability"] for each in heard) / len(heard), 2),
            "peer_wer": said and _percent(_errors(said, [each.peer["text"] for each in heard])),
        }
    return figures


def _percent(share: float) -> float:
    return round(100 * share, 1)


def _in_script(language: str, texts: Iterable[str]) -> float:
    """Of all letters, those of a script that the language is written in: Latin for Latin ones."""
    own = SCRIPTS[language]
    own = own - {"LATIN"} if len(own) > 1 else own
    letters = [script(letter) for text in texts for letter in text if letter.isalpha()]
    return sum(letter in own for letter in letters) / len(letters) if letters else 0.0


def _errors(said: list[str], heard: list[str]) -> float:
    """Word errors, case, punctuation and accents left out, as recorded texts have few of them."""
    plain = _plain()
    return float(jiwer.wer([plain(text) for text in said], [plain(text) for text in heard]))


@functools.cache
def _plain() -> BasicTextNormalizer:
    return BasicTextNormalizer(remove_diacritics=True)


def record(heard: Heard) -> dict[str, Any]:
    """For a file."""
    return asdict(heard)
