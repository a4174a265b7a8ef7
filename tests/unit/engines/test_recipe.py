"""Recipes: what is accepted, what is refused by name, what changes their hash."""

from __future__ import annotations

import msgspec
import pytest

from edge_runtime.engines.export.moonshine import shape
from edge_runtime.engines.recipe import load_recipe, recipes, recipes_folder
from edge_runtime.errors import RecipeError


@pytest.fixture
def text() -> str:
    return (recipes_folder() / "moonshine-tiny-en.toml").read_text()


@pytest.mark.parametrize("name", recipes())
def test_every_recipe_loads_and_requires_known_ones(name):
    recipe = load_recipe(name)
    assert recipe.name == name
    assert set(recipe.requires) <= set(recipes())


def test_models_of_every_family_are_there():
    families = {name: load_recipe(name).family for name in recipes()}
    assert (
        families.items()
        >= {
            "moonshine-tiny-en": "moonshine",
            "silero-vad": "silero",
            "whisper-tiny-en": "whisper",
            "whisper-base": "whisper",
            "zipformer-en": "transducer",
            "nemotron-streaming-en": "transducer",
            "moonshine-streaming-tiny-en": "moonshine-streaming",
        }.items()
    )


def test_what_the_index_serves_is_pinned_by_hash_and_size():
    for name in recipes():
        source = load_recipe(name).sources.pypi
        for file in source.all_files if source is not None else ():
            assert file.sha256
            assert file.size


@pytest.mark.parametrize(
    ("samples", "frames"), [(0, 0), (126, 0), (894, 0), (895, 1), (16000, 40), (160000, 415)]
)
def test_frames_follow_the_convolutions(samples, frames):
    shape = load_recipe("moonshine-tiny-en").architecture
    assert shape.frames(samples) == frames
    if frames:
        assert frames == (((samples - 127) // 64 + 1 - 7) // 3 + 1 - 3) // 2 + 1


@pytest.mark.parametrize("tiles", [(6,), (3, 3), (1, 1, 1, 1, 1, 1)])
def test_tiles_cover_the_decoder(tiles):
    recipe = msgspec.structs.replace(load_recipe("moonshine-tiny-en"), decoder_tiles=tiles)
    layers = shape(recipe).tiles
    assert [layer for tile in layers for layer in tile] == list(range(6))
    assert tuple(map(len, layers)) == tiles


def test_the_hash_follows_the_graphs_and_nothing_else():
    recipe = load_recipe("moonshine-tiny-en")
    replace = msgspec.structs.replace
    shape = recipe.architecture
    assert replace(recipe, decoder_tiles=(6,)).hash != recipe.hash
    assert replace(recipe, alignment_heads=((2, 1),)).hash != recipe.hash
    assert replace(recipe, architecture=replace(shape, theta=1.0)).hash != recipe.hash
    assert replace(recipe, title="Other", expected=(), requires=()).hash == recipe.hash


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('licence = "MIT"', 'license = "MIT"', "license"),
        ("width = 288", "wide = 288", "wide"),
        ("width = 288", 'width = "288"', "architecture.width"),
        ("heads = 8", "heads = 7", "7 heads of 36"),
        ("rotary = 32", "rotary = 33", "rotary"),
        ("padded_head_dim = 40", "padded_head_dim = 32", "padded_head_dim"),
        ("decoder_tiles = [3, 3]", "decoder_tiles = [3, 2]", "do not add up to 6"),
        ("[[2, 1],", "[[2, 8],", "no head [2, 8]"),
        ("[[2, 1], [3, 0], [3, 1], [3, 2], [3, 5]]", "[]", "alignment_heads must name a head"),
        ("[1, 16, 32, 64, 112]", "[16, 1]", "draft_tokens"),
        ("[1, 16, 32, 64, 112]", "[1, 129]", "past"),
        ('family = "moonshine"', 'family = "moon"', "family"),
        ('streaming = "re-encoding"', 'streaming = "fast"', "streaming"),
        ('device = "CPU"', 'device = ""', "verified[0].device"),
        ("date = 2026-11-30", 'date = "yesterday"', "verified[0].date"),
        ('streaming = "re-encoding"', 'streaming = "magic"', "streaming"),
        ('reader = "ort"', 'reader = "pickle"', "reader"),
        ('name = "tokenizer.bin"', 'name = "../tokenizer.bin"', "name"),
        ('name = "moonshine-tiny-en"', 'name = "moonshine"', "File and name must agree"),
        ('name = "moonshine-tiny-en"', 'name = "../up"', "name"),
        ("bos = 1", "", "bos"),
        ("[buckets]", "[buckets", "cannot be read|Expected"),
    ],
)
def test_refuses_what_it_does_not_know_and_says_what(tmp_path, text, old, new, said):
    assert old in text
    path = tmp_path / "moonshine-tiny-en.toml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(RecipeError) as caught:
        load_recipe(path)
    assert any(part in str(caught.value) for part in said.split("|")), caught.value
    assert str(path) in caught.value.message


def test_a_recipe_needs_a_source(tmp_path, text):
    start, end = text.index("[sources.pypi]"), text.index("[architecture]")
    path = tmp_path / "moonshine-tiny-en.toml"
    path.write_text(text[:start] + "[sources]\n" + text[end:])
    with pytest.raises(RecipeError, match="needs a source"):
        load_recipe(path)


def test_a_users_own_recipe_is_taken_by_its_path(tmp_path, text):
    path = tmp_path / "my-moonshine.toml"
    path.write_text(text.replace('name = "moonshine-tiny-en"', 'name = "my-moonshine"', 1))
    assert load_recipe(path).name == "my-moonshine"
    assert load_recipe(str(path)).hash == load_recipe("moonshine-tiny-en").hash


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(RecipeError, match=r"Did you mean moonshine-tiny-en\?"):
        load_recipe("moonshine-tiny")
    with pytest.raises(RecipeError, match=r"Known: .*moonshine-tiny-en, .*silero-vad"):
        load_recipe("zzz")
    with pytest.raises(RecipeError, match="no recipe"):
        load_recipe("/nowhere/x.toml")
    with pytest.raises(RecipeError):
        load_recipe("../engines/silero-vad")


def test_bytes_that_are_no_text_are_refused(tmp_path):
    path = tmp_path / "x.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RecipeError):
        load_recipe(path)
