"""What the network is told of ports that other machines reach: multicast DNS, by zeroconf."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import re
import socket
from collections.abc import AsyncIterator, Sequence
from importlib.util import find_spec

from edge_runtime.server.address import is_local
from edge_runtime.server.tcp import Listener

_log = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def announced(listeners: Sequence[Listener], wanted: bool) -> AsyncIterator[None]:
    """Announce inside the context those that others reach, and withdraw them at its end.

    Where that cannot be, the log says why: clients are then told the address by hand.
    """
    public = [each for each in listeners if not all(is_local(a) for a in _addresses(each))]
    if not wanted or not public:
        yield
        return
    if find_spec("zeroconf") is None:
        _log.warning(
            "zeroconf is not installed, so nothing is announced to the network. Run: "
            "pip install 'edge-runtime[wyoming]', or set wyoming_announce of [dialects] to false"
        )
        yield
        return
    # probing the network for the name takes about a second: nobody waits for it
    withdrawn = asyncio.Event()
    task = asyncio.create_task(_announce(public, withdrawn))
    try:
        yield
    finally:
        withdrawn.set()
        await task


async def _announce(listeners: Sequence[Listener], withdrawn: asyncio.Event) -> None:
    """Until it is withdrawn."""
    import ifaddr
    from zeroconf import Error
    from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

    # what it binds: every interface, or those of the addresses that are listened on
    bound = [each for listener in listeners for each in _addresses(listener)]
    everywhere = any(ipaddress.ip_address(each).is_unspecified for each in bound)
    if everywhere:
        found = [ip for adapter in ifaddr.get_adapters() for ip in adapter.ips if ip.is_IPv4]
        bound = [str(ip.ip) for ip in found if not is_local(str(ip.ip))]
    if not bound:
        _log.warning("not announced to the network: no interface has an address but loopback's")
        return
    try:
        network = AsyncZeroconf(interfaces=bound)
        try:
            for listener in listeners:
                kind = listener.dialect.service
                info = AsyncServiceInfo(
                    kind,
                    f"{_name()}.{kind}",
                    parsed_addresses=bound,
                    port=listener.sockets[0].getsockname()[1],
                )
                await network.async_register_service(info, allow_name_change=True)
                _log.info("announced %s at %s", info.name, ", ".join(bound))
            await withdrawn.wait()
        finally:
            await network.async_unregister_all_services()
            await network.async_close()
    except (Error, OSError) as error:
        _log.warning(
            "not announced to the network: %s. Clients find this machine by its address", error
        )


def _addresses(listener: Listener) -> list[str]:
    return [each.getsockname()[0] for each in listener.sockets]


def _name() -> str:
    """A name that people know the machine by."""
    host = re.sub(r"[^A-Za-z0-9-]+", "-", socket.gethostname().partition(".")[0])[:40]
    return f"edge-runtime-{host}" if host else "edge-runtime"
