"""TLS over real sockets, with certificates that the command makes."""

from __future__ import annotations

import asyncio
import shutil
import ssl

import aiohttp
import pytest
from typer.testing import CliRunner

from edge_runtime import cli
from edge_runtime.config import Admitting
from edge_runtime.errors import ConfigError
from edge_runtime.server import tls
from edge_runtime.server.keys import Keys
from edge_runtime.server.tls import certificate

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")


@pytest.fixture
def made(tmp_path):
    """`made(folder)`: a folder with cert.pem and key.pem for this machine."""

    def make(name="tls", *hosts):
        folder = tmp_path / name
        options = [
            part for host in hosts or ("localhost", "127.0.0.1") for part in ("--host", host)
        ]
        line = ["tls", "self-signed", "-o", str(folder), *options]
        done = CliRunner().invoke(cli.app, line)
        assert done.exit_code == 0, done.output
        return folder

    return make


def secured(folder, **admitting):
    return {
        "tls_cert": str(folder / "cert.pem"), "tls_key": str(folder / "key.pem"), **admitting,
    }  # fmt: skip


def trusting(folder):
    return ssl.create_default_context(cafile=folder / "cert.pem")


async def test_a_session_over_tls_with_a_key(house, read, speech, made, tmp_path):
    folder = made()
    key = Keys(tmp_path / "keys.json").add("phone")
    server = await house(admitting=secured(folder))
    assert server.url.startswith("https://127.0.0.1:")
    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        await server.connect({})
    with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
        await server.connect({}, ssl=trusting(folder))
    assert caught.value.status == 401
    stream = await server.connect(
        {}, ssl=trusting(folder), headers={"Authorization": f"Bearer {key}"}
    )
    await stream.send_bytes(speech(1600))
    await stream.send_json({"type": "stop"})
    events, code = await read.rest(stream)
    assert [event["text"] for event in events if event["type"] == "final"] == ["1600"]
    assert code == 1000


async def test_tls_1_2_is_spoken(house, made):
    folder = made()
    server = await house(admitting=secured(folder))
    context = trusting(folder)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    _, writer = await asyncio.open_connection(*address(server), ssl=context)
    assert writer.get_extra_info("ssl_object").version() == "TLSv1.2"
    writer.close()


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
async def test_nothing_older_is_spoken(house, made):
    folder = made()
    server = await house(admitting=secured(folder))
    context = trusting(folder)
    context.set_ciphers("ALL:@SECLEVEL=0")  # or the client itself would refuse
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection(*address(server), ssl=context)


async def test_nothing_plain_is_spoken(house, made):
    server = await house(admitting=secured(made()))
    reader, writer = await asyncio.open_connection(*address(server))
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b"HTTP/" not in await asyncio.wait_for(reader.read(), 5)
    writer.close()


def address(server):
    return server.url.removeprefix("https://").split(":")


async def test_a_renewed_certificate_is_taken_without_a_restart(house, made, monkeypatch):
    monkeypatch.setattr(tls, "_AGAIN", 0.05)
    folder, newer = made(), made("newer")
    server = await house(admitting=secured(folder))
    old, new = trusting(folder), trusting(newer)

    async def trusted(context):
        try:
            _, writer = await asyncio.open_connection(*address(server), ssl=context)
        except ssl.SSLCertVerificationError:
            return False
        writer.close()
        return True

    assert (await trusted(old), await trusted(new)) == (True, False)
    for name in ("key.pem", "cert.pem"):
        shutil.copy(newer / name, folder / name)
    for _ in range(100):
        if await trusted(new):
            break
        await asyncio.sleep(0.05)
    assert (await trusted(old), await trusted(new)) == (False, True)
    (folder / "cert.pem").write_text("half a file")
    await asyncio.sleep(0.2)
    assert await trusted(new)


def test_what_cannot_be_used_is_said_with_its_fix(made, tmp_path):
    folder, other = made(), made("other")
    assert certificate(Admitting()) is None
    whole = tmp_path / "whole.pem"
    whole.write_text((folder / "cert.pem").read_text() + (folder / "key.pem").read_text())
    assert certificate(Admitting(tls_cert=str(whole))) is not None
    for files in (
        {"tls_cert": str(tmp_path / "none.pem")},
        {"tls_cert": str(folder / "cert.pem")},  # without its key
        {"tls_cert": str(folder / "cert.pem"), "tls_key": str(other / "key.pem")},
        {"tls_cert": str(folder / "key.pem"), "tls_key": str(folder / "key.pem")},
    ):
        with pytest.raises(ConfigError) as caught:
            certificate(Admitting(**files))
        assert caught.value.fix


def test_what_is_made(made, tmp_path):
    folder = made("tls", "kiosk.local", "192.168.1.20", "::1")
    assert (folder / "key.pem").stat().st_mode & 0o777 == 0o600
    named = ssl._ssl._test_decode_cert(str(folder / "cert.pem"))["subjectAltName"]
    assert named == (
        ("DNS", "kiosk.local"), ("IP Address", "192.168.1.20"), ("IP Address", "0:0:0:0:0:0:0:1"),
    )  # fmt: skip
    assert sorted(path.name for path in folder.iterdir()) == ["cert.pem", "key.pem"]
    again = CliRunner().invoke(cli.app, ["tls", "self-signed", "-o", str(folder)])
    assert again.exit_code == 1
    assert "--again" in again.output
    before = (folder / "cert.pem").read_bytes()
    again = CliRunner().invoke(cli.app, ["tls", "self-signed", "-o", str(folder), "--again"])
    assert again.exit_code == 0
    assert (folder / "cert.pem").read_bytes() != before
    for said in ("SHA-256 ", "serve --host 0.0.0.0 --tls-cert", "SSL_CERT_FILE=", ".local"):
        assert said in again.output


def test_a_name_that_is_none(tmp_path):
    line = ["tls", "self-signed", "-o", str(tmp_path), "--host", "a,b=c"]
    done = CliRunner().invoke(cli.app, line)
    assert done.exit_code == 1
    assert "--host" in done.output
    assert list(tmp_path.iterdir()) == []
