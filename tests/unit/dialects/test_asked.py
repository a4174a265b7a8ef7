"""What of a client's words about a language reaches the session."""

import pytest

from edge_runtime.dialects.base import Asked


@pytest.mark.parametrize(
    ("said", "told"),
    [(None, None), ("", None), ("de", "de"), ("EN_us", "en"), ("en-GB", "en"), ("multi", None)],
)
def test_a_model_of_several_languages_is_told_one(said: str | None, told: str | None) -> None:
    assert Asked(languages=("de", "en")).spoken(said) == told


def test_a_model_of_one_language_is_told_nothing() -> None:
    assert Asked(languages=("en",)).spoken("en") is None
