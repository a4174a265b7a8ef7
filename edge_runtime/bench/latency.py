"""How long a listener waits: from end of speech to final, from onset to first words."""

from __future__ import annotations

from edge_runtime.bench import energy
from edge_runtime.bench.take import Take
from edge_runtime.words import normalised


def final_after(take: Take, span: energy.Span) -> float | None:
    """Seconds from the end of speech to the clip's last final that has text, or None."""
    written = [at for at, final in take.finals if final.text.strip()]
    return written[-1] - span.close if written else None


def first_partial_after(take: Take, onset: float) -> float | None:
    """Seconds from `onset` to the first partial that shows text, or None."""
    for at, partial in take.partials:
        if (partial.stable + partial.unstable).strip():
            return at - onset
    return None


def first_word_right(take: Take, reference: str) -> bool | None:
    """Whether the first partial with text begins with the transcript's first word.

    Both are normalised; None where there is no such partial or no transcript.
    """
    wanted = normalised(reference)
    for _, partial in take.partials:
        shown = normalised(partial.stable + partial.unstable)
        if (partial.stable + partial.unstable).strip():
            return bool(shown) and shown[0] == wanted[0] if wanted else None
    return None
