"""The scripts that languages are written in, as Unicode names their letters."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import lru_cache

_LATIN = (
    "af az br bs ca cs cy da de en es et eu fi fo fr gl ha haw hr ht hu id is it jw la lb ln lt lv "
    "mg mi ms mt nl nn no oc pl pt ro sk sl sn so sq su sv sw tk tl tr uz vi yo"
)
_OTHERS = {
    "ARABIC": "ar fa ps sd ur",
    "ARMENIAN": "hy",
    "BENGALI": "as bn",
    "CJK HIRAGANA KATAKANA KATAKANA-HIRAGANA": "ja",
    "CJK": "yue zh",
    "CYRILLIC": "ba be bg kk mk mn ru sr tg tt uk",
    "DEVANAGARI": "hi mr ne sa",
    "ETHIOPIC": "am",
    "GEORGIAN": "ka",
    "GREEK": "el",
    "GUJARATI": "gu",
    "GURMUKHI": "pa",
    "HANGUL": "ko",
    "HEBREW": "he yi",
    "KANNADA": "kn",
    "KHMER": "km",
    "LAO": "lo",
    "MALAYALAM": "ml",
    "MYANMAR": "my",
    "SINHALA": "si",
    "TAMIL": "ta",
    "TELUGU": "te",
    "THAI": "th",
    "TIBETAN": "bo",
}
SCRIPTS = dict.fromkeys(_LATIN.split(), frozenset({"LATIN"})) | {
    language: frozenset({"LATIN", *scripts.split()})
    for scripts, languages in _OTHERS.items()
    for language in languages.split()
}
"""Of a language, those that its texts may have; names and brands are Latin in all of them."""

_UNSPACED = frozenset({
    "CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "KHMER", "LAO", "MYANMAR", "THAI",
    "TIBETAN",
})  # fmt: skip


def foreign(text: str, languages: Iterable[str]) -> bool:
    """Whether `text` has letters that none of `languages` is written in.

    Of a language that is not known here everything may be.
    """
    if text.isascii():
        return False
    known = [SCRIPTS.get(language) for language in languages]
    if not known or None in known:
        return False
    allowed = frozenset[str]().union(*(each for each in known if each is not None))
    return any(c.isalpha() and not c.isascii() and script(c) not in allowed for c in text)


def unspaced(character: str) -> bool:
    """Whether it is a letter of a script that puts no spaces between words."""
    return not character.isascii() and character.isalnum() and script(character) in _UNSPACED


@lru_cache(1 << 12)
def script(character: str) -> str:
    """The first word of its name: the script, where it is a letter of one."""
    return unicodedata.name(character, "").partition(" ")[0]
