"""Products are named and grouped as people speak of layers."""

from edge_runtime.engines.calibrate.groups import groups


def test_a_layers_attention_and_mlp_are_a_group_each() -> None:
    found = groups(
        [
            "model.encoder.conv1.weight",
            "model.encoder.layers.0.self_attn.qkv_proj.weight",
            "model.encoder.layers.0.self_attn.o_proj.weight",
            "model.encoder.layers.0.mlp.fc1.weight",
            "cross_proj.weight",
            "model.decoder.layers.11.encoder_attn.q_proj.weight",
            "table",
            "model.encoder.layers.0.mlp.fc2.weight",
        ]
    )
    assert found == {
        "encoder conv1": ("model.encoder.conv1.weight",),
        "encoder layer 0 attention": (
            "model.encoder.layers.0.self_attn.qkv_proj.weight",
            "model.encoder.layers.0.self_attn.o_proj.weight",
        ),
        "encoder layer 0 MLP": (
            "model.encoder.layers.0.mlp.fc1.weight",
            "model.encoder.layers.0.mlp.fc2.weight",
        ),
        "cross projection": ("cross_proj.weight",),
        "decoder layer 11 cross-attention": ("model.decoder.layers.11.encoder_attn.q_proj.weight",),
        "embedding table": ("table",),
    }


def test_every_product_of_a_model_is_in_one_group(full) -> None:
    found = groups(full.weights)
    members = [name for group in found.values() for name in group]
    assert sorted(members) == sorted(full.weights)
    assert len(found) == 3 + 2 * 2 + 1 + 3 * 3 + 1
