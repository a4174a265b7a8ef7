"""The rows that measure on a loaded model, on a GPU that is not there: every figure comes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest
import soundfile
from gpu_bench import bed, machine, main
from gpu_bench import segment as segments
from gpu_bench.bench import Bench
from gpu_bench.options import Options
from gpu_bench.rows import batches, floors, passes, silence, tokens, update, variants

from edge_runtime.decode.reading import Model
from edge_runtime.decode.runner import Runner
from edge_runtime.decode.tiles import Chain, Size
from edge_runtime.decode.tokens import Vocabulary
from edge_runtime.device.cuda import device as cuda_device
from edge_runtime.device.cuda import open_driver
from edge_runtime.device.onnx import OnnxDevice
from edge_runtime.device.tensorrt import TensorRT, TensorRTDevice
from edge_runtime.runtime.load import Loaded
from tests.fakes import cuda, tensorrt
from tests.fakes.gpu import FakeGpu

SIZE = Size(1, 34_000)
SECONDS, DRAFT, NEW = 2, 6, 2


@pytest.fixture
def folder(made_up, made_up_store, tmp_path: Path) -> Path:
    folder = shutil.copytree(made_up_store.graphs(made_up), tmp_path / "engine")
    most = {"B": (1, 1, 2), "N": (895, 16_000, 40_000), "T": (1, 40, 104), "Q": (1, 8, 40)}
    for path in folder.glob("*.onnx"):
        plan = tensorrt.Plan(str(path), [tensorrt.profile(path, most)], scratch=100_000)
        plan.write(path.with_suffix(".plan"))
    return folder


@pytest.fixture
def options(folder: Path, tmp_path: Path, monkeypatch) -> Options:
    """Two clips of noise, and what the CPU says of them."""
    monkeypatch.setattr(segments, "SAMPLES", SECONDS * 16_000)
    monkeypatch.setattr(passes, "SAMPLES", SECONDS * 16_000)
    for module in (segments, passes):
        monkeypatch.setattr(module, "DRAFT", DRAFT)
    monkeypatch.setattr(segments, "NEW", NEW)
    runner = Runner(Chain(OnnxDevice(), folder), SIZE)
    vocabulary, clips = Vocabulary.load(folder), []
    for number in range(2):
        noise = np.random.default_rng(number).normal(0, 0.1, 33_000)
        name = tmp_path / f"{number}.wav"
        soundfile.write(name, noise.astype(np.float32), 16_000, "FLOAT")
        audio, _ = soundfile.read(name, dtype="float32")
        said = bed.decoded(runner, [audio], limit=15)
        clips.append({
            "id": f"c{number}", "file": name.name, "samples": len(audio),
            "tokens": said.tokens, "margins": [float(m) for m in said.margins],
            "ended": said.ended, "text": vocabulary.text(said.tokens), "transcript": "",
        })  # fmt: skip
    made = {"model": "made-up", "made": "here", "clips": clips}
    (tmp_path / "reference.json").write_text(json.dumps(made))
    return Options(
        tmp_path, tmp_path / "reference.json", precisions=("fp32",), count=4, silence=0.3,
        json=tmp_path / "out.json",
    )  # fmt: skip


@pytest.fixture
def bench(options: Options, folder: Path, monkeypatch) -> Bench:
    gpu = FakeGpu(deferred=True)
    cuda.install(monkeypatch, gpu)
    tensorrt.connect(monkeypatch, gpu)
    monkeypatch.setattr(variants, "COUNT", 6)
    for module in (floors, cuda_device):
        monkeypatch.setattr(module, "compiled", lambda *source: b"code")
    gpu.kernels["nothing"] = lambda *arguments: None
    gpu.kernels["gather"] = lambda *arguments: None
    device = TensorRTDevice(
        open_driver(library="cuda-bindings"), TensorRT("tensorrt", "10.3.0", tensorrt)
    )

    def make(options, precision, size=None, **settings):
        chain = Chain(device, folder)
        model = Model(chain.shape, Vocabulary.load(folder))
        size = Size(min(2, size.rows), SIZE.samples) if size else SIZE
        loaded = Loaded("made-up", device, chain, model, None, size)
        runner = Runner(chain, size)
        runner.warm()
        return bed.Bed(precision, loaded, runner, 0.0, 0.0)

    monkeypatch.setattr(bed, "make", make)
    monkeypatch.setattr(machine, "_cuda", lambda: "13.0")
    monkeypatch.setattr(segments, "_RING", 4 * 16_000)
    return Bench(options)


def figures(bench: Bench, measure) -> dict[str, float | None]:
    before = {figure.name for figure in bench.figures}
    measure(bench)
    assert bench.failed == {}
    return {each.name: each.value for each in bench.figures if each.name not in before}


def test_the_machine_is_in_the_file(bench: Bench, options: Options):
    bench.bed("fp32")
    record = json.loads(options.json.read_text())
    gpu = record["hardware"]["gpu"]
    assert gpu["tensorrt"] == "tensorrt"
    assert gpu["tensorrt_version"] == "10.3.0"
    assert gpu["capability"] == "8.7"
    assert gpu["library"] == "cuda-bindings"


def test_tokens_are_counted_against_the_reference(bench: Bench):
    found = figures(bench, tokens.measure)
    assert found["tokens.fp32.different"] == found["tokens.fp32.excused"] == 0
    assert found["texts.fp32.different"] == 0
    assert bench.figures.get("tokens.fp32.different").note == "of 30"


def test_a_token_of_the_reference_that_is_another_is_found(bench: Bench):
    first = bench.clips.all[0]
    wrong = (*first.tokens[:3], (first.tokens[3] + 1) % 50, *first.tokens[4:])
    bench.clips.all = (msgspec.structs.replace(first, tokens=wrong, margins=(9.0,) * 15),)
    found = figures(bench, tokens.measure)
    # At least there; after another token the rest may be another, too.
    assert found["tokens.fp32.different"] >= 1
    assert bench.figures.get("tokens.fp32.different").note.startswith(
        f"of 15: c0 at 3: {first.tokens[3]} for {wrong[3]}, margin 9"
    )


def test_passes_are_timed_and_their_graphs_counted(bench: Bench):
    found = figures(bench, passes.measure)
    for name in ("encode", "check", "step", "work"):
        assert found[f"{name}.fp32.p50"] > 0
    # Encoder: one kernel. A pass: the embedding and two tiles. A chain: four of these.
    assert found["encode.fp32.kernels"] == 1
    assert found["check.fp32.kernels"] == found["step.fp32.kernels"] == 3
    assert found["chain.fp32.kernels"] == 12
    # The fake device's clock: a millisecond a piece of work, copies included.
    assert found["step.fp32.device"] == pytest.approx(5000, rel=0.01)


def test_an_update_is_timed_and_its_waits_counted(bench: Bench):
    found = figures(bench, update.measure)
    assert found["update.fp32.p50"] > 0
    assert found["update.fp32.p99"] >= found["update.fp32.p50"]
    assert 1 <= found["update.fp32.waits"] <= 3
    segment = bench.segment("fp32")
    assert len(segment.pieces) == 2
    assert segment.whole[: len(segment.draft)] == segment.draft
    assert bench.bed("fp32").decode(segment.pieces, segment.draft).tokens == segment.whole
    first = segment.first(bench.bed("fp32"))
    assert first.tokens == segment.whole[: len(segment.draft) + 1]


def test_batches_are_compared_with_one_by_one(bench: Bench, monkeypatch):
    monkeypatch.setattr(batches, "SECONDS", 0.15 * 300 / bench.options.count)
    monkeypatch.setattr(batches, "LANES", (2,))
    monkeypatch.setattr(batches, "PACES", (0.5,))
    monkeypatch.setattr(batches, "LIKENESS", (0.5,))
    found = figures(bench, batches.measure)
    assert {name for name in found if ".cost." not in name} == {
        "batch.different", "batch.one.2", "batch.adaptive.2", "batch.alike.0.5", "batch.times.2",
        "batch.single.one", "batch.single.adaptive", "batch.single.worse",
        "batch.table.all.static.1", "batch.table.all.static.2", "batch.table.all.adaptive",
        "batch.table.128.static.1", "batch.table.128.static.2", "batch.table.128.adaptive",
    }  # fmt: skip
    assert {name.split(".")[2] for name in found if ".cost." in name} == {"1", "2"}
    assert found["batch.different"] == 0
    assert bench.figures.get("batch.different").note.endswith("; 0 where two best nearly tie")
    timed = [
        value for name, value in found.items() if name.split(".")[-1] not in ("worse", "different")
    ]
    assert min(timed) > 0


def test_every_way_to_compute_is_in_the_table_and_the_defaults_come_back(bench: Bench):
    made = bench.bed("fp32")
    before = (made.device.chained, made.device.graphs, made.runner.lane.tiled)
    found = figures(bench, variants.measure)
    assert set(found) >= {
        f"table.fp32.{name}"
        for name in (
            "default", "chained.1", "chained.2", "chained.4", "chained.8", "graphs.off",
            "lanes.1", "lanes.2", "gather.copy", "gather.kernel",
        )
    }  # fmt: skip
    assert all(value > 0 for value in found.values())
    assert (made.device.chained, made.device.graphs, made.runner.lane.tiled) == before
    assert made.device.gathering is None


def test_the_floors_of_a_step_and_which_one_binds(bench: Bench):
    figures(bench, passes.measure)
    found = figures(bench, floors.measure)
    assert found["floor.bandwidth"] > 0
    assert found["floor.kernel"] == pytest.approx(1000, rel=0.01)
    assert found["floor.fp32.launches"] == pytest.approx(5 * found["floor.kernel"])
    assert "launches bind" in bench.figures.get("floor.fp32.launches").note


def test_silence_is_waited_for(bench: Bench):
    found = figures(bench, silence.measure)
    assert set(found) == {"silence.awake", "silence.asleep"}
    assert all(value > 0 for value in found.values())


def test_rows_go_on_in_one_run(bench: Bench, options: Options, capsys):
    main.run(bench, ["tokens", "passes", "start", "update"])
    record = json.loads(options.json.read_text())
    # No server starts without the model.
    assert list(record["failed"]) == ["start"]
    assert list(record["seconds"]) == ["tokens", "passes", "start", "update"]
    assert "update.fp32.p50" in capsys.readouterr().out
