"""Published transducers are told by their tensors and notes; what says too little is refused."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from edge_runtime.engines.export.streaming import published
from edge_runtime.engines.vocabulary import read_vocabulary
from edge_runtime.errors import ModelDamaged
from tests.tiny import making, zipformer


@pytest.fixture
def folder(tmp_path):
    zipformer.write(tmp_path)
    return tmp_path


def test_reads_the_zipformer_whatever_its_files_are_called(folder):
    for number, path in enumerate(sorted(folder.glob("*.onnx"))):
        path.rename(folder / f"{number}.onnx")
    model = published.find(folder)
    encoder = model.encoder
    assert (encoder.window, encoder.shift, encoder.lead, encoder.bins) == (45, 32, 0, 80)
    assert (encoder.frames, encoder.width, encoder.single) == (8, zipformer.JOINER, False)
    states = {state.given: (state.shape, state.axis, state.taken) for state in encoder.states}
    assert states["cached_key_0"] == ((8, 1, 16), 1, "new_cached_key_0")
    assert states["cached_nonlin_attn_2"] == ((1, 1, 8, 12), 1, "new_cached_nonlin_attn_2")
    assert states["embed_states"] == ((1, 128, 3, 19), 0, "new_embed_states")
    assert states["processed_lens"] == ((1,), 0, "new_processed_lens")
    assert (model.predictor.context, model.predictor.states) == (2, ())


def test_a_part_that_is_not_there_is_named(folder):
    next(folder.glob("joiner*")).unlink()
    with pytest.raises(ModelDamaged, match="holds no joiner of a streaming transducer"):
        published.find(folder)


def test_an_encoder_that_does_not_say_its_chunk_is_refused(folder):
    path = next(folder.glob("encoder*"))
    model = onnx.load(path)
    notes = {each.key: each.value for each in model.metadata_props if each.key != "T"}
    onnx.helper.set_model_props(model, notes)
    onnx.save(model, path)
    with pytest.raises(ModelDamaged, match="its notes do not say 'T'"):
        published.find(folder)


def test_a_file_that_is_no_graph_is_refused(folder):
    next(folder.glob("encoder*")).write_bytes(b"no graph")
    with pytest.raises(ModelDamaged, match="cannot be read"):
        published.find(folder)


def test_a_vocabulary_without_blank_is_refused(folder, tmp_path):
    text = (folder / "tokens.txt").read_text().replace("<blk>", "blank")
    (folder / "tokens.txt").write_text(text)
    with pytest.raises(ModelDamaged, match="no <blk>"):
        making.exported(tmp_path, lambda place: [
            (place / each.name).write_bytes(each.read_bytes()) for each in folder.iterdir()
            if each.is_file()
        ])  # fmt: skip


def test_reads_the_tokens(folder):
    texts = read_vocabulary(folder)
    assert texts[:3] == ["<blk>", "\u2581ba", "\u2581ca"]
    (folder / "tokens.txt").write_text("a 0\nb\n")
    with pytest.raises(ModelDamaged, match="'b' has no number"):
        read_vocabulary(folder)


def test_weights_beside_a_graph_are_put_beside_ours(tmp_path):
    def write(place):
        zipformer.write(place)
        path = next(place.glob("encoder*"))
        onnx.save(
            onnx.load(path), path, save_as_external_data=True, location="weights.data",
            size_threshold=0,
        )  # fmt: skip
        (place / "weights.data").chmod(0o644)

    _, graphs = making.exported(tmp_path, write)
    assert (graphs / "weights.data").stat().st_size > 1000
    assert np.isfinite(
        onnx.numpy_helper.to_array(onnx.load(graphs / "encoder.onnx").graph.initializer[-9])
    ).all()
