"""Models with made-up weights: a voice detector in every form it travels in, others that speak."""

from __future__ import annotations

import hashlib
import threading
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edge_runtime.engines.architecture import Marks
from edge_runtime.engines.recipe import MoonshineRecipe, SileroRecipe, WhisperRecipe, load_recipe
from edge_runtime.engines.weights.base import moonshine_shapes
from edge_runtime.engines.weights.whisper import whisper_shapes

FILE = "silero_vad_16k_sequence.onnx"


@pytest.fixture(scope="session")
def published(tmp_path_factory) -> Path:
    """A file with the tensors of the real one, small random numbers in them."""
    random = np.random.default_rng(7)
    shapes = {
        "stft.forward_basis_buffer": (258, 1, 256),
        "encoder.0.weight": (128, 129, 3),
        "encoder.0.bias": (128,),
        "encoder.1.weight": (64, 128, 3),
        "encoder.1.bias": (64,),
        "encoder.2.weight": (64, 64, 3),
        "encoder.2.bias": (64,),
        "encoder.3.weight": (128, 64, 3),
        "encoder.3.bias": (128,),
        "output.weight": (1, 128, 1),
        "output.bias": (1,),
        "onnx::LSTM_1": (1, 512, 128),
        "onnx::LSTM_2": (1, 512, 128),
        "onnx::LSTM_3": (1, 1024),
    }
    tensors = [
        numpy_helper.from_array(random.normal(0, 0.05, shape).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    inputs = ["x", "onnx::LSTM_1", "onnx::LSTM_2", "onnx::LSTM_3"]
    cell = helper.make_node("LSTM", inputs, ["y"], hidden_size=128)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 128])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    path = tmp_path_factory.mktemp("published") / FILE
    onnx.save(helper.make_model(helper.make_graph([cell], "vad", [x], [y], tensors)), str(path))
    return path


@pytest.fixture(scope="session")
def recipe(published) -> SileroRecipe:
    """The detector's recipe, with the made-up file in the place of the real one."""
    content = msgspec.to_builtins(load_recipe("silero-vad"))
    files = [
        {
            "name": FILE,
            "size": published.stat().st_size,
            "sha256": hashlib.sha256(published.read_bytes()).hexdigest(),
        }
    ]
    content["sources"] = {
        "pypi": {
            "reader": "onnx",
            "package": "tiny-voice",
            "version": "1.0",
            "platform": "manylinux_2_35_x86_64",
            "folder": "tiny_voice/data",
            "download_size": published.stat().st_size,
            "files": files,
        },
        "hub": {
            "reader": "onnx",
            "repo": "someone/tiny-voice",
            "revision": "main",
            "files": [{"name": FILE}],
        },
    }
    return msgspec.convert(content, SileroRecipe)


@pytest.fixture(scope="session")
def wheel(published, tmp_path_factory) -> Path:
    """The file in a wheel of another platform than any that runs this."""
    path = tmp_path_factory.mktemp("wheel") / "tiny_voice-1.0-py3-none-manylinux_2_35_x86_64.whl"
    info = "tiny_voice-1.0.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.write(published, f"tiny_voice/data/{FILE}")
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-voice\nVersion: 1.0\n"
        )
        archive.writestr(
            f"{info}/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-manylinux_2_35_x86_64\n",
        )
        archive.writestr(f"{info}/RECORD", "")
    return path


@dataclass
class Index:
    """A package index with one wheel. `cut` bytes of it are sent, then the line drops or hangs."""

    wheel: bytes
    name: str
    cut: int | None = None
    hang: threading.Event | None = None
    served: list[str] = field(default_factory=list)
    reached: threading.Event = field(default_factory=threading.Event)
    address: str = ""


