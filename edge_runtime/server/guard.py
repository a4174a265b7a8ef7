"""Who comes in: every request is looked at here before anything of it is taken."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from aiohttp import web

from edge_runtime.config import Config
from edge_runtime.config.dialects import Network
from edge_runtime.errors import ConfigError, NotAdmitted
from edge_runtime.metrics import Metrics
from edge_runtime.server.address import is_local
from edge_runtime.server.budget import Budgets
from edge_runtime.server.caller import CALLER, Caller, caller_of
from edge_runtime.server.client import Client
from edge_runtime.server.door import DOORS, Door, presented
from edge_runtime.server.keys import Key, Keys
from edge_runtime.server.origin import may_enter
from edge_runtime.server.visits import Visits, household

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_log = logging.getLogger(__name__)
_AGAIN = 1.0  # s between looks at the keys, and between log lines of one kind


@dataclass(eq=False)
class _Visit:
    caller: Caller
    transport: asyncio.BaseTransport | None


class Guard:
    """Checks origin, key and limits of every request, by the `DOORS` of its application.

    A path that has no door of its own is opened by a key alone. Keys are needed as soon as there
    is one, and from then on until the end, so that nobody gets in by the removal of the last.
    """

    def __init__(self, config: Config, metrics: Metrics, keys: Keys) -> None:
        self._config = config.admitting
        self._host = config.serving.host
        self._metrics = metrics
        self._keys = keys
        self._needed = config.admitting.keys == "always"
        self._visits = Visits(
            config.admitting.sessions_per_address, config.admitting.sessions_per_minute
        )
        self._budgets = Budgets(config.admitting.audio_rate)
        self._inside: set[_Visit] = set()
        self._said: dict[str, float] = {}

    def protect(self, app: web.Application) -> None:
        """Stand before `app`, which gets its doors."""
        app[GUARD] = self
        app[DOORS] = {}
        app.middlewares.append(self.admit)
        app.on_response_prepare.append(self.share)

    @property
    def needs_keys(self) -> bool:
        """Whether clients need a key, as of now; also where a file is there that cannot be read."""
        known = self._known()
        some = known is None or len(known) > 0
        self._needed = self._needed or (some and self._config.keys == "auto")
        return self._needed

    def client(self, caller: Caller) -> Client:
        """What its sessions have to do with it; programs of this machine are not held back."""
        owner = caller.key.sha256 if caller.key is not None else ""
        if caller.local and not owner:
            return Client()
        return Client(owner, self._budgets.of(owner or household(caller.address)))

    def may_listen(self) -> None:
        """Raises `ConfigError` where other machines would reach a server that asks for no key."""
        if is_local(self._host):
            return
        if self._config.keys == "never":
            _log.warning(
                "listening on %s without keys: every machine that reaches this address can use "
                "the server; 127.0.0.1 keeps it to this one",
                self._host,
            )
        elif not self._keys.all() and self._config.keys == "auto":
            raise ConfigError(
                f"other machines reach {self._host}, and there is no key",
                "Make one: edge-runtime keys add NAME. To let everybody in: --no-keys.",
            )
        if not self._config.tls_cert:
            _log.warning(
                "listening on %s without TLS: keys and audio can be read on the way; "
                "edge-runtime tls self-signed makes a certificate",
                self._host,
            )

    @web.middleware
    async def admit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let a request through to its handler, or answer that it is turned away."""
        resource = request.match_info.route.resource
        doors = request.app[DOORS]
        door = doors.get(resource.canonical, Door()) if resource else Door(without="anybody")
        try:
            self._check_origin(request)
            if request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers:
                return web.Response(status=204)  # `share` adds what the page may do
            caller = request[CALLER] = self._identify(request, door)
            with self._visiting(request, caller, door):
                return await handler(request)
        except NotAdmitted as refusal:
            return self._turn_away(request, door, refusal)

    async def share(self, request: web.Request, response: web.StreamResponse) -> None:
        """Tell a browser that the page may read the answer (a signal, before headers are sent)."""
        origin = request.headers.get("Origin")
        if origin is None or not self._may_enter(origin, request):
            return
        response.headers["Access-Control-Allow-Origin"] = origin
        response.headers["Vary"] = "Origin"
        if request.method == "OPTIONS":
            response.headers["Access-Control-Allow-Methods"] = "GET, POST"
            response.headers["Access-Control-Allow-Headers"] = request.headers.get(
                "Access-Control-Request-Headers", "Authorization"
            )

    async def watch(self, _app: web.Application) -> AsyncIterator[None]:
        """Cut off sessions whose key was removed, as long as the application runs."""
        task = asyncio.create_task(self._watch())
        yield
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    @contextlib.contextmanager
    def visit(self, address: str, dialect: str, clients: Sequence[Network] = ()) -> Iterator[None]:
        """A connection from `address` in a protocol of its own port, which carries no key.

        Where keys are needed, it is for this machine and for `clients`. Raises `NotAdmitted`.
        """
        local = is_local(address)
        try:
            if not local:
                self._check_listed(address, clients)
                self._visits.enter(address, time.monotonic())
        except NotAdmitted as refusal:
            if self._seldom(refusal.code):
                _log.info("%s from %s: %s", dialect, address, refusal.message)
            raise
        _log.info("%s from %s", dialect, address)
        try:
            yield
        finally:
            if not local:
                self._visits.leave(address)

    def _check_listed(self, address: str, clients: Sequence[Network]) -> None:
        known = ipaddress.ip_address(address.partition("%")[0])  # without the link's name
        if self.needs_keys and not any(known in network for network in clients):
            raise NotAdmitted(
                "key_missing",
                "this protocol carries no key, and this machine is none of those listed",
                "Add its address to wyoming_clients of [dialects], on the server.",
                401,
            )

    def _known(self) -> tuple[Key, ...] | None:
        """Every key; None where the file cannot be read: then those before are good still."""
        try:
            return self._keys.all()
        except ConfigError as error:
            if self._seldom("keys"):
                _log.error("%s The keys from before are used.", error)
            return None

    def _may_enter(self, origin: str, request: web.Request) -> bool:
        return may_enter(origin, request.host, self._config.listed_origins, self._host)

    def _check_origin(self, request: web.Request) -> None:
        origin = request.headers.get("Origin")
        if origin is not None and not self._may_enter(origin, request):
            raise NotAdmitted(
                "origin",
                f"pages of {origin[:200]} may not use this server",
                "Add it to origins of [admitting] in the server's configuration.",
                403,
            )

    def _identify(self, request: web.Request, door: Door) -> Caller:
        caller = caller_of(request)
        if not self.needs_keys:
            return caller
        free = door.without == "anybody" or (door.without == "local" and caller.local)
        shown = presented(request, door.ways)
        key = self._keys.find(shown) if shown else None
        if key is None and not free:
            if shown is None:
                raise _no_key("a key is needed")
            raise NotAdmitted(
                "key_unknown",
                "the key is none of this server's, or it was removed",
                "Use one that is there; on the server: edge-runtime keys list, keys add NAME.",
                401,
            )
        return replace(caller, key=key, known=caller.local or key is not None)

    @contextlib.contextmanager
    def _visiting(self, request: web.Request, caller: Caller, door: Door) -> Iterator[None]:
        if not door.session:
            yield
            return
        limited = not caller.local
        if caller.key is not None:
            self._check_key(caller.key)
        if limited:
            self._visits.enter(caller.address, time.monotonic())
        visit = _Visit(caller, request.transport)
        self._inside.add(visit)
        if caller.key is not None:
            self._metrics.key_used(caller.key.name)
        _log.info("%s from %s", request.path, caller)
        try:
            yield
        finally:
            self._inside.discard(visit)
            if limited:
                self._visits.leave(caller.address)

    def _check_key(self, key: Key) -> None:
        most = self._config.sessions_per_key
        if sum(visit.caller.key == key for visit in self._inside) >= most:
            raise NotAdmitted(
                "too_many_sessions",
                f"the key {key.name} has {most} sessions open",
                "Close one, or raise sessions_per_key.",
                429,
            )

    def _turn_away(self, request: web.Request, door: Door, refusal: NotAdmitted) -> web.Response:
        self._metrics.refused(refusal.code)
        if self._seldom(refusal.code):
            _log.info("%s from %s: %s", request.path, caller_of(request), refusal.message)
        response = web.json_response(door.complaint(refusal), status=refusal.status)
        if refusal.status == 401:
            response.headers["WWW-Authenticate"] = 'Bearer realm="edge-runtime"'
        if refusal.retry_after is not None:
            response.headers["Retry-After"] = str(refusal.retry_after)
        response.force_close()
        return response

    def _seldom(self, what: str) -> bool:
        """Whether it was last said long enough ago: nobody fills the log from outside."""
        now = time.monotonic()
        if now - self._said.get(what, -_AGAIN) < _AGAIN:
            return False
        self._said[what] = now
        return True

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_AGAIN)
            known = self._known()
            if known is None:
                continue
            good = {key.sha256 for key in known}
            for visit in list(self._inside):
                key = visit.caller.key
                if key is not None and key.sha256 not in good:
                    _log.info("%s is cut off: its key was removed", visit.caller)
                    self._inside.discard(visit)
                    if isinstance(visit.transport, asyncio.Transport):
                        visit.transport.abort()


GUARD = web.AppKey("guard", Guard)


def _no_key(message: str) -> NotAdmitted:
    return NotAdmitted(
        "key_missing",
        message,
        "Send one: Authorization: Bearer KEY. On the server, edge-runtime keys add NAME makes it.",
        401,
    )
