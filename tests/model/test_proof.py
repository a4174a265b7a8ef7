"""A device that hears something else than the CPU is found out before it serves."""

import pytest

from edge_runtime.decode.proof import FILE, answers, prove, read, write
from edge_runtime.decode.tiles import Chain
from edge_runtime.device.onnx import OnnxDevice
from edge_runtime.engines.store import Store
from edge_runtime.errors import DeviceError, ModelDamaged


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


@pytest.fixture(scope="module")
def wanted(folder):
    return answers(Chain(OnnxDevice(lanes=1), folder), 48_000)


def test_what_says_the_same_may_serve(folder, wanted) -> None:
    prove(Chain(_Rounding(lanes=1), folder), wanted)


def test_float16_is_near_enough(recipe, wanted) -> None:
    prove(Chain(OnnxDevice(lanes=1), Store().graphs(recipe, "fp16")), wanted)


@pytest.mark.parametrize("kind", [_Backwards, _Late])
def test_what_says_something_else_may_not(folder, wanted, kind: type[OnnxDevice]) -> None:
    with pytest.raises(DeviceError, match=r"does not say what the CPU says .* apart"):
        prove(Chain(kind(lanes=1), folder), wanted)


def test_an_engine_keeps_what_it_should_say(folder, wanted, tmp_path) -> None:
    write(wanted, tmp_path)
    kept = read(tmp_path)
    assert kept.samples == wanted.samples == Chain(OnnxDevice(), folder).whole_frames(32_000)
    assert (kept.numbers == wanted.numbers).all()
    (tmp_path / FILE).write_bytes(b"no array")
    with pytest.raises(ModelDamaged, match="should say, cannot be read"):
        read(tmp_path)
