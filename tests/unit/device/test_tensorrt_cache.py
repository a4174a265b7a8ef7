"""Kernels that were compiled once are kept beside the plan, and never in the way."""

import logging
from pathlib import Path

import pytest

from edge_runtime.device.tensorrt.cache import KernelCache, NoCache
from tests.fakes import tensorrt as fake


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "encoder.plan.cache"


def compiled(path: Path, *kernels: str) -> tuple[KernelCache, set[str]]:
    """A cache, and the kernels it had when it was opened; then `kernels` come in."""
    config = fake.IRuntimeConfig()
    cache = KernelCache(config, path)
    raw = config._cache
    assert raw is not None
    had = set(raw._kernels)
    raw._kernels |= {f"{kernel}\n" for kernel in kernels}
    return cache, had


def test_what_was_saved_is_there_again(path: Path) -> None:
    cache, had = compiled(path, "one", "two")
    assert had == set()
    assert not path.exists()
    cache.save()
    _, had = compiled(path)
    assert had == {"one\n", "two\n"}


def test_it_is_written_only_when_there_is_something_new(path: Path) -> None:
    compiled(path, "one")[0].save()
    cache, _ = compiled(path)
    path.unlink()
    cache.save()
    assert not path.exists()
    cache, _ = compiled(path, "one")
    cache.save()
    first = path.stat().st_ino
    cache.save()
    assert path.stat().st_ino == first
    cache, _ = compiled(path, "two")
    cache.save()
    assert compiled(path)[1] == {"one\n", "two\n"}


@pytest.mark.parametrize("content", [b"", b"not a cache", b"fake cach"])
def test_a_damaged_one_is_made_anew(
    path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path.write_bytes(content)
    cache, had = compiled(path, "one")
    assert had == set()
    assert f"{path} is not of this machine" in caplog.text
    cache.save()
    assert compiled(path)[1] == {"one\n"}


def test_one_that_cannot_be_read(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.mkdir()
    cache, _ = compiled(path, "one")
    assert "kernels are compiled again" in caplog.text
    cache.save()
    assert "the next start compiles kernels again" in caplog.text
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_others_never_see_half_of_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(path, "one")[0].save()
    cache, _ = compiled(path, "two")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("edge_runtime.device.tensorrt.cache.os.fsync", full)
    cache.save()
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert compiled(path)[1] == {"one\n"}
    monkeypatch.undo()
    cache.save()
    assert compiled(path)[1] == {"one\n", "two\n"}
    assert path.stat().st_mode & 0o777 == 0o644


def test_tensorrt_proper_keeps_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        NoCache().save()
    assert not caplog.text
