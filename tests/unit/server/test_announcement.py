"""What the network is told of a port, seen by a browser of it."""

from __future__ import annotations

import asyncio
import logging
import socket
from types import SimpleNamespace

import pytest

from edge_runtime.dialects.wyoming.asr import Wyoming
from edge_runtime.server import announcement

SERVICE = "_wyoming._tcp.local."


@pytest.fixture
def port():
    """A listener of this machine, as far as it is announced."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield SimpleNamespace(dialect=Wyoming, sockets=[listening])


@pytest.fixture
def outside(monkeypatch):
    """Every address counts as one that others reach."""
    monkeypatch.setattr(announcement, "is_local", lambda host: False)


@pytest.fixture
async def seen():
    """What a browser on the loopback interface sees come and go."""
    pytest.importorskip("zeroconf", reason="no zeroconf: pip install zeroconf")
    from zeroconf import ServiceStateChange
    from zeroconf.asyncio import AsyncServiceBrowser, AsyncZeroconf

    changes = asyncio.Queue()

    def changed(zeroconf, service_type, name, state_change):
        if state_change is not ServiceStateChange.Updated:
            changes.put_nowait((state_change.name, name))

    try:
        network = AsyncZeroconf(interfaces=["127.0.0.1"])
    except OSError as error:
        pytest.skip(f"no multicast on the loopback interface: {error}")
    browser = AsyncServiceBrowser(network.zeroconf, SERVICE, handlers=[changed])
    changes.network = network
    yield changes
    await browser.async_cancel()
    await network.async_close()


async def test_it_is_announced_and_withdrawn(port, outside, seen):
    from zeroconf.asyncio import AsyncServiceInfo

    async with announcement.announced([port], wanted=True):
        what, name = await asyncio.wait_for(seen.get(), 10)
        assert what == "Added"
        assert name.startswith("edge-runtime")
        info = AsyncServiceInfo(SERVICE, name)
        assert await info.async_request(seen.network.zeroconf, 3000)
        assert info.port == port.sockets[0].getsockname()[1]
        assert info.parsed_addresses() == ["127.0.0.1"]
    assert await asyncio.wait_for(seen.get(), 10) == ("Removed", name)


async def test_nothing_is_said_of_what_is_for_this_machine_or_not_wanted(port, monkeypatch):
    monkeypatch.setattr(announcement, "_announce", None)  # would fail
    async with announcement.announced([port], wanted=True):
        pass
    monkeypatch.setattr(announcement, "is_local", lambda host: False)
    async with announcement.announced([port], wanted=False), announcement.announced([], True):
        pass


async def test_without_the_extra_the_log_says_what_to_install(port, outside, monkeypatch, caplog):
    monkeypatch.setattr(announcement, "find_spec", lambda name: None)
    async with announcement.announced([port], wanted=True):
        pass
    assert "pip install 'edge-runtime[wyoming]'" in caplog.text


async def test_a_network_that_does_not_take_it_is_no_trouble(port, outside, monkeypatch, caplog):
    asyncio_zeroconf = pytest.importorskip("zeroconf.asyncio")

    def refuse(**options):
        raise OSError(19, "No such device")

    monkeypatch.setattr(asyncio_zeroconf, "AsyncZeroconf", refuse)
    async with announcement.announced([port], wanted=True):
        await asyncio.sleep(0.01)
    assert "not announced to the network: [Errno 19] No such device" in caplog.text
    assert caplog.records[-1].levelno == logging.WARNING
