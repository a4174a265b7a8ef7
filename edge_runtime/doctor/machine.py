"""The machine that is looked at: files below a root, and what only a running system tells."""

from __future__ import annotations

import grp
import os
import platform
import pwd
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from edge_runtime.doctor.facts import Card, Inputs, Loaded, Node, Python, User
from edge_runtime.errors import EdgeRuntimeError

_MOST = 16 << 20  # bytes of a file that is read; dpkg's list has some 4 MB


class Machine:
    """This machine. What a subclass does not replace is read from files below `root`."""

    def __init__(self, root: Path | str = "/", environ: Mapping[str, str] | None = None) -> None:
        self.root = Path(root)
        self.environ = os.environ if environ is None else environ

    def path(self, path: str) -> Path:
        """An absolute path of the machine, as a path here."""
        return self.root / path.lstrip("/")

    def text(self, path: str) -> str:
        """The file's text, empty where it cannot be read."""
        try:
            with self.path(path).open("rb") as file:
                return file.read(_MOST).decode("utf-8", "replace").replace("\0", " ").strip()
        except OSError:
            return ""

    def group(self, number: int) -> str:
        """The name of a group, or its number."""
        for line in self.text("/etc/group").splitlines():
            name, _, rest = line.partition(":")
            if rest.split(":")[1:2] == [str(number)]:
                return name
        return str(number)

    def account(self, number: int) -> str:
        """The name of a user, or its number."""
        for line in self.text("/etc/passwd").splitlines():
            parts = line.split(":")
            if parts[2:3] == [str(number)]:
                return parts[0]
        return str(number)

    def members(self, group: str) -> tuple[str, ...]:
        """Who is in a group by /etc/group."""
        for line in self.text("/etc/group").splitlines():
            parts = line.split(":")
            if parts[0] == group and len(parts) > 3:
                return tuple(parts[3].split(","))
        return ()

    def sites(self) -> list[Path]:
        """The folders that Python packages are looked for in."""
        return [Path(each) for each in dict.fromkeys(sys.path) if Path(each).is_dir()]

    def python(self) -> Python:
        """The interpreter that runs this."""
        major, minor, micro = sys.version_info[:3]
        config = Path(sys.prefix, "pyvenv.cfg")
        said = config.read_text(encoding="utf-8") if config.is_file() else ""
        return Python(
            version=(major, minor, micro),
            machine=platform.machine(),
            prefix=sys.prefix,
            venv=sys.prefix != sys.base_prefix,
            system_site=sys.prefix == sys.base_prefix
            or "include-system-site-packages = true" in said.lower(),
        )

    def user(self) -> User:
        """Who runs this."""
        uid = os.geteuid()
        try:
            name = pwd.getpwuid(uid).pw_name
        except KeyError:
            name = str(uid)
        return User(name=name, uid=uid, groups=tuple(sorted({os.getegid(), *os.getgroups()})))

    def nodes(self, pattern: str) -> list[Node]:
        """The files under /dev that a pattern names, in their order."""
        return [
            Node(
                path=f"/{path.relative_to(self.root)}",
                group=_group(path),
                usable=os.access(path, os.R_OK | os.W_OK),
            )
            for path in sorted(self.path("/dev").glob(pattern))
        ]

    def store(self) -> Path:
        """Where models are kept."""
        from edge_runtime.engines.store import default_root

        return default_root()

    def keys(self) -> Path:
        """Where keys are kept."""
        from edge_runtime.server.keys import default_path

        return default_path()

    def writable(self, path: Path) -> bool:
        """Whether files can be made in a folder."""
        return os.access(path, os.W_OK | os.X_OK)

    def disk(self, path: Path) -> tuple[int, int]:
        """Bytes that are free on the disk of a path, or of what lies above it, and that it has."""
        while not path.exists() and path != path.parent:
            path = path.parent
        usage = shutil.disk_usage(path)
        return usage.free, usage.total

    def now(self) -> float:
        """The clock, in seconds since 1970."""
        return time.time()

    def loaded(self, library: str, flavour: str = "auto") -> Loaded:
        """`tensorrt`, `pycuda` or `onnxruntime`, loaded here and now: it may end the process."""
        from edge_runtime.device.presence import load

        try:
            found = load(library, flavour)
        except EdgeRuntimeError as error:
            return Loaded(trouble=error.message)
        if found is None:
            return Loaded()
        return Loaded(flavour=found.flavour, version=found.version, providers=found.providers)

    def card(self, index: int) -> Card:
        """The GPU as CUDA sees it."""
        from edge_runtime.device.cuda import open_driver

        try:
            driver = open_driver(index, "cuda-bindings")
        except EdgeRuntimeError as error:
            return Card(trouble=error.message, fix=error.fix)
        try:
            return Card(name=driver.name, capability=driver.capability)
        finally:
            driver.close()

    def inputs(self) -> Inputs:
        """The microphones of this machine."""
        from edge_runtime.audio.inputs import microphones

        try:
            return Inputs(names=tuple(each.name for each in microphones()))
        except EdgeRuntimeError as error:
            return Inputs(trouble=error.message, fix=error.fix)


def _group(path: Path) -> str:
    number = path.stat().st_gid
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)
