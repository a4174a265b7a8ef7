"""What a session asks of a model that hears each sound once."""

from __future__ import annotations

from edge_runtime.config import Config
from edge_runtime.decode.chunked.shape import ChunkShape
from edge_runtime.decode.reading import Model, Reader
from edge_runtime.decode.segments import Segments
from edge_runtime.decode.tokens import Vocabulary
from edge_runtime.decode.update import Hypothesis, Purpose

SHAPE = ChunkShape(
    step=160, first=-120, length=400, mirrored=True, window=45, shift=32, lead=0, frames=8, width=4,
    pages=(), context=2, recurrent=(), blank=0, steps=12, flush=10240, single=False,
    tokens_per_second=12.0, vocabulary=4,
)  # fmt: skip


def test_only_new_audio_counts_and_a_chunk_is_waited_for():
    model = Model(SHAPE, Vocabulary(["<blk>", "\u2581a", "\u2581b", "\u2581c"]))
    config = Config()
    reader = Reader(model, config, words=False)
    segments = Segments(
        "s", reader, config.updating, partials=True, speculate=True, rest=lambda text, last: None
    )
    segments.begin(1, 0, 6400)
    heard = 6400 + 4000
    assert segments.wants(heard, heard, silent=False) is Purpose.PARTIAL
    assert segments.samples(Purpose.PARTIAL, heard) == heard
    update = segments.take(Purpose.PARTIAL, heard, -100_000)
    assert (update.start, update.end) == (0, heard)
    ready = SHAPE.end(1)
    told = Hypothesis(update, (1, 2), (-0.1,) * 2, (3.0,) * 2, (1, 4), True, 8, next_at=ready)
    (partial,) = segments.accept(told)
    assert (partial.stable, partial.unstable) == ("a", " b")
    assert segments.wants(ready - 1, ready - 1, silent=False) is None
    assert segments.wants(ready, ready, silent=False) is Purpose.PARTIAL
    assert segments.samples(Purpose.PARTIAL, ready) == ready - heard


def test_chunks_begin_and_end_where_they_say():
    assert (SHAPE.begin(0), SHAPE.end(0), SHAPE.hop) == (-120, 44 * 160 + 280, 5120)
    assert SHAPE.begin(2) == 2 * 5120 - 120
    assert [SHAPE.ready(n) for n in (0, 7319, 7320, 12_439, 12_440)] == [0, 0, 1, 1, 2]
    assert SHAPE.whole(0) == 2  # silence alone
    assert SHAPE.frame_seconds == 0.04
