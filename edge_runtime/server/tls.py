"""TLS: the server's certificate, read again when it was renewed."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

from aiohttp import web

from edge_runtime.config import Admitting
from edge_runtime.errors import ConfigError

_AGAIN = 5.0  # s
_log = logging.getLogger(__name__)


class Certificate:
    """A certificate with its key, and the `context` that serves it: TLS 1.2 and later."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Raises `ConfigError` where the two cannot be used."""
        self._files = (certificate, key)
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._seen = self._state()
        self._load()

    def refresh(self) -> None:
        """Take the files for new connections where they have changed; the old stay if they fail."""
        try:
            seen = self._state()
            if seen != self._seen:
                self._seen = seen
                self._load()
                _log.info("took the renewed certificate %s", self._files[0])
        except ConfigError as error:
            _log.error("%s; the one before is served on", error)

    async def watch(self, _app: web.Application) -> AsyncIterator[None]:
        """Look for a renewed certificate, as long as the application runs."""
        task = asyncio.create_task(self._watch())
        yield
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_AGAIN)
            self.refresh()

    def _load(self) -> None:
        certificate, key = self._files
        try:
            # an encrypted key would ask for its password at the terminal
            self.context.load_cert_chain(certificate, key, password=lambda: "")
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise ConfigError(
                f"the certificate {certificate} cannot be used with the key {key}: {reason}",
                "Give two PEM files that belong together, the key without a password; "
                "edge-runtime tls self-signed makes such.",
            ) from None

    def _state(self) -> tuple[int, ...]:
        try:
            return tuple(file.stat().st_mtime_ns for file in self._files)
        except OSError as error:
            raise ConfigError(
                f"{error.filename} cannot be read: {error.strerror}",
                "Check --tls-cert and --tls-key, and that the server's user may read both.",
            ) from None


def certificate(admitting: Admitting) -> Certificate | None:
    """The configured one; None without TLS. Raises `ConfigError`."""
    if not admitting.tls_cert:
        return None
    return Certificate(Path(admitting.tls_cert), Path(admitting.tls_key or admitting.tls_cert))
