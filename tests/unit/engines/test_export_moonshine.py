"""Tiles of a made-up model of a few thousand weights: contract, cuts, padding, precision."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest

from edge_runtime.decode.lane import Lane
from edge_runtime.decode.passes import Pass
from edge_runtime.decode.runner import Runner
from edge_runtime.decode.tiles import Chain, Size
from edge_runtime.decode.update import Purpose, Update
from edge_runtime.device.onnx import OnnxDevice
from edge_runtime.engines.export import moonshine
from edge_runtime.engines.recipe import MoonshineRecipe
from edge_runtime.errors import AudioError

FORBIDDEN = {"If", "Loop", "Scan", "NonZero", "IsNaN"}


@pytest.fixture(scope="session")
def tiny(tiny) -> MoonshineRecipe:
    return msgspec.structs.replace(tiny, decoder_tiles=(3,))


@pytest.fixture(scope="module")
def chain(tiny, arrays, tmp_path_factory):
    def made(tiles: tuple[int, ...] = (3,), dtype: type = np.float32, fused: bool = False) -> Chain:
        recipe = msgspec.structs.replace(tiny, decoder_tiles=tiles)
        folder: Path = tmp_path_factory.mktemp("tiny")
        for name, write in moonshine.tiles(recipe, arrays, dtype, fused=fused).items():
            write().save(folder / f"{name}.onnx")
        np.save(folder / "table.npy", moonshine.table(arrays, dtype))
        shape = msgspec.structs.replace(moonshine.shape(recipe), fused=fused)
        (folder / "shape.json").write_bytes(msgspec.json.encode(shape))
        return Chain(OnnxDevice(lanes=1), folder)

    return made


@pytest.fixture(scope="module")
def sounds() -> list[np.ndarray]:
    random = np.random.default_rng(8)
    return [random.normal(0, 0.3, count).astype(np.float32) for count in (9_000, 16_000, 3_000)]


def run(chain: Chain, *sounds: np.ndarray, **fields) -> list:
    updates = [
        Update("t", row, Purpose.FINAL, 0, len(sound), limit=20, align=True, **fields)
        for row, sound in enumerate(sounds)
    ]
    return Runner(chain, Size(len(sounds), 16_000)).run(updates, [[sound] for sound in sounds])


def test_cuts_batches_and_padding_change_nothing(chain, sounds) -> None:
    whole = chain((3,))
    alone = [run(whole, sound)[0] for sound in sounds]
    # The made-up model says something, and not the same of each sound.
    assert len({hypothesis.tokens for hypothesis in alone}) == 3
    assert all(len(set(hypothesis.tokens)) > 3 for hypothesis in alone)
    together = run(whole, *sounds)
    cut = [run(chain(tiles), sounds[0])[0] for tiles in ((1, 2), (1, 1, 1))]
    fused = [run(chain(fused=True), sound)[0] for sound in sounds]
    for found, expected in [
        *zip(together, alone, strict=True), *((each, alone[0]) for each in cut),
        *zip(fused, alone, strict=True),
    ]:  # fmt: skip
        assert found.tokens == expected.tokens
        assert found.frames == expected.frames
        assert found.frame_count == expected.frame_count
        np.testing.assert_allclose(found.logprobs, expected.logprobs, atol=1e-3)
        np.testing.assert_allclose(found.align, expected.align, atol=1e-3)


def test_fused_rows_fill_their_audio(chain, sounds) -> None:
    """In a batch of one length they say what they say alone, and the cache is written in place."""
    rows = [sounds[0], sounds[0][::-1].copy()]
    fused = chain(fused=True)
    for made, same in ((fused, True), (chain(), False)):
        one, other = Lane(made, Size(2, 16_000)).caches
        assert (one is other) == same
    alone = [run(chain(), sound)[0] for sound in rows]
    assert alone[0].tokens != alone[1].tokens
    for found, expected in zip(run(fused, *rows), alone, strict=True):
        assert found.tokens == expected.tokens
        np.testing.assert_allclose(found.logprobs, expected.logprobs, atol=1e-3)
        np.testing.assert_allclose(found.align, expected.align, atol=1e-3)
    with pytest.raises(AudioError, match=r"rows of 3000 to 16000 samples"):
        run(fused, *sounds)


def test_only_fused_graphs_hold_operators_of_one_runtime(tiny, arrays) -> None:
    for fused in (False, True):
        for name, write in moonshine.tiles(tiny, arrays, np.float32, fused=fused).items():
            model = write().model()
            onnx.checker.check_model(model, full_check=True)
            domains = {node.domain for node in model.graph.node}
            own = fused and name != "embedding"
            assert domains == ({"", "com.microsoft"} if own else {""})
            assert {each.domain for each in model.opset_import} == domains


def test_a_pass_tells_the_next_one_where_it_begins(chain) -> None:
    lane = Lane(chain((1, 2)), Size(2, 4_000))
    lane.length.host.host[:] = 4_000
    lane.encode(2, 4_000)
    shape = Pass(2, 4, lane.chain.shape.frames(4_000))
    lane.positions(shape)[:] = 3, 5
    lane.decode(shape)
    assert lane.positions(shape, after=1).tolist() == [7, 9]


def test_float16_is_near(chain, sounds) -> None:
    for sound in sounds:
        (wide,), (narrow,) = run(chain(), sound), run(chain(dtype=np.float16), sound)
        first = next(
            (n for n, pair in enumerate(zip(wide.tokens, narrow.tokens, strict=False))
             if pair[0] != pair[1]), 20,
        )  # fmt: skip
        assert first == 20 or wide.margins[first] < 0.1
        np.testing.assert_allclose(narrow.logprobs[:first], wide.logprobs[:first], atol=0.1)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_every_tile_is_valid_and_plain(tiny, arrays, dtype: type) -> None:
    for write in moonshine.tiles(tiny, arrays, dtype).values():
        model = write().model()
        onnx.checker.check_model(model, full_check=True)
        assert model.ir_version <= 10
        assert model.opset_import[0].version <= 18
        assert not {node.op_type for node in model.graph.node} & FORBIDDEN
        names = [value for node in model.graph.node for value in node.output]
        assert len(names) == len(set(names))


def test_every_norm_has_the_epsilon_of_the_recipe(tiny, arrays) -> None:
    """2 layers of the encoder, 3 of the decoder, each one's end, and one norm over a group."""
    epsilon = 2.0**-9  # which no other constant is
    small = msgspec.structs.replace(tiny.architecture, norm_epsilon=epsilon)
    recipe = msgspec.structs.replace(tiny, architecture=small)
    norms, constants = [], []
    for write in moonshine.tiles(recipe, arrays, np.float32).values():
        graph = write().model().graph
        norms += [
            onnx.helper.get_node_attr_value(node, "epsilon")
            for node in graph.node
            if node.op_type == "LayerNormalization"
        ]
        constants += [onnx.numpy_helper.to_array(each) for each in graph.initializer]
    assert norms == [epsilon] * (2 * 2 + 1 + 3 * 3 + 1)
    scalars = [float(each) for each in constants if each.ndim == 0]
    assert scalars.count(epsilon) == 1
    assert not any(0 < abs(each) < epsilon for each in scalars)
