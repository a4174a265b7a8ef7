"""The exported graphs against an independent implementation of the same weights."""

from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest

from edge_runtime.engines import weights

GOLDEN = Path(__file__).parents[1] / "golden" / "moonshine-tiny-en.npz"
TOLERANCE = 1e-3  # of the two best logits, in float32


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(GOLDEN) as file:
        return dict(file)


@pytest.fixture(scope="module")
def arrays(recipe, weights_folder) -> weights.Weights:
    return weights.read(recipe, weights_folder)


@pytest.mark.parametrize("clip", [0, 17, 31])
def test_the_encoder(golden, loaded, arrays, recipe, shared, clip: int) -> None:
    """Cross-attention keys and values are the oracle's encoder output times its projections."""
    samples = shared(str(golden["ids"][clip]))
    expected, step = golden[f"encoder_{clip}"], int(golden["encoder_step"])
    memory = encoded(loaded.chain, samples)
    assert memory["memory_length"].tolist() == [loaded.chain.shape.frames(len(samples))]
    dims = recipe.architecture
    seen, projections = [], []
    for layer in range(dims.decoder_layers):
        for kind in "kv":
            name = f"model.decoder.layers.{layer}.encoder_attn.{kind}_proj.weight"
            projection = arrays[name].astype(np.float64).T
            heads = memory[f"memory_{kind}_{layer}"][0]
            assert not heads[..., dims.head_dim :].any()  # the padding of the heads
            flat = heads[:, ::step, : dims.head_dim].transpose(1, 0, 2).reshape(-1, dims.width)
            assert relative(flat, expected @ projection) <= 1e-4
            seen.append(flat.astype(np.float64))
            projections.append(projection)
    # All projections together determine the encoder's output: solve for it (least squares).
    whole, found = np.hstack(projections), np.hstack(seen)
    output = np.linalg.solve(whole @ whole.T, whole @ found.T).T
    assert relative(output, expected) <= 1e-4


def relative(found: np.ndarray, expected: np.ndarray) -> float:
    assert found.shape == expected.shape
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def encoded(chain, samples: np.ndarray) -> dict[str, np.ndarray]:
    device, frames = chain.device, chain.shape.frames(len(samples))
    buffers = {"audio": device.alloc((1, len(samples)), np.float32)}
    buffers["length"] = device.alloc((1,), np.int64)
    buffers["audio"].host[0] = samples
    buffers["length"].host[0] = len(samples)
    for name, spec in chain.encoder.outputs.items():
        shape = (1,) if name == "memory_length" else (1, spec.shape[1], frames, spec.shape[3])
        buffers[name] = device.alloc(shape, spec.dtype)
    chain.encoder.bind(buffers, device.stream())()
    return {name: buffers[name].host for name in chain.encoder.outputs}


def test_greedy_tokens_of_forty_clips(golden, runner, decode, told, excused, shared) -> None:
    ids, ends = golden["ids"], list(accumulate(golden["lengths"]))
    assert len(ids) == 40
    exceptions = 0
    for index, (name, start, end) in enumerate(zip(ids, [0, *ends], ends, strict=False)):
        samples = shared(str(name))
        want = (golden["tokens"][start:end].tolist(), golden["margins"][start:end].tolist())
        # Every fourth clip token by token; the others all tokens in one pass, which is faster.
        draft = tuple(want[0][:-1]) if index % 4 else ()

        def again(forced: tuple[int, ...], samples: np.ndarray = samples, draft=draft):
            (hypothesis,) = decode(runner, samples, forced=forced, draft=draft[len(forced) :])
            return told(hypothesis)

        exceptions += excused(want, again, TOLERANCE)
    assert exceptions <= 2


def test_confidence_is_the_oracles(golden, runner, decode, shared) -> None:
    """Log-probabilities and margins of the first clip, to float32's precision."""
    count = int(golden["lengths"][0])
    (hypothesis,) = decode(runner, shared(str(golden["ids"][0])))
    assert hypothesis.ended
    np.testing.assert_allclose(hypothesis.logprobs, golden["logprobs"][: count - 1], atol=2e-3)
    np.testing.assert_allclose(hypothesis.margins, golden["margins"][: count - 1], atol=2e-3)
