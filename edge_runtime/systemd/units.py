"""The files of the service: where each of them goes, and how it names this installation."""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterable
from pathlib import Path

from edge_runtime.errors import ServiceError

SERVICE = "edge-runtime.service"
SOCKET = "edge-runtime.socket"
BUILD = "edge-runtime-build.service"
UNITS = (SERVICE, SOCKET, BUILD)

USER = "edge-runtime"
STORE = Path("/var/lib/edge-runtime")
CONFIG = Path("/etc/edge-runtime")
SYSTEM = Path("/etc/systemd/system")

SETTINGS = {
    "edge-runtime.env": CONFIG / "edge-runtime.env",
    "config.toml": CONFIG / "config.toml",
}
"""What its owner edits: written once, and kept."""

OURS = {
    **{name: SYSTEM / name for name in UNITS},
    "sysusers.conf": Path("/etc/sysusers.d/edge-runtime.conf"),
    "tmpfiles.conf": Path("/etc/tmpfiles.d/edge-runtime.conf"),
}
"""What every install writes anew."""

WRITTEN_FOR = "/opt/edge-runtime/bin/edge-runtime"
"""The program that the units of the checkout run."""

MADE = "# Its folder was made with it, and goes with it.\n"
"""Ends a file of ours whose folder, one of others' files as well, was missing."""

_HIDDEN = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")
"""Folders that the unit hides from the service, and such that others may not enter."""


def folder() -> Path:
    """Where the files lie: inside the wheel, or `systemd/` of a checkout."""
    package = Path(__file__).parents[1]
    shipped = package / "units"
    return shipped if shipped.is_dir() else package.parent / "systemd"


def write(root: Path, program: Path) -> list[Path]:
    """Write them under `root`, for this `program`; gives what was written.

    Raises `ServiceError` where that cannot be written.
    """
    written = []
    try:
        for name, place in (OURS | SETTINGS).items():
            target = _under(root, place)
            if name in SETTINGS and target.exists():
                continue
            text = (folder() / name).read_text(encoding="utf-8")
            if name in OURS and (not target.parent.exists() or made_with_folder(target)):
                text += MADE
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text.replace(WRITTEN_FOR, str(program)), encoding="utf-8")
            target.chmod(0o644)
            written.append(place)
    except OSError as error:
        raise ServiceError(
            f"{error.filename} cannot be written: {error.strerror}", "Run it with sudo."
        ) from None
    return written


def made_with_folder(target: Path) -> bool:
    """Whether a file that is there had its folder made for it."""
    return target.is_file() and target.read_text("utf-8", "replace").endswith(MADE)


def present(root: Path, places: Iterable[Path]) -> list[Path]:
    """Those of `places` that are there under `root`, as paths that can be opened."""
    return [target for place in places if (target := _under(root, place)).exists()]


def drop_ins() -> list[Path]:
    """Folders of what `systemctl edit` adds to the units."""
    return [SYSTEM / f"{name}.d" for name in UNITS]


def this_program() -> Path:
    """The command of this installation. Raises `ServiceError` where there is none."""
    program = Path(sys.executable).parent / "edge-runtime"
    if not program.is_file():
        raise ServiceError(
            f"there is no command {program}",
            "Name it: --program /opt/edge-runtime/bin/edge-runtime",
        )
    return program


def check_reachable(program: Path) -> None:
    """Raises `ServiceError` where the service's user cannot run this installation."""
    for path in (program, Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parent):
        real = path.resolve()
        hidden = next((each for each in _HIDDEN if real.is_relative_to(each)), None)
        closed = next(
            (each for each in real.parents if not each.stat().st_mode & stat.S_IXOTH), None
        )
        if hidden or closed:
            raise ServiceError(
                f"the service cannot see {real}: {hidden or closed} is closed to it",
                "Install into a folder for everybody: sudo python3 -m venv /opt/edge-runtime && "
                "sudo /opt/edge-runtime/bin/pip install edge-runtime, and run that command.",
            )


def _under(root: Path, place: Path) -> Path:
    return root / place.relative_to("/")
