"""What tools/compare-precisions compares: forms of a made-up model, times, early answers."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from precisions import tensorrt
from precisions.exits import Lens, Model, _decoded, _fitted, _threshold
from precisions.forms import FLOAT, Forms
from precisions.main import main
from precisions.streamed import Clock, _row, play
from precisions.tensorrt import built
from precisions.timing import times

from edge_runtime.bench.take import Arrival, Take
from edge_runtime.decode.update import Cost as Spent
from edge_runtime.decode.update import Hypothesis, Purpose, Update
from edge_runtime.engines.calibrate.costs import Cost
from edge_runtime.engines.calibrate.texts import Writer
from edge_runtime.errors import ModelMissing
from edge_runtime.events import Final, Partial


@pytest.fixture(scope="module")
def sound() -> np.ndarray:
    return np.random.default_rng(6).normal(0, 0.2, 24_000).astype(np.float32)


@pytest.fixture
def make(made_up, made_up_store, tmp_path) -> Forms:
    return Forms(made_up_store, made_up, tmp_path / "forms")


def test_each_form_runs_and_weighs_what_its_bits_say(make, sound) -> None:
    names = (FLOAT, "int8-weights", "int8-blocks", "int4-blocks", "int4-weights")
    forms = {name: make(name) for name in names}
    for form in forms.values():
        tokens = Writer(form.folder, len(sound))(sound).tokens
        assert set(tokens) <= set(range(50))
    assert forms["int4-blocks"].bytes < forms["int8-blocks"].bytes < forms[FLOAT].bytes
    # 8 bits are close enough for the same text; another accuracy level is the same weights
    assert forms["int4-blocks"].bytes == pytest.approx(forms["int4-weights"].bytes, rel=0.01)
    texts = [Writer(forms[name].folder, len(sound))(sound).tokens for name in names[:2]]
    assert texts[0][:1] == texts[1][:1]


def test_a_form_that_cannot_be_had_says_why(make, calibrated, made_up_scheme) -> None:
    with pytest.raises(ModelMissing, match="no calibrated made-up is active"):
        make("int8")
    folder = calibrated(made_up_scheme)
    assert make("int8").folder == folder


def test_times_are_told_against_the_first() -> None:
    def work(count: int):
        values = np.ones(count)
        return lambda: [np.sort(values[::-1] * values) for _ in range(3)]

    slow, fast = [work(200_000)] * 3, [work(2_000)] * 3
    found = times({"slow": slow, "fast": fast}, turns=3)
    for what in ("encode", "draft", "step"):
        assert found["slow"][what]["faster"] == 1.0
        assert found["fast"][what]["faster"] > 5
        assert found["slow"][what]["ms"] > found["fast"][what]["ms"]


@pytest.fixture
def model(made_up, made_up_store) -> Model:
    return Model(made_up_store, made_up)


def test_the_last_layer_is_what_the_model_says(model, sound) -> None:
    tokens = model.tokens(sound)
    states = model.states(sound, tokens)
    assert sorted(states) == [1, 2, 3]
    best, probability = Lens(model.table, np.eye(24, dtype=np.float32))(states[3])
    assert best.tolist() == tokens
    assert ((probability > 0) & (probability <= 1)).all()
    assert model.tokens(sound, [5, 7])[:2] == [5, 7]


def test_early_answers_are_the_models_where_nothing_is_sure_and_the_lens_where_all_is(
    model, sound
) -> None:
    tokens = model.tokens(sound)[:6]
    known = [(tokens, model.states(sound, tokens))]
    lens = _fitted(model, known, 1)
    states = known[0][1][1]
    assert _decoded(model, lens, 1, 1.0, sound, tokens, states) == (tokens, 0)
    said, early = _decoded(model, lens, 1, 0.0, sound, tokens, states)
    assert early == len(said)
    best, _ = lens(model.states(sound, said)[1])
    assert best[: len(said)].tolist() == said


def test_the_threshold_lets_no_more_differ_than_is_allowed(model, sound) -> None:
    tokens = model.tokens(sound)
    states = model.states(sound, tokens)
    same = Lens(model.table, np.eye(24, dtype=np.float32))
    assert _threshold(same, [(tokens, states)], 3, 0.0) == pytest.approx(same(states[3])[1].min())
    wrong = [token + 1 for token in tokens]
    assert _threshold(same, [(wrong, states)], 3, 0.5) == 1.0


COSTS = [Cost(2, 20.0, 10.0, 5.0), Cost(4, 40.0, 20.0, 5.0)]


@pytest.mark.parametrize(
    ("seconds", "drafted", "steps", "wanted"),
    [(2, 5, 0, 30), (3, 5, 2, 30 + 15 + 10), (3, 0, 2, 30 + 10), (1, 0, 1, 10 + 5), (9, 1, 0, 60)],
)
def test_an_update_takes_what_was_measured(seconds, drafted, steps, wanted) -> None:
    update = Update("clip", 1, Purpose.PARTIAL, 0, seconds * 16000)
    said = Hypothesis(update, (), (), (), (), True, 0, cost=Spent(drafted=drafted, steps=steps))
    assert Clock(COSTS)(said) == pytest.approx(wanted / 1000)
    assert Clock(COSTS, slower=2.0)(said) == pytest.approx(2 * wanted / 1000)


def test_a_clip_is_played_in_virtual_time(made_up_store, made_up) -> None:
    """Twice the same, whatever the machine does; who is slower is asked less often."""
    writer = Writer(made_up_store.graphs(made_up), 20 * 16000)
    samples = np.random.default_rng(6).normal(0, 0.2, 125 * 512).astype(np.float32)
    speech = [0.0] * 15 + [1.0] * 60 + [0.0] * 50
    first, count = play("clip", samples, speech, writer, Clock(COSTS))
    assert play("clip", samples, speech, writer, Clock(COSTS)) == (first, count)
    ends = [partial.end for _, partial in first.partials]
    assert all(end % 0.032 < 1e-3 or end % 0.032 > 0.031 for end in ends)
    times = [arrival.at for arrival in first.arrivals]
    assert times == sorted(times)
    (final,) = first.finals
    assert final[1].end == pytest.approx(75 * 0.032, abs=0.1)
    slower, fewer = play("clip", samples, speech, writer, Clock(COSTS, slower=30.0))
    assert count > 2 * fewer > 0
    assert slower.text == first.text


def take(*segments: tuple[str, str, str | None]) -> Take:
    """Of each segment: its last stable text, its final, and what contradicted that."""
    arrivals = []
    for number, (stable, text, free) in enumerate(segments, 1):
        shown = Partial(segment=number, stable=stable, unstable="", start=0.0, end=1.0)
        final = Final(
            segment=number, turn=1, reason="endpoint", text=text, start=0.0, end=2.0,
            logprob=-0.1, alternative=free,
        )  # fmt: skip
        arrivals.append(Arrival(1.0, shown))
        arrivals.append(Arrival(2.0, final))
    return Take("clip", 4.0, tuple(arrivals))


def test_what_stable_text_costs_is_told_apart_from_what_finals_do() -> None:
    full = [take(("one", "one red fox", None), ("", "ran home", None))]
    ours = [take(("one", "one red box", None), ("run", "run home", "ran home"))]
    row = _row(["one red fox ran home"], full, ours)
    assert (row["clips"], row["words"]) == (1, 5)
    assert (row["finals"]["wer"], row["finals"]["changed"]) == (40.0, 2)
    assert (row["free"]["wer"], row["free"]["changed"]) == (20.0, 1)
    assert (row["stable"], row["contradicted"]) == (40.0, 1)


@pytest.mark.skipif(
    importlib.util.find_spec("tensorrt_rtx_bindings") is None,
    reason="TensorRT-RTX is not installed: pip install .[rtx]",
)
def test_tensorrt_takes_eight_bit_floats_and_says_why_it_has_no_four_bits(
    made_up_store, made_up, monkeypatch
) -> None:
    tile = made_up_store.graphs(made_up, "fp16") / "layers_0_1.onnx"
    monkeypatch.setattr(tensorrt, "_tiles", lambda graphs: [tile])
    full, fp8, int4 = built(made_up_store, made_up, lambda line: None)
    assert [row["name"] for row in (full, fp8, int4)] == ["fp16", "fp8", "int4"]
    assert 0 < fp8["bytes"] != full["bytes"] > 0
    assert "no whole blocks of 32" in int4["missing"]
    assert not any(row["run"] for row in (full, fp8, int4))


def test_what_does_not_exist_is_refused(capsys, made_up_store, tmp_path) -> None:
    path = str(tmp_path / "x")
    assert main([path, "--rows", "int3", "--json", path]) == 1
    assert "no row is called int3. Choose from: float32" in capsys.readouterr().err
