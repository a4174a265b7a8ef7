"""Where recorded prompts lie in their packages, and where what is said in them is written."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tongues.packages import unpacked


@dataclass(frozen=True)
class Prompt:
    """A recording, and its text."""

    path: Path
    text: str


@dataclass(frozen=True)
class Source:
    """Prompts of one `language`: packages of Debian, their `licence`, and how they are read.

    `words`: single ones, not sentences, and a `text` is what they mean in English. `read` gets a
    folder for each package.
    """

    language: str
    packages: tuple[str, ...]
    licence: str
    speakers: str
    read: Callable[[str, list[Path]], Iterator[Prompt]]
    words: bool = False

    def prompts(self, folder: Path) -> list[Prompt]:
        """In the order of their names; those without a text are left out."""
        found = self.read(self.language, unpacked(self.packages, folder))
        return sorted(found, key=lambda prompt: str(prompt.path))


def telephone(_language: str, roots: list[Path]) -> Iterator[Prompt]:
    """A telephone exchange: one text file, `name: text` on each line."""
    written, sounds = roots
    (page,) = written.rglob("core-sounds-*.txt.gz")
    texts = {}
    for line in gzip.decompress(page.read_bytes()).decode("utf-8-sig").splitlines():
        name, colon, text = line.partition(": ")
        if colon and not line.startswith(";"):
            texts[name.strip()] = text.strip()
    (home,) = (sounds / "usr/share/asterisk/sounds").iterdir()
    for path in home.rglob("*.wav"):
        if text := texts.get(str(path.relative_to(home).with_suffix(""))):
            yield Prompt(path, text)


def fish(language: str, roots: list[Path]) -> Iterator[Prompt]:
    """A game in which two fish talk: its scripts name a sound, then have the text."""
    written, sounds = roots
    said = re.compile(r'dialogId\("([^"]+)".*?\)\s*dialogStr\("((?:[^"\\]|\\.)*)"\)', re.DOTALL)
    for page in (written / "usr/share/games/fillets-ng/script").glob(f"*/dialogs_{language}.lua"):
        home = sounds / "usr/share/games/fillets-ng/sound" / page.parent.name / language
        for name, text in said.findall(page.read_text(encoding="utf-8")):
            if (path := home / f"{name}.ogg").is_file():
                yield Prompt(path, text.replace("\\", ""))


def stamps(language: str, roots: list[Path]) -> Iterator[Prompt]:
    """A paint program for children: each picture has a description, read aloud."""
    for path in roots[0].rglob(f"*_desc_{language}.ogg"):
        page = path.with_name(path.name.replace(f"_desc_{language}.ogg", ".txt"))
        if page.is_file():
            lines = page.read_text(encoding="utf-8", errors="replace").splitlines()
            texts = dict(line.split(".utf8=", 1) for line in lines if ".utf8=" in line)
            if text := texts.get(language):
                yield Prompt(path, text.strip())


def potato(language: str, roots: list[Path]) -> Iterator[Prompt]:
    """A game for small children: the names of things, of which we only know the meaning."""
    for path in (roots[0] / "usr/share/ktuberling/sounds" / language).glob("*.ogg"):
        yield Prompt(path, path.stem.rpartition("_")[2])


def _asterisk(language: str) -> Source:
    name = f"asterisk-core-sounds-{language}"
    return Source(language, (name, f"{name}-wav"), "CC BY-SA 3.0", "one voice, 8 kHz", telephone)


def _fillets(language: str) -> Source:
    packages = ("fillets-ng-data", f"fillets-ng-data-{language}")
    return Source(language, packages, "GPL 2", "actors", fish)


def _tuxpaint(language: str) -> Source:
    return Source(language, ("tuxpaint-stamps-default",), "GPL 2", "volunteers", stamps)


def _ktuberling(language: str) -> Source:
    return Source(language, ("ktuberling-data",), "GPL 2", "volunteers", potato, words=True)


SOURCES = (
    *map(_asterisk, ("en", "es", "fr", "it", "ru")),
    *map(_fillets, ("cs", "nl")),
    *map(_tuxpaint, ("be", "bg", "ca", "da", "el", "ro")),
    *map(_ktuberling, ("de", "uk")),
)
"""Every language of which Debian has speech of people with its text, a source of each; then words.

What sounds as if a machine had spoken it (no noise between words at all) is not among them.
"""
