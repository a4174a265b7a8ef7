"""Kernels of our own, compiled for one GPU with NVRTC."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edge_runtime.errors import DeviceError, MissingExtra

TOLD = 2000
"""Characters that are repeated of what NVRTC says."""

_INSTALL = "Install the CUDA toolkit's NVRTC, or: pip install nvidia-cuda-nvrtc"


def compiled(
    source: Path,
    capability: tuple[int, int],
    definitions: Mapping[str, str],
    headers: Sequence[Path] = (),
) -> bytes:
    """The machine code of `source` for GPUs of that compute capability. Needs no GPU.

    It may include `headers` by their names, which may include each other.

    Raises `MissingExtra` without NVRTC, `DeviceError` with NVRTC's words where it refuses.
    """
    if importlib.util.find_spec("cuda") is None or (
        importlib.util.find_spec("cuda.bindings.nvrtc") is None
    ):
        raise MissingExtra(
            "cuda-bindings with NVRTC is not installed", "Run: pip install 'edge-runtime[gpu]'"
        )
    from cuda.bindings import nvrtc

    options = ["--gpu-architecture=sm_{}{}".format(*capability), "--std=c++17"]
    options += [f"-D{name}={value}" for name, value in definitions.items()]
    text, name = source.read_bytes(), source.name.encode()
    try:
        made = nvrtc.nvrtcCreateProgram(
            text,
            name,
            len(headers),
            [each.read_bytes() for each in headers],
            [each.name.encode() for each in headers],
        )
    except RuntimeError as error:  # cuda-bindings' own, where the library is absent
        raise MissingExtra(f"NVRTC is not there: {error}", _INSTALL) from error
    program = _checked("nvrtcCreateProgram", made)
    try:
        (status,) = nvrtc.nvrtcCompileProgram(
            program, len(options), [option.encode() for option in options]
        )
        if status:
            raise DeviceError(
                f"NVRTC does not compile {source.name} ({status.name}): {_log(nvrtc, program)}",
                "Install an NVRTC that knows this GPU; else please report this.",
            )
        code = bytes(_checked("nvrtcGetCUBINSize", nvrtc.nvrtcGetCUBINSize(program)))
        _checked("nvrtcGetCUBIN", nvrtc.nvrtcGetCUBIN(program, code))
        return code
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _log(nvrtc: Any, program: Any) -> str:
    text = bytes(_checked("nvrtcGetProgramLogSize", nvrtc.nvrtcGetProgramLogSize(program)))
    nvrtc.nvrtcGetProgramLog(program, text)
    # One mistake has a hundred more follow: the first tell what is wrong.
    return text.rstrip(b"\0").decode(errors="replace").strip()[:TOLD]


def _checked(call: str, result: tuple[Any, ...]) -> Any:
    if result[0]:
        raise DeviceError(f"{call} says {result[0].name}", "Please report this.")
    return result[1] if len(result) == 2 else None
