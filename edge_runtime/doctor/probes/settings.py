"""The settings, who may reach the server by them, and who has its ports."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from edge_runtime.config import Config, load
from edge_runtime.config.layers import DEFAULT_PATH
from edge_runtime.doctor.facts import Port, Settings
from edge_runtime.doctor.machine import Machine
from edge_runtime.doctor.probes import DEFAULTS
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.server.address import is_local
from edge_runtime.server.keys import Keys

SERVICE = "edge-runtime"
"""The user that the server has under systemd."""

_SOCKET = "/etc/systemd/system/sockets.target.wants/edge-runtime.socket"
_LISTENING = "0A"


def settings(machine: Machine, config: str) -> Settings:
    """What of them matters to other checks, and whether they can be used."""
    path = _path(machine, config)
    try:
        known = load(path, environ=machine.environ)
    except EdgeRuntimeError as error:
        return Settings(path=str(path or ""), trouble=error.message, fix=error.fix)
    admitting, serving = known.admitting, known.serving
    keys = Keys(admitting.keys_file or machine.keys())
    count, trouble = 0, ""
    try:
        count = len(keys.all())
    except EdgeRuntimeError as error:
        trouble = error.message
    return Settings(
        path=str(path or ""),
        device=serving.device,
        model=serving.model,
        reader=known.power.reader,
        host=serving.host,
        local=is_local(serving.host),
        keys=admitting.keys,
        keys_file=str(keys.path),
        count=count,
        keys_trouble=trouble,
        certificate=admitting.tls_cert,
        ports=tuple(_ports(machine, known)),
    )


def configured(machine: Machine, config: str) -> Config:
    """The settings; the defaults where they cannot be used, which `settings` tells."""
    if config == DEFAULTS:
        return Config()
    try:
        return load(_path(machine, config), environ=machine.environ)
    except EdgeRuntimeError:
        return Config()


def _path(machine: Machine, config: str) -> Path | None:
    if config:
        return Path(config)
    usual = machine.path(str(DEFAULT_PATH))
    return usual if "EDGE_RUNTIME_CONFIG" not in machine.environ and usual.is_file() else None


def _ports(machine: Machine, config: Config) -> Iterator[Port]:
    """The port of the server and those that dialects have of their own; 0 is any, or none."""
    keys = {"serving.port": config.serving.port}
    for name in config.dialects.__struct_fields__:
        if name.endswith("_port"):
            keys[f"dialects.{name}"] = getattr(config.dialects, name)
    listeners = list(_listeners(machine))
    for key, number in keys.items():
        taken = [(uid, inode) for port, uid, inode in listeners if port == number]
        if number:
            owner, ours = _owner(machine, *zip(*taken, strict=True)) if taken else ("", False)
            yield Port(number=number, key=key, owner=owner, ours=ours)


def _listeners(machine: Machine) -> Iterator[tuple[int, int, str]]:
    """(port, user, inode) of every socket that listens, of /proc/net/tcp and tcp6.

    One on another address of this machine only would not be in our way, and is rare.
    """
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in machine.text(table).splitlines()[1:]:
            fields = line.split()
            if len(fields) > 9 and fields[3] == _LISTENING:
                yield int(fields[1].rpartition(":")[2], 16), int(fields[7]), fields[9]


def _owner(machine: Machine, uids: Sequence[int], inodes: Sequence[str]) -> tuple[str, bool]:
    """The program that holds one of the sockets, and whether it is ours.

    Programs of other users hide what they hold; then the socket tells only whose it is.
    """
    if 0 in uids and machine.path(_SOCKET).is_symlink():
        return "systemd, for our server", True
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for process in machine.path("/proc").glob("[0-9]*"):
        if wanted & set(_held(process)):
            line = machine.text(f"/proc/{process.name}/cmdline")
            ours = re.search(r"edge[-_]runtime\S* .*\bserve\b", line) is not None
            return f"{line[:60] or 'a program'} (pid {process.name})", ours
    owner = machine.account(uids[0])
    return f"a program of user {owner}", owner == SERVICE


def _held(process: Path) -> Iterator[str]:
    """What a process has open, as far as it lets us see; files come and go meanwhile."""
    with contextlib.suppress(OSError):
        for each in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                yield str(each.readlink())
