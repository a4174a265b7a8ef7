"""A machine of long ago: its files in a folder, and in `machine.json` what no file told."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

import msgspec

from edge_runtime.doctor.facts import Card, Inputs, Loaded, Node, Python, User
from edge_runtime.doctor.machine import Machine
from edge_runtime.errors import ConfigError

FILE = "machine.json"


class Recorded(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `machine.json` holds: the answers of `Machine`, by the names of its methods.

    `sites` are folders of Python packages; `nodes` are [path, mode in octal, group], owned by
    root; `disk` is bytes free and in all.
    """

    python: Python
    user: User
    sites: tuple[str, ...] = ()
    nodes: tuple[tuple[str, str, str], ...] = ()
    store: str = "/var/lib/edge-runtime"
    environ: dict[str, str] = {}
    disk: tuple[int, int] = (40 << 30, 64 << 30)
    now: float = 0.0
    libraries: dict[str, Loaded] = {}
    card: Card = Card(trouble="cuda-bindings is not installed")
    inputs: Inputs = Inputs()


class RecordedMachine(Machine):
    """Raises `ConfigError` for a folder that is no recording."""

    def __init__(self, root: Path) -> None:
        try:
            self._said = msgspec.json.decode((root / FILE).read_bytes(), type=Recorded)
        except (OSError, msgspec.MsgspecError) as error:
            raise ConfigError(
                f"{root / FILE}: {error}", "Give --root the folder of a recorded machine."
            ) from None
        super().__init__(root, self._said.environ)

    def sites(self) -> list[Path]:
        return [self.path(each) for each in self._said.sites]

    def python(self) -> Python:
        return self._said.python

    def user(self) -> User:
        return self._said.user

    def nodes(self, pattern: str) -> list[Node]:
        return [
            Node(path=path, group=group, usable=self._may(int(mode, 8), group))
            for path, mode, group in sorted(self._said.nodes)
            if fnmatch(path, f"/dev/{pattern}")
        ]

    def _may(self, mode: int, group: str) -> bool:
        if self._said.user.uid == 0:
            return True
        member = any(self.group(number) == group for number in self._said.user.groups)
        return (mode >> (3 if member else 0)) & 6 == 6

    def store(self) -> Path:
        return self.path(self._said.store)

    def keys(self) -> Path:
        return self.store() / "keys" / "keys.json"

    def disk(self, path: Path) -> tuple[int, int]:
        return self._said.disk

    def now(self) -> float:
        return self._said.now

    def loaded(self, library: str, flavour: str = "auto") -> Loaded:
        return self._said.libraries.get(library, Loaded())

    def card(self, index: int) -> Card:
        return self._said.card

    def inputs(self) -> Inputs:
        return self._said.inputs
