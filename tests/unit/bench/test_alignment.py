"""Forced alignment of a real clip."""

from itertools import pairwise
from pathlib import Path

import pytest

from edge_runtime.bench.alignment import Aligner
from edge_runtime.bench.manifest import read

MANIFEST = Path(__file__).parents[4] / "shared/data/manifest.tsv"


@pytest.fixture(scope="module")
def clip():
    if not MANIFEST.exists():
        pytest.skip(f"needs {MANIFEST}")
    return next(c for c in read(MANIFEST).clips if c.name == "1088-134315-0003")


def test_words_come_in_order_inside_the_clip(clip):
    spoken = Aligner().words(clip.pcm, clip.reference)
    assert spoken is not None
    assert [one.text for one in spoken] == clip.reference.lower().split()
    assert all(one.start < one.end for one in spoken)
    assert all(a.end <= b.start + 1e-9 for a, b in pairwise(spoken))
    # "I shall" opens the clip after a quarter of a second of silence
    assert 0.2 < spoken[0].start < 0.3
    assert spoken[-1].end <= clip.seconds


def test_an_unknown_word_cannot_be_aligned(clip):
    assert Aligner().words(clip.pcm, "I SHALL XQZZT") is None
    assert Aligner().words(clip.pcm, "") is None
