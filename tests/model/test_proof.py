"""A device that hears something else than the CPU is found out before it serves."""

import pytest

from edge_runtime.decode.tiles import Chain
from edge_runtime.device.onnx import OnnxDevice
from edge_runtime.engines.store import Store
from edge_runtime.errors import DeviceError
from edge_runtime.runtime.proof import prove


class _Backwards(OnnxDevice):
    """Reads audio from its end: every number is right, and the text is not."""

    def stage(self, pieces, target, stream) -> None:
        super().stage([piece[::-1] for piece in pieces], target, stream)


class _Rounding(OnnxDevice):
    batches = True
    rounds = True
    chained = 4


class _Late(OnnxDevice):
    """A pass in the first turn begins where the one before it ended: its position comes late."""

    integrated = False

    def copy(self, source, target, stream, kind) -> None:
        before = target.host[:8].copy()
        super().copy(source, target, stream, kind)
        if kind == "tokens":
            target.host[:8] = before


@pytest.fixture(scope="module")
def folder(recipe):
    return Store().graphs(recipe)


def test_what_says_the_same_may_serve(folder) -> None:
    prove(Chain(_Rounding(lanes=1), folder), folder)


def test_float16_is_near_enough(folder, recipe) -> None:
    prove(Chain(OnnxDevice(lanes=1), folder), Store().graphs(recipe, "fp16"))


@pytest.mark.parametrize("kind", [_Backwards, _Late])
def test_what_says_something_else_may_not(folder, kind: type[OnnxDevice]) -> None:
    with pytest.raises(DeviceError, match=r"does not say what the CPU says .* apart"):
        prove(Chain(kind(lanes=1), folder), folder)