@pytest.fixture
def index(wheel, monkeypatch) -> Iterator[Index]:
    """A served index that pip is configured for, and nothing else."""
    state = Index(wheel.read_bytes(), wheel.name)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.served.append(self.path)
            page = f'<a href="/files/{state.name}">{state.name}</a>'.encode()
            body = state.wheel if self.path.startswith("/files/") else page
            self.send_response(200)
            kind = "application/octet-stream" if body is state.wheel else "text/html"
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if body is not state.wheel or state.cut is None:
                self.wfile.write(body)
                return
            self.wfile.write(body[: state.cut])
            self.wfile.flush()
            state.reached.set()
            if state.hang is not None:
                state.hang.wait(30)
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    with Serving(Handler) as state.address:
        use_index(monkeypatch, state.address)
        yield state


@pytest.fixture(scope="session")
def tiny() -> MoonshineRecipe:
    """A model of the real family, small enough to run everything on."""
    recipe = load_recipe("moonshine-tiny-en")
    assert isinstance(recipe, MoonshineRecipe)
    small = msgspec.structs.replace(
        recipe.architecture, encoder_layers=2, decoder_layers=3, width=24, heads=2, head_dim=12,
        padded_head_dim=16, rotary=8, encoder_mlp=32, decoder_mlp=32, past=40, vocabulary=50,
        conv_channels=(24, 48, 24),
    )  # fmt: skip
    return msgspec.structs.replace(
        recipe, architecture=small, decoder_tiles=(1, 2), alignment_heads=((0, 1), (2, 0)),
        buckets=msgspec.structs.replace(recipe.buckets, draft_tokens=(1, 16)),
    )  # fmt: skip


@pytest.fixture(scope="session")
def arrays(tiny) -> dict[str, np.ndarray]:
    """Its weights, at random."""
    return at_random(moonshine_shapes(tiny.architecture), 2)


@pytest.fixture(scope="session")
def whisper() -> WhisperRecipe:
    """A model of the other family, with three languages, as small."""
    recipe = load_recipe("whisper-base")
    assert isinstance(recipe, WhisperRecipe)
    small = msgspec.structs.replace(
        recipe.architecture, encoder_layers=2, decoder_layers=3, width=24, heads=2, head_dim=12,
        padded_head_dim=16, encoder_mlp=32, decoder_mlp=32, past=40, positions=48, vocabulary=128,
        tokens=100, bos=90, eos=91, context=50, context_step=50,
    )  # fmt: skip
    marks = Marks(
        no_speech=97, closing=(98,), suppressed=(3, 7, 90, 95, 96, 97), suppressed_first=(5, 91),
        first_language=92, transcribe=95, translate=96,
    )  # fmt: skip
    return msgspec.structs.replace(
        recipe, architecture=small, marks=marks, languages=("en", "de", "zh"),
        decoder_tiles=(1, 2), alignment_heads=((0, 1), (2, 0)),
        buckets=msgspec.structs.replace(recipe.buckets, draft_tokens=(1, 16)),
    )  # fmt: skip


@pytest.fixture(scope="session")
def whisper_arrays(whisper) -> dict[str, np.ndarray]:
    """Its weights, at random; positions tell the words of a text apart."""
    return at_random(whisper_shapes(whisper.architecture), 5, {"decoder.embed_positions": 4.0})


def at_random(
    shapes: Mapping[str, tuple[int, ...]], seed: int, wider: Mapping[str, float] = {}
) -> dict[str, np.ndarray]:
    """Weights of these shapes; `wider` has how many times more those whose name holds that vary."""
    random = np.random.default_rng(seed)
    made = {}
    for name, shape in shapes.items():
        spread = 1.0 if "norm" in name else 3.0 / np.sqrt(np.prod(shape[1:]))
        for part, times in wider.items():
            spread *= times if part in name else 1.0
        made[name] = random.normal(0, spread, shape).astype(np.float32)
    return made


class Serving:
    """An HTTP server on a port of its own while the block runs; gives its address."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> str:
        self._thread.start()
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def serving() -> type[Serving]:
    return Serving


def use_index(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """Make pip ask the index at `address`, once, whatever this machine's configuration is."""
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_CONSTRAINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", f"{address}/simple")
    monkeypatch.setenv("PIP_TRUSTED_HOST", "127.0.0.1")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_RESUME_RETRIES", "0")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
