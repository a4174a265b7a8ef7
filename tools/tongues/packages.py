"""Packages of Debian, downloaded and unpacked into a folder; nothing is installed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from edge_runtime.errors import DownloadFailed


def unpacked(names: Sequence[str], folder: Path) -> list[Path]:
    """Where the files of each package lie; raises `DownloadFailed` saying what helps."""
    return [_unpacked(name, folder / "packages" / name) for name in names]


def _unpacked(name: str, home: Path) -> Path:
    if home.is_dir():
        return home
    half = home.with_name(f"{name}.part")
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(parents=True)
    _run(["apt-get", "download", name], half)
    (archive,) = half.glob("*.deb")
    _run(["dpkg", "-x", archive.name, "."], half)
    archive.unlink()
    half.rename(home)
    return home


def _run(command: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise DownloadFailed(f"there is no {command[0]}", "Run this on Debian or Ubuntu.") from None
    if done.returncode:
        raise DownloadFailed(
            f"{' '.join(command)}: {done.stderr.strip()[-300:]}", "Run apt-get update first."
        )
