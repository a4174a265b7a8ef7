"""Carries captions of an edge-runtime server to an MQTT broker, and the gate back.

    pip install aiohttp aiomqtt
    python mqtt_bridge.py --broker 192.168.1.5 --base edge-runtime/kitchen --mic desk

Keys and passwords come from EDGE_RUNTIME_KEY, MQTT_USERNAME and MQTT_PASSWORD.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
from collections.abc import Sequence
from typing import Any

import aiohttp
import aiomqtt

AGAIN = 2.0
"""Seconds after which a broker or a server that was lost is looked for again."""

log = logging.getLogger("mqtt_bridge")


async def bridge(options: argparse.Namespace) -> None:
    """Carry for ever; where either side is lost, begin anew."""
    while True:
        try:
            await carry(options)
        except (aiomqtt.MqttError, aiohttp.ClientError, OSError) as error:
            log.warning("lost: %s", error)
        await asyncio.sleep(AGAIN)


async def carry(options: argparse.Namespace) -> None:
    """One session, until the server ends it; raises what the side that is lost raises."""
    status = f"{options.base}/status"
    key = os.environ.get("EDGE_RUNTIME_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else None
    async with (
        aiomqtt.Client(
            options.broker,
            options.port,
            username=os.environ.get("MQTT_USERNAME"),
            password=os.environ.get("MQTT_PASSWORD"),
            tls_params=aiomqtt.TLSParameters() if options.tls else None,
            will=aiomqtt.Will(status, "offline", qos=1, retain=True),
        ) as broker,
        aiohttp.ClientSession() as http,
        http.ws_connect(options.server, headers=headers, max_msg_size=0) as socket,
    ):
        source = {} if options.audio else {"source": f"mic:{options.mic}"}
        await socket.send_json({"type": "start", **source})
        await broker.subscribe(f"{options.base}/gate/set")
        if options.audio:
            await broker.subscribe(f"{options.base}/audio")
        ways = [
            asyncio.ensure_future(to_broker(socket, broker, options.base)),
            asyncio.ensure_future(to_server(broker, socket)),
        ]
        try:
            done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in done:
                way.result()
        finally:
            for way in ways:
                way.cancel()
            await broker.publish(status, "offline", qos=1, retain=True)


async def to_broker(
    socket: aiohttp.ClientWebSocketResponse, broker: aiomqtt.Client, base: str
) -> None:
    """Publish every event; what is true until further notice is retained, text never."""
    async for message in socket:
        event = json.loads(message.data)
        kind = event["type"]
        if kind == "ready":
            await broker.publish(f"{base}/status", "online", qos=1, retain=True)
        elif kind in ("speech_start", "speech_end"):
            spoken = json.dumps(kind == "speech_start")
            await broker.publish(f"{base}/speaking", spoken, qos=1, retain=True)
        elif kind == "partial":
            await broker.publish(f"{base}/partial", message.data)
        elif kind in ("final", "warning", "error"):
            await broker.publish(f"{base}/{kind}", message.data, qos=1)


async def to_server(broker: aiomqtt.Client, socket: aiohttp.ClientWebSocketResponse) -> None:
    """Pass on audio, and requests to open and close the gate."""
    async for message in broker.messages:
        payload = bytes(message.payload or b"")
        if message.topic.value.endswith("/audio"):
            await socket.send_bytes(payload)
        elif (gate := gate_of(payload)) is not None:
            await socket.send_json(gate)
        else:
            log.warning('a gate is {"open": false, "why": "playback"}, not %r', payload[:80])


def gate_of(payload: bytes) -> dict[str, Any] | None:
    """The request that a payload asks for, None where it is none: one would end the session."""
    try:
        wish = json.loads(payload)
    except ValueError:
        return None
    if not isinstance(wish, dict) or not isinstance(wish.get("open"), bool):
        return None
    why = wish.get("why", "mute")
    if why not in ("mute", "push", "playback"):
        return None
    return {"type": "gate", "open": wish["open"], "why": why}


def parsed(line: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--server", default="ws://127.0.0.1:8765/v1/stream")
    parser.add_argument("--broker", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=1883)
    parser.add_argument("--tls", action="store_true", help="to the broker")
    parser.add_argument("--base", default="edge-runtime/captions", help="where topics begin")
    parser.add_argument("--mic", default="", help="a microphone of the server [the default one]")
    parser.add_argument(
        "--audio", action="store_true", help="hear BASE/audio (16 kHz, 16 bit, mono) instead"
    )
    return parser.parse_args(line)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(bridge(parsed()))
