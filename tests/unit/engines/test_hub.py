"""A model hub, served here: files come through huggingface_hub from wherever HF_ENDPOINT says."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

import msgspec
import pytest

from edge_runtime.engines.fetch import fetch
from edge_runtime.engines.pull import pull
from edge_runtime.engines.store import Store
from edge_runtime.errors import DownloadFailed, MissingExtra, ModelDamaged, ModelMissing

FILE = "silero_vad_16k_sequence.onnx"

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("huggingface_hub") is None, reason="the extra `hub` is not installed"
)


@dataclass
class Hub:
    """What the hub serves under the one path, and what was asked of it.

    After `cut` bytes it drops the line, once.
    """

    content: bytes
    etag: str
    cut: int | None = None
    gone: bool = False
    ranges: list[str] = field(default_factory=list)
    address: str = ""
    folder: str = ""


@pytest.fixture
def hub(published, serving, monkeypatch) -> Iterator[Hub]:
    content = published.read_bytes()
    state = Hub(content, hashlib.sha256(content).hexdigest())

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def _answer(self, *, body: bool) -> None:
            if self.path != f"/someone/tiny-voice/resolve/main/{state.folder}{FILE}" or state.gone:
                self.send_response(404)
                self.send_header("X-Error-Code", "EntryNotFound")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            first = 0
            if body:
                state.ranges.append(self.headers.get("Range", ""))
                first = int("0" + state.ranges[-1].removeprefix("bytes=").split("-")[0])
            rest = state.content[first:]
            self.send_response(206 if first else 200)
            self.send_header("ETag", f'"{state.etag}"')
            self.send_header("X-Repo-Commit", "0" * 40)
            self.send_header("Content-Length", str(len(rest)))
            if first:
                total = len(state.content)
                self.send_header("Content-Range", f"bytes {first}-{total - 1}/{total}")
            self.end_headers()
            if not body:
                return
            self.wfile.write(rest if state.cut is None else rest[: state.cut])
            state.cut = None
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    with serving(Handler) as state.address:
        monkeypatch.setenv("HF_ENDPOINT", state.address)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield state


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "store")


def test_files_come_from_where_hf_endpoint_says(hub, store, recipe, published):
    steps = []
    (pulled,) = pull(recipe, store, "hub", steps.append)
    assert pulled.fetched
    assert (pulled.weights / FILE).read_bytes() == published.read_bytes()
    assert store.listing()  # a manifest that reads
    assert sorted(path.name for path in pulled.weights.iterdir()) == ["manifest.json", FILE]
    assert "someone/tiny-voice main" in (pulled.weights / "manifest.json").read_text()


def test_files_may_lie_in_a_folder_of_the_repository(hub, recipe, tmp_path, published):
    hub.folder = "onnx/tiny/"
    replace = msgspec.structs.replace
    inner = replace(recipe.sources.hub, folder="onnx/tiny")
    recipe = replace(recipe, sources=replace(recipe.sources, hub=inner))
    into, downloads = tmp_path / "into", tmp_path / "downloads"
    into.mkdir()
    for _ in range(2):
        fetch(recipe, "hub", into, downloads, lambda *_: None)
        assert (into / FILE).read_bytes() == published.read_bytes()
    assert len(hub.ranges) == 1


def test_a_hub_that_is_away_is_said_with_the_ways_out(store, recipe, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(DownloadFailed) as caught:
        pull(recipe, store, "hub")
    assert "http://127.0.0.1:9" in caught.value.message
    assert "HF_ENDPOINT" in caught.value.fix
    assert "--from FOLDER" in caught.value.fix
    with pytest.raises(ModelMissing):
        store.weights(recipe)


def test_a_file_that_the_hub_lacks_is_said(hub, store, recipe):
    hub.gone = True
    with pytest.raises(DownloadFailed, match="someone/tiny-voice"):
        pull(recipe, store, "hub")


def test_content_that_differs_from_the_hubs_own_hash_is_refused(hub, store, recipe):
    changed = bytearray(hub.content)
    changed[-1] ^= 1
    hub.content = bytes(changed)
    with pytest.raises(ModelDamaged, match="another sha256"):
        pull(recipe, store, "hub")
    with pytest.raises(ModelMissing):
        store.weights(recipe)
    # What was wrong is not taken for good the next time.
    changed[-1] ^= 1
    hub.content = bytes(changed)
    assert pull(recipe, store, "hub")[0].fetched


def test_a_download_goes_on_where_it_broke_off(hub, store, recipe, published, monkeypatch):
    # The library writes whole chunks; ours is a small file.
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 100_000)
    hub.cut = 300_000
    (pulled,) = pull(recipe, store, "hub")
    assert (pulled.weights / FILE).read_bytes() == published.read_bytes()
    assert hub.ranges == ["", "bytes=300000-"]


def test_a_whole_file_is_not_fetched_twice(hub, recipe, tmp_path, published):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        fetch(recipe, "hub", tmp_path / name, tmp_path / "downloads", lambda *_: None)
        assert (tmp_path / name / FILE).read_bytes() == published.read_bytes()
    assert hub.ranges == [""]


def test_without_the_extra_the_command_is_named(store, recipe, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'edge-runtime\[hub\]'"):
        pull(recipe, store, "hub")
