"""What a model is told before it says anything, and may tell in its turn: language and task."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from edge_runtime.errors import LanguageError

TRANSCRIBE = "transcribe"


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """The marks between the begin mark and the text, by what they mean.

    A model of several `languages` is told one, then one of `tasks`; `closing` come last. The
    answer to the begin mark is then the likeliest language. Where `hears_silence`, that
    answer's log-probability is the one of nothing being said.
    """

    languages: dict[str, int] = {}
    tasks: dict[str, int] = {}
    closing: tuple[int, ...] = ()
    hears_silence: bool = False

    def tokens(self, language: str = "", task: str = TRANSCRIBE) -> tuple[int, ...]:
        """What follows the begin mark; without a `language` the first, as a guess.

        Raises `LanguageError` for a language or task that the model does not know.
        """
        if not self.languages:
            if task != TRANSCRIBE:
                raise LanguageError(f"this model does not {task}", "Choose a multilingual model.")
            return self.closing
        return (self._language(language), self._task(task), *self.closing)

    def marks(self, languages: Sequence[str] = ()) -> frozenset[int]:
        """The tokens of `languages`, as far as it knows them; of all, where none is given."""
        named = languages or self.languages
        return frozenset(self.languages[name] for name in named if name in self.languages)

    def language(self, token: int) -> str:
        """The language that a mark stands for; empty where it stands for none."""
        return next((name for name, each in self.languages.items() if each == token), "")

    def _language(self, name: str) -> int:
        if not name:
            return next(iter(self.languages.values()))
        if name not in self.languages:
            known = ", ".join(sorted(self.languages))
            raise LanguageError(f"this model does not know the language {name!r}", f"Use: {known}.")
        return self.languages[name]

    def _task(self, name: str) -> int:
        if name not in self.tasks:
            raise LanguageError(f"there is no task {name!r}", f"Use {' or '.join(self.tasks)}.")
        return self.tasks[name]
