"""API keys: their names and hashes in one file that several processes may read and change."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import os
import re
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from edge_runtime.errors import ConfigError, StoreUnwritable

MOST = 1000
_PREFIX = "er_"  # by which people, and scanners of leaked secrets, know a key of ours
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


class Key(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is kept of a key; `created` is in UTC, ISO 8601, `sha256` in hex."""

    name: str
    created: str
    sha256: str


class _Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    keys: list[Key]


class Keys:
    """The keys of a file; a file that is not there has none."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._seen: tuple[int, ...] | None = None
        self._keys: tuple[Key, ...] = ()

    def all(self) -> tuple[Key, ...]:
        """Every key, in the order of their creation; read again where the file has changed.

        Raises `ConfigError` where it cannot be read; the keys stay what they were.
        """
        try:
            if self._seen is None or self._seen != _state(self.path.stat()):
                with self.path.open("rb") as file:
                    seen = _state(os.fstat(file.fileno()))
                    self._keys = tuple(self._read(file.read()))
                self._seen = seen
        except FileNotFoundError:
            self._seen, self._keys = None, ()
        except OSError as error:
            raise ConfigError(
                f"{self.path} cannot be read: {error.strerror}",
                "Give it to the user of the server: chown USER FILE.",
            ) from None
        return self._keys

    def find(self, presented: str) -> Key | None:
        """The key that is presented, as of the last `all`; None where it is none of ours."""
        digest = _hash(presented)
        found = None
        for key in self._keys:  # to the end: how long it takes says nothing about which one it was
            if hmac.compare_digest(key.sha256, digest):
                found = key
        return found

    def add(self, name: str) -> str:
        """Make a key and give it, for the only time: it cannot be had from the file.

        Raises `ConfigError` for a name that is taken or none, `StoreUnwritable`.
        """
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"{name!r} is no name for a key",
                "Take letters, digits and . _ @ -, at most 64, such as phone or kiosk-2.",
            )
        key = _PREFIX + secrets.token_urlsafe(32)
        with self._changing() as keys:
            if any(each.name == name for each in keys):
                raise ConfigError(
                    f"there is a key called {name}",
                    f"Choose another name, or remove it first: edge-runtime keys rm {name}",
                )
            if len(keys) >= MOST:
                raise ConfigError(
                    f"there are {MOST} keys", "Remove those that nobody uses: edge-runtime keys rm"
                )
            now = datetime.now(timezone.utc).isoformat(timespec="seconds")
            keys.append(Key(name, now, _hash(key)))
        return key

    def remove(self, name: str) -> None:
        """Revoke a key; raises `ConfigError` where there is none so called, `StoreUnwritable`."""
        with self._changing() as keys:
            kept = [each for each in keys if each.name != name]
            if len(kept) == len(keys):
                names = ", ".join(each.name for each in keys) or "none"
                raise ConfigError(f"there is no key called {name}", f"There are: {names}.")
            keys[:] = kept

    def _read(self, data: bytes) -> Sequence[Key]:
        try:
            content = msgspec.json.decode(data, type=_Content)
        except msgspec.MsgspecError as error:
            raise ConfigError(
                f"{self.path} does not hold keys: {error}",
                "Move it away and make the keys anew: edge-runtime keys add NAME",
            ) from None
        return content.keys

    @contextlib.contextmanager
    def _changing(self) -> Iterator[list[Key]]:
        """The keys as they are, written back when the block ends well; alone among processes."""
        folder = self.path.parent
        try:
            _make(folder)
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                keys = list(self.all())
                yield keys
                self._write(keys)
                os.fsync(lock)
            finally:
                os.close(lock)
        except OSError as error:
            if isinstance(error, StoreUnwritable):
                raise
            raise StoreUnwritable(
                f"{self.path} cannot be written: {error.strerror}",
                "Run as a user who may write there, such as sudo --user=edge-runtime.",
            ) from None

    def _write(self, keys: Sequence[Key]) -> None:
        descriptor, name = tempfile.mkstemp(prefix=".keys-", dir=self.path.parent)  # mode 0600
        new = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                text = msgspec.json.format(msgspec.json.encode(_Content(1, list(keys))))
                file.write(text + b"\n")
                if os.geteuid() == 0:  # made by root, for the server that runs as another
                    owner = (self.path if self.path.exists() else self.path.parent).stat()
                    os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
                file.flush()
                os.fsync(file.fileno())
            new.replace(self.path)
        finally:
            new.unlink(missing_ok=True)


def default_path() -> Path:
    """Where the keys are: in `$EDGE_RUNTIME_STORE`, in /var/lib/edge-runtime, or with the user's.

    The second is for those who may write there or read the keys that are there. They have a
    folder of their own, which the server's unit can make read-only: the file is replaced, and
    who was shown that alone would see the old one for good.
    """
    shared = Path("/var/lib/edge-runtime/keys/keys.json")
    if chosen := os.environ.get("EDGE_RUNTIME_STORE"):
        return Path(chosen).expanduser() / "keys" / "keys.json"
    if os.access(shared.parents[1], os.W_OK) or os.access(shared, os.R_OK):
        return shared
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "edge-runtime" / "keys" / "keys.json"


def _make(folder: Path) -> None:
    """The folder, and its parents, with the owner of the first that is there."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(exist_ok=True)
        if os.geteuid() == 0:
            owner = each.parent.stat()
            os.chown(each, owner.st_uid, owner.st_gid)


def _hash(key: str) -> str:
    # Not a slow hash, and no salt: those are for passwords, which can be guessed. Of 256 random
    # bits nothing can be, and a fast one costs a client nothing and an attacker no server.
    return hashlib.sha256(key.encode(errors="replace")).hexdigest()


def _state(stat: os.stat_result) -> tuple[int, ...]:
    return stat.st_mtime_ns, stat.st_ino, stat.st_size
