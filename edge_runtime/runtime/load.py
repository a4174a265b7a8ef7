"""Everything loaded for one model on one device: chain, voice detector, vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edge_runtime.audio.vad import VoiceDetector
from edge_runtime.decode.reading import Model
from edge_runtime.decode.tiles import Chain
from edge_runtime.decode.tokens import Vocabulary
from edge_runtime.device import Device, Program, open_device
from edge_runtime.engines.recipe import MoonshineRecipe, load_recipe
from edge_runtime.engines.store import Store
from edge_runtime.errors import RecipeError

DETECTOR = "silero-vad"
LATIN = frozenset({"en", "de", "fr", "es", "it", "pt", "nl", "pl", "sv", "da", "fi", "cs"})


@dataclass(frozen=True)
class Loaded:
    """One model, ready to run: heavy, shared by all sessions."""

    name: str
    device: Device
    chain: Chain
    model: Model
    detector: Program

    def ears(self, rows: int) -> VoiceDetector:
        """A voice detector for `rows` streams."""
        return VoiceDetector(self.detector, self.device, rows)


def load(
    model: str | Path, device: str = "auto", threads: int = 1, store: Store | None = None
) -> Loaded:
    """Load `model` from the store, exporting its graphs if they are not there yet.

    Raises `ModelMissing` when it was never pulled, `ModelDamaged`, `DeviceError`,
    and `RecipeError` for a name that is no speech model.
    """
    store = store or Store()
    recipe = load_recipe(model)
    if not isinstance(recipe, MoonshineRecipe):
        raise RecipeError(f"{recipe.name} turns no speech into text", "Choose a speech model.")
    graphs = store.graphs(recipe)
    opened = open_device(device, threads)
    chain = Chain(opened, graphs)
    latin = LATIN.issuperset(recipe.languages)
    return Loaded(
        recipe.name,
        opened,
        chain,
        Model(chain.shape, Vocabulary.load(graphs), latin),
        opened.load(store.graphs(load_recipe(DETECTOR)) / "vad.onnx"),
    )
