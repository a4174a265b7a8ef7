"""The ring keeps the newest samples, under absolute indices, whatever the sizes written."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.audio.ring import Ring
from edge_runtime.errors import AudioError


def ramp(start: int, end: int) -> np.ndarray:
    return np.arange(start, end, dtype=np.float32)


@given(st.integers(1, 40), st.lists(st.integers(0, 90), max_size=12), st.data())
def test_reads_what_was_written(capacity: int, sizes: list[int], data: st.DataObject) -> None:
    ring = Ring(capacity)
    for size in sizes:
        ring.write(ramp(ring.written, ring.written + size))
    assert ring.written == sum(sizes)
    assert ring.oldest == max(0, sum(sizes) - capacity)
    start = data.draw(st.integers(ring.oldest, ring.written))
    end = data.draw(st.integers(start, ring.written))
    np.testing.assert_array_equal(ring.read(start, end), ramp(start, end))
    pieces = ring.pieces(start, end)
    assert len(pieces) <= 2
    np.testing.assert_array_equal(np.concatenate([*pieces, ramp(0, 0)]), ramp(start, end))
    assert ring.holds(start)


def test_pieces_are_views_split_at_the_wrap() -> None:
    memory = np.zeros(10, np.float32)
    ring = Ring(memory)
    ring.write(ramp(0, 14))
    first, second = ring.pieces(6, 13)
    assert (len(first), len(second)) == (4, 3)
    assert np.shares_memory(first, memory)
    assert np.shares_memory(second, memory)
    assert ring.spans(6, 13) == ((6, 4), (0, 3))


def test_read_fills_the_array_given() -> None:
    ring = Ring(8)
    ring.write(ramp(0, 11))
    row = np.full(6, -1, np.float32)
    assert ring.read(5, 9, out=row) is row
    np.testing.assert_array_equal(row, [5, 6, 7, 8, -1, -1])


@pytest.mark.parametrize(
    ("start", "end", "said"),
    [(0, 4, "overwritten"), (8, 21, "not written"), (9, 8, "no range"), (-1, 3, "no range")],
)
def test_refuses_what_is_not_there(start: int, end: int, said: str) -> None:
    ring = Ring(12)
    ring.write(ramp(0, 20))
    with pytest.raises(AudioError, match=said):
        ring.read(start, end)
    with pytest.raises(AudioError, match=said):
        ring.pieces(start, end)


@pytest.mark.parametrize(
    "memory", [0, np.zeros(4), np.zeros((2, 2), np.float32), np.zeros(8, np.float32)[::2]]
)
def test_refuses_unsuitable_memory(memory: object) -> None:
    with pytest.raises(AudioError):
        Ring(memory)  # type: ignore[arg-type]


def test_clear_begins_again() -> None:
    ring = Ring(4)
    ring.write(ramp(0, 9))
    ring.clear()
    ring.write(ramp(3, 5))
    np.testing.assert_array_equal(ring.read(0, 2), [3, 4])
    assert not Ring(4).written


def test_memory_is_claimed_with_the_first_sample_and_given_back() -> None:
    claims: list[np.ndarray] = []

    def claim() -> np.ndarray:
        claims.append(np.zeros(4, np.float32))
        return claims[-1]

    ring = Ring(4, claim)
    ring.write(ramp(0, 0))
    assert (ring.capacity, ring.written, ring.oldest, len(ring.read(0, 0))) == (4, 0, 0, 0)
    assert ring.release() is None
    assert claims == []
    ring.write(ramp(0, 3))
    ring.write(ramp(3, 6))
    assert ring.read(2, 6).tolist() == [2, 3, 4, 5]
    (memory,) = claims
    assert ring.release() is memory
    assert ring.written == 6
    with pytest.raises(AudioError, match="overwritten"):
        ring.read(5, 6)
    assert ring.release() is None


def test_memory_that_cannot_be_had_leaves_the_ring_as_it_was() -> None:
    def claim() -> np.ndarray:
        raise MemoryError

    ring = Ring(4, claim)
    with pytest.raises(MemoryError):
        ring.write(ramp(0, 2))
    assert (ring.written, ring.oldest) == (0, 0)


class _OverwrittenDuringCopy(np.ndarray):
    """An output array that lets the writer in between the two halves of a copy."""

    ring: Ring

    def __setitem__(self, key: object, value: object) -> None:
        super().__setitem__(key, value)  # type: ignore[call-overload]
        self.ring.write(ramp(0, 5))


def test_a_write_during_the_copy_is_noticed() -> None:
    ring = Ring(8)
    ring.write(ramp(0, 8))
    row = np.zeros(4, np.float32).view(_OverwrittenDuringCopy)
    row.ring = ring
    with pytest.raises(AudioError, match="overwritten"):
        ring.read(0, 4, out=row)


def test_a_reader_beside_the_writer_never_sees_torn_samples() -> None:
    ring = Ring(4096)
    total = 1 << 20  # every index is exact in float32

    def write() -> None:
        for start in range(0, total, 160):
            ring.write(ramp(start, start + 160))

    writer = threading.Thread(target=write)
    writer.start()
    good = 0
    while writer.is_alive():
        end = ring.written
        start = max(ring.oldest, end - 4000)
        try:
            got = ring.read(start, max(start, end))
        except AudioError:
            continue
        np.testing.assert_array_equal(got, ramp(start, max(start, end)))
        good += 1
    writer.join()
    assert good
