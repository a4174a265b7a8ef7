"""The settings, who may reach the server by them, and who has its ports."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from edge_runtime.config import Config, load
from edge_runtime.config.layers import DEFAULT_PATH
from edge_runtime.doctor.facts import Port, Settings
from edge_runtime.doctor.machine import Machine
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.server.address import is_local
from edge_runtime.server.keys import Keys

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
        taken = [inode for port, inode in listeners if port == number]
        if number:
            owner, ours = _owner(machine, taken) if taken else ("", False)
            yield Port(number=number, key=key, owner=owner, ours=ours)


def _listeners(machine: Machine) -> Iterator[tuple[int, str]]:
    """(port, inode) of every socket that listens, of /proc/net/tcp and tcp6.

    One on another address of this machine only would not be in our way, and is rare.
    """
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in machine.text(table).splitlines()[1:]:
            fields = line.split()
            if len(fields) > 9 and fields[3] == _LISTENING:
                yield int(fields[1].rpartition(":")[2], 16), fields[9]


def _owner(machine: Machine, inodes: list[str]) -> tuple[str, bool]:
    """The program that holds one of the sockets, and whether it is ours."""
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for process in machine.path("/proc").glob("[0-9]*"):
        try:
            held = {str(each.readlink()) for each in (process / "fd").iterdir()}
        except OSError:
            continue
        if wanted & held:
            line = machine.text(f"/proc/{process.name}/cmdline")
            ours = re.search(r"edge[-_]runtime\S* .*\bserve\b", line) is not None
            return f"{line[:60] or 'a program'} (pid {process.name})", ours
    return "a program of another user", False
