"""The `openai` package of npm, unmodified, where there is one."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import ssl
import subprocess
from pathlib import Path

import numpy as np
import pytest
import soxr

CLIP = "1088-134315-0002"


@pytest.fixture
def node():
    """The command, with a folder of modules; skips without them."""
    found, modules = shutil.which("node"), os.environ.get("OPENAI_NODE_MODULES")
    if found is None:
        pytest.skip("node is not installed")
    if modules is None or not Path(modules, "openai").is_dir():
        pytest.skip(
            "no npm openai: npm install --prefix DIR openai ws, "
            "then OPENAI_NODE_MODULES=DIR/node_modules"
        )
    return found


@pytest.fixture
def certificate(tmp_path):
    """A certificate of localhost, with the context of a server that has it."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: nothing makes a certificate")
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
         "-keyout", str(key), "-out", str(cert)],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return cert, context


@pytest.fixture
async def in_tls(certificate):
    """`await in_tls(url)`: the same server by https, which is all that this client speaks live."""
    cert, context = certificate
    async with contextlib.AsyncExitStack() as stack:

        async def front(url):
            host, port = url.removeprefix("http://").split(":")

            async def serve(reader, writer):
                there, back = await asyncio.open_connection(host, int(port))
                await asyncio.gather(pipe(reader, back), pipe(there, writer))

            server = await asyncio.start_server(serve, "localhost", 0, ssl=context)
            stack.push_async_callback(server.wait_closed)
            stack.callback(server.close)
            return f"https://localhost:{server.sockets[0].getsockname()[1]}", cert

        yield front


async def pipe(reader, writer):
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


async def test_a_recording_and_live_audio(node, house, in_tls, clip, flac, transcribed, tmp_path):
    url, cert = await in_tls((await house()).url)
    speech = clip(CLIP)
    data = flac(speech)
    (tmp_path / "talk.flac").write_bytes(data)
    audio = np.clip(soxr.resample(speech.audio, speech.rate, 24000), -1, 1)
    (tmp_path / "talk.pcm").write_bytes(np.rint(audio * 32767).astype("<i2").tobytes())
    process = await asyncio.create_subprocess_exec(
        node, str(Path(__file__).with_name("openai_client.mjs")), url,
        str(tmp_path / "talk.flac"), str(tmp_path / "talk.pcm"),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "NODE_EXTRA_CA_CERTS": str(cert)},
    )  # fmt: skip
    out, said = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, said.decode()
    answers = json.loads(out)
    text = transcribed(data).text
    assert answers["text"] == text
    assert len(answers["live"].split()) == pytest.approx(len(text.split()), abs=3)
