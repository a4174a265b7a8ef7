"""What products read, seen by running the float graphs: against numpy, and every product once."""

import numpy as np

from edge_runtime.engines.calibrate.sites import as_matrix, sites
from edge_runtime.engines.export import moonshine


def test_every_product_is_seen_once_with_its_channels(observer, full, sound, tiny) -> None:
    seen: dict[str, list[tuple[int, ...]]] = {}
    observer(sound, [7, 8, 9], lambda name, array: seen.setdefault(name, []).append(array.shape))
    assert seen.keys() == full.weights.keys()
    assert {len(shapes) for shapes in seen.values()} == {1}
    frames = moonshine.shape(tiny).frames(len(sound))
    for name, [(rows, channels)] in seen.items():
        matrix = full.weights[name].T if name == "table" else as_matrix(full.weights[name])
        assert len(matrix) % channels == 0
        if "conv" not in name:
            assert len(matrix) == channels
            encoder = "model.encoder" in name or name == "cross_proj.weight"
            assert rows == (frames if encoder else 4)  # the begin mark and three tokens


def test_the_first_layer_of_the_decoder_reads_the_normed_rows(observer, full, arrays, sound):
    seen: dict[str, np.ndarray] = {}
    observer(sound, [7, 8, 9], seen.__setitem__)
    rows = full.weights["table"][[1, 7, 8, 9]]
    centred = rows - rows.mean(axis=1, keepdims=True)
    normed = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5)
    name = "model.decoder.layers.0."
    expected = normed * arrays[name + "input_layernorm.weight"]
    np.testing.assert_allclose(
        seen[name + "self_attn.qkv_proj.weight"], expected, rtol=1e-4, atol=1e-5
    )


def test_longer_texts_are_cut_to_a_pass(observer, sound, tiny) -> None:
    seen: dict[str, np.ndarray] = {}
    observer(sound, list(range(3, 40)), seen.__setitem__)
    assert len(seen["table"]) == max(tiny.buckets.draft_tokens)


def test_sites_of_all_tiles(full) -> None:
    kinds = {name: [site.kind for site in sites(model)] for name, model in full.graphs.items()}
    assert kinds["embedding"] == ["lookup"]
    assert kinds["encoder"] == ["conv"] * 3 + ["matmul"] * (2 * 4 + 1)
    assert kinds["layers_1_3"] == ["matmul"] * 12 + ["head"]
