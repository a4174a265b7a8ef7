"""Shapes rounded up and several steps between two looks of the host: what a GPU is given."""

import numpy as np
import pytest

from edge_runtime.audio import RATE
from edge_runtime.decode.runner import Runner
from edge_runtime.decode.tiles import Chain, Size
from edge_runtime.device.onnx import HostStream, OnnxDevice
from edge_runtime.engines.recipe import load_recipe
from edge_runtime.engines.store import Store

CLIPS = ["1867-154075-0005", "7367-86737-0006", "1089-134691-0001"]


@pytest.fixture(scope="module")
def clips(spoken) -> list[np.ndarray]:
    return [spoken(name) for name in CLIPS]


class _Watched(HostStream):
    """Counts the looks of the host, as a GPU's does."""

    def synchronize(self) -> None:
        self.counters.waits += 1


class _Rounding(OnnxDevice):
    """The CPU, told to do as a GPU does: few shapes, several steps between looks."""

    batches = True
    rounds = True
    chained = 4

    def stream(self) -> HostStream:
        return _Watched()


def test_rounded_shapes_and_chains_of_steps_say_the_same(
    loaded, decode, told, excused, clips, runner
) -> None:
    chain = Chain(_Rounding(lanes=1), Store().graphs(load_recipe(loaded.name)))
    rounding = Runner(chain, Size(4, 17 * RATE))
    alone = [decode(runner, clip)[0] for clip in clips]
    drafts = [(), (*alone[1].tokens[:9], 77, *alone[1].tokens[11:]), alone[2].tokens]
    for clip, wanted, draft in zip(clips, alone, drafts, strict=True):

        def again(forced: tuple[int, ...], clip=clip, draft=draft):
            found = decode(rounding, clip, draft=draft if not forced else (), forced=forced)
            return told(found[0])

        excused(told(wanted), again, 1e-3)
    together = decode(rounding, *clips)
    assert [each.tokens for each in together] == [each.tokens for each in alone]
    assert [each.frames for each in together] == [each.frames for each in alone]
    # Nothing is bound twice for one shape.
    before = rounding.lane.graphs.use.misses
    decode(rounding, clips[0])
    assert rounding.lane.graphs.use.misses == before


def test_a_draft_is_checked_once_where_steps_are_chained(
    loaded, decode, clips, runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then chains as long as what is left of it: 4, 8 or 16 steps, and more while it goes on."""
    chain = Chain(_Rounding(lanes=1), Store().graphs(load_recipe(loaded.name)))
    rounding = Runner(chain, Size(1, 17 * RATE))
    assert rounding.lane.chains == (4, 8, 16)
    clip = clips[0][: 2 * RATE]
    (wanted,) = decode(runner, clip)
    count = len(wanted.tokens)
    assert count == 7
    made: list[int] = []
    run = rounding.lane.decode
    monkeypatch.setattr(
        rounding.lane,
        "decode",
        lambda shape, align: (made.append(shape.steps), run(shape, align)),
    )
    # The end mark is a step of its own: none, 1, 5 in chains of 4 and (at the third look) of 8, 7
    # in one of 8.
    for right, chained in ((count, []), (count - 1, [4]), (2, [4, 8]), (0, [8])):
        looks = 1 + len(chained)
        made.clear()
        draft = (*wanted.tokens[:right], 77, *wanted.tokens[right + 1 :])[:count]
        (found,) = decode(rounding, clip, draft=draft)
        assert found.tokens == wanted.tokens
        assert found.cost.accepted == right
        steps = count - right
        assert (found.cost.passes, found.cost.steps) == (1 + steps, steps)
        assert found.cost.waits == looks
        assert made == [1, *chained]
    # Where every step has its look, what is left is checked again.
    (again,) = decode(runner, clip, draft=draft)
    assert again.tokens == wanted.tokens
    assert again.cost.passes < found.cost.passes


def test_word_times_come_from_chains_of_steps_too(loaded, decode, clips, runner) -> None:
    chain = Chain(_Rounding(lanes=1), Store().graphs(load_recipe(loaded.name)))
    (wanted,) = decode(runner, clips[0], align=True)
    (found,) = decode(Runner(chain, Size(1, 17 * RATE)), clips[0], align=True)
    assert found.tokens == wanted.tokens
    np.testing.assert_allclose(found.align, wanted.align, atol=1e-4)
