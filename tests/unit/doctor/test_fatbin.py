"""Which GPUs a library has kernels for, and which libraries it needs."""

from __future__ import annotations

import contextlib
import importlib.util
from pathlib import Path

import pytest

from edge_runtime.doctor.elf import Elf
from edge_runtime.doctor.fatbin import CUBIN, PTX, kernels
from tests.unit.doctor.recording import fat, library


def written(folder, content):
    path = folder / "library.so"
    path.write_bytes(content)
    return path


def test_architectures_are_read_from_the_fat_binary(tmp_path):
    path = written(tmp_path, library([87, 90, 120], ptx=[90], alone=[121]))
    assert kernels(path) == (((8, 7), (9, 0), (12, 0)), ((9, 0),), ((12, 1),))


def test_images_within_one_fat_binary_and_padding_between_two(tmp_path, monkeypatch):
    made = fat([(CUBIN, 75, 0), (CUBIN, 86, 0), (PTX, 86, 0)]) + b"\0" * 16
    made += fat([(CUBIN, 89, 0)])
    monkeypatch.setattr("tests.unit.doctor.recording.fat", lambda images: made if images else b"")
    path = written(tmp_path, library([1]))
    assert kernels(path) == (((7, 5), (8, 6), (8, 9)), ((8, 6),), ())


def test_needs_and_texts(tmp_path):
    made = library([87], needed=["libcudart.so.12", "libc.so.6"], text="libcudnn.so.9")
    path = written(tmp_path, made)
    with Elf(path) as elf:
        assert elf.needed() == ("libcudart.so.12", "libc.so.6")
        assert elf.mentioned(b"libcudnn.so.") == "libcudnn.so.9"
        assert elf.mentioned(b"libnvinfer.so.") == ""
        assert elf.section(".none") is None


def test_a_library_of_this_machine_without_kernels():
    path = Path(importlib.util.find_spec("onnxruntime").origin).parent / "capi"
    (found,) = path.glob("onnxruntime_pybind11_state*.so")
    assert kernels(found) == ((), (), ())
    with Elf(found) as elf:
        assert any(each.startswith("libc.so") for each in elf.needed())
        assert elf.section(".text") is not None


def test_what_is_no_library(tmp_path):
    for content in (b"\x7fELF" + b"\0" * 80, b"x" * 200):
        with pytest.raises(ValueError, match="no ELF file"):
            kernels(written(tmp_path, content))
    whole = library([87, 90])
    for end in range(70, len(whole), 61):
        with pytest.raises(ValueError, match="cut short"):
            kernels(written(tmp_path, whole[:end]))


def test_a_damaged_library_ends(tmp_path):
    whole = library([87, 90], needed=["libc.so.6"])
    for at in (*range(16, 64), *range(64, len(whole), 7)):
        damaged = bytearray(whole)
        damaged[at] ^= 0xFF
        path = written(tmp_path, bytes(damaged))
        with contextlib.suppress(ValueError):
            kernels(path)
        with contextlib.suppress(ValueError), Elf(path) as elf:
            elf.needed()
            elf.mentioned(b"libcudnn")
