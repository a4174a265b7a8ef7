"""How often the decoder could answer after fewer layers, and what its texts would lose.

Behind layer k the final norm and the embedding table make logits, after a linear map of 288 by 288
that brings what layer k says closest to what the last layer says (Belrose et al. 2023, "tuned
lens"), fitted on two thirds of the heard clips. A token comes out there when its probability
exceeds a threshold, the least under which, on the other third, few enough tokens differ. The layers
above are taken to be run all the same for keys and values: that is the best case for accuracy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.audio import RATE
from edge_runtime.audio.ring import Samples
from edge_runtime.bench.manifest import Clip, Manifest, spread
from edge_runtime.decode.runner import Runner
from edge_runtime.decode.tiles import Chain, Size
from edge_runtime.decode.tokens import Vocabulary
from edge_runtime.decode.update import Purpose, Update
from edge_runtime.device import open_device
from edge_runtime.engines import weights as readers
from edge_runtime.engines.calibrate.gate import Outcome, judge
from edge_runtime.engines.calibrate.observe import Observer
from edge_runtime.engines.calibrate.scheme import TABLE
from edge_runtime.engines.calibrate.write import floats
from edge_runtime.engines.export import moonshine
from edge_runtime.engines.recipe import MoonshineRecipe
from edge_runtime.engines.store import Store

LONGEST = 40  # seconds
ALLOWED = (0.001, 0.01)
"""Of the tokens that come out early on the heard clips, how many may differ."""

RIDGE = 1e-2

Array = NDArray[np.float32]
Said = Callable[[str], None]


class Model:
    """The float32 model, and what it thinks behind each layer."""

    def __init__(self, store: Store, recipe: MoonshineRecipe) -> None:
        folder = store.graphs(recipe)
        arrays = readers.read(recipe, store.weights(recipe))
        full = floats(recipe, arrays)
        self.layers = recipe.architecture.decoder_layers
        self.table = full.weights[TABLE]
        self._norms = [
            arrays[f"model.decoder.layers.{layer}.input_layernorm.weight"]
            for layer in range(self.layers)
        ]
        self._last = arrays["model.decoder.norm.weight"]
        self._sites = {
            f"model.decoder.layers.{layer}.self_attn.qkv_proj.weight": layer
            for layer in range(1, self.layers)
        } | {TABLE: self.layers}
        self._observer = Observer(full.graphs, self.table, moonshine.shape(recipe))
        self._runner = Runner(Chain(open_device("cpu"), folder), Size(1, LONGEST * RATE))
        self._vocabulary = Vocabulary.load(folder)
        self.end = recipe.architecture.eos

    def tokens(self, pcm: Samples, forced: Sequence[int] = ()) -> list[int]:
        """The greedy text behind a forced prefix, with its end mark."""
        update = Update("exits", 0, Purpose.FINAL, 0, len(pcm), forced=tuple(forced))
        (said,) = self._runner.run([update], [[pcm]])
        return [*said.tokens, self.end] if said.ended else list(said.tokens)

    def states(self, pcm: Samples, tokens: Sequence[int]) -> dict[int, Array]:
        """By layers passed: the normed state from which each of `tokens` is chosen, (n, d)."""
        found: dict[int, Array] = {}

        def seen(name: str, rows: Array) -> None:
            layer = self._sites.get(name)
            if layer is not None:
                scale = 1.0 if layer == self.layers else self._last / self._norms[layer]
                found[layer] = (rows * scale)[: len(tokens)]

        self._observer(pcm, tokens, seen)
        return found

    def text(self, tokens: Sequence[int]) -> str:
        """In words."""
        return self._vocabulary.text([token for token in tokens if token != self.end])


class Lens:
    """What the layers below think of the next token, and how sure they are."""

    def __init__(self, table: Array, matrix: Array) -> None:
        self._table, self._matrix = table, matrix

    def __call__(self, states: Array) -> tuple[NDArray[np.int64], Array]:
        """The tokens of (n, d) states and their probabilities."""
        logits = states @ self._matrix @ self._table.T
        best = logits.argmax(axis=1)
        logits -= logits.max(axis=1, keepdims=True)
        return best, 1 / np.exp(logits).sum(axis=1)


def exits(
    store: Store, recipe: MoonshineRecipe, heard: Manifest, judged: Manifest, quick: int, said: Said
) -> list[dict[str, Any]]:
    """One row for each layer and each of `ALLOWED`."""
    model = Model(store, recipe)
    known = _known(model, _clips(heard, quick), said)
    fitted = [each for number, each in enumerate(known) if number % 3]
    lenses = {layer: _fitted(model, fitted, layer) for layer in range(1, model.layers)}
    clips = _clips(judged, quick)
    said(f"{len(clips)} clips to judge by")
    full = {clip.name: model.tokens(clip.pcm) for clip in clips}
    states = {clip.name: model.states(clip.pcm, full[clip.name]) for clip in clips}
    rows = []
    for layer, lens in lenses.items():
        for allowed in ALLOWED:
            threshold = _threshold(lens, known[::3], layer, allowed)
            said(f"layer {layer}, {allowed:.1%}: from a probability of {threshold:.3f} on")
            rows.append(_row(model, lens, layer, allowed, threshold, clips, full, states))
    return rows


def _clips(manifest: Manifest, quick: int) -> Sequence[Clip]:
    return [clip for clip in spread(manifest.clean, quick) if clip.seconds <= LONGEST]


Known = list[tuple[list[int], dict[int, Array]]]


def _known(model: Model, clips: Sequence[Clip], said: Said) -> Known:
    said(f"{len(clips)} clips to fit by")
    texts = [(clip, model.tokens(clip.pcm)) for clip in clips]
    return [(tokens, model.states(clip.pcm, tokens)) for clip, tokens in texts]


def _fitted(model: Model, known: Known, layer: int) -> Lens:
    """By least squares, held near the identity: there are few tokens."""
    x = np.concatenate([states[layer] for _, states in known]).astype(np.float64)
    y = np.concatenate([states[model.layers] for _, states in known]).astype(np.float64)
    weight = RIDGE * float(np.trace(x.T @ x)) / x.shape[1]
    eye = np.eye(x.shape[1])
    matrix = np.linalg.solve(x.T @ x + weight * eye, x.T @ y + weight * eye)
    return Lens(model.table, matrix.astype(np.float32))


def _threshold(lens: Lens, known: Known, layer: int, allowed: float) -> float:
    """The least probability above which no more than `allowed` of the tokens differ."""
    pairs = [(lens(states[layer]), tokens) for tokens, states in known]
    sure = np.concatenate([probability for (_, probability), _ in pairs])
    wrong = np.concatenate([best != np.array(tokens) for (best, _), tokens in pairs])
    order = np.argsort(-sure)
    share = np.cumsum(wrong[order]) / np.arange(1, len(order) + 1)
    good = np.flatnonzero(share <= allowed)
    return float(sure[order][good[-1]]) if len(good) else 1.0


def _row(
    model: Model, lens: Lens, layer: int, allowed: float, threshold: float,
    clips: Sequence[Clip], full: dict[str, list[int]], states: dict[str, dict[int, Array]],
) -> dict[str, Any]:  # fmt: skip
    outcomes, early, total = [], 0, 0
    for clip in clips:
        begun = full[clip.name], states[clip.name][layer]
        tokens, sure = _decoded(model, lens, layer, threshold, clip.pcm, *begun)
        early, total = early + sure, total + len(tokens)
        texts = model.text(full[clip.name]), model.text(tokens)
        outcomes.append(Outcome(clip.name, clip.seconds, *texts, clip.reference))
    verdict = judge(outcomes)
    return {
        "layer": layer,
        "allowed": allowed,
        "threshold": round(threshold, 4),
        "tokens": total,
        "early": round(early / total, 4),
        "increase": round(verdict.increase, 3),
        "low": round(verdict.low, 3),
        "high": round(verdict.high, 3),
        "changed": verdict.changed,
        "words": verdict.words,
    }


def _decoded(
    model: Model, lens: Lens, layer: int, threshold: float, pcm: Samples, tokens: list[int],
    states: Array,
) -> tuple[list[int], int]:  # fmt: skip
    """The text with early exits, token for token, and how many came out early.

    Up to the first token that comes out different it is the full model's; from there that one
    goes on.
    """
    at = 0
    while True:
        best, probability = lens(states)
        sure = probability > threshold
        apart = np.flatnonzero(sure & (best != np.array(tokens[: len(best)])))
        apart = apart[apart >= at]
        if not len(apart):
            return tokens, int(sure.sum())
        at = int(apart[0]) + 1
        forced = [*tokens[: at - 1], int(best[at - 1])]
        if forced[-1] == model.end:
            return forced, int(sure[:at].sum())
        tokens = model.tokens(pcm, forced)
        states = model.states(pcm, tokens)[layer]
