"""The examples: sessions of theirs with a real server, through a real broker where there is one."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import py_compile
import shutil
import socket
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[3] / "examples"
MOSQUITTO = shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
SPEECH = np.full(1600, 100, "<i2").tobytes()
BASE = "house/kitchen"


def example(name: str):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
async def broker(tmp_path):
    """The port of a mosquitto of our own."""
    if MOSQUITTO is None:
        pytest.skip("apt-get install mosquitto")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "mosquitto.conf").write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
    process = await asyncio.create_subprocess_exec(
        MOSQUITTO, "-c", str(tmp_path / "mosquitto.conf"),
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    for _ in range(200):
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            break
        await asyncio.sleep(0.02)
    yield port
    process.terminate()
    await process.wait()


async def test_captions_go_through_a_broker_and_the_gate_comes_back(house, broker):
    aiomqtt = pytest.importorskip("aiomqtt", reason="pip install aiomqtt")
    module, server = example("mqtt_bridge"), await house()
    options = module.parsed(
        ["--server", server.url.replace("http", "ws") + "/v1/stream", "--broker", "127.0.0.1",
         "--port", str(broker), "--base", BASE, "--audio"]
    )  # fmt: skip
    async with aiomqtt.Client("127.0.0.1", broker) as client:
        await client.subscribe(f"{BASE}/#")
        bridge = asyncio.create_task(module.bridge(options))

        async def wait(topic: str, payload: bytes | None = None):
            """The next message of a topic, with that payload where it is given."""
            while True:
                message = await asyncio.wait_for(anext(aiter(client.messages)), 10)
                if message.topic.value == f"{BASE}/{topic}" and payload in (None, message.payload):
                    return message

        assert not (await wait("status", b"online")).retain  # it is new to us
        for payload in (b"no JSON", b"[]", b'{"open": 1}', b'{"open": true, "why": "?"}'):
            await client.publish(f"{BASE}/gate/set", payload)
        await client.publish(f"{BASE}/audio", SPEECH)
        assert json.loads((await wait("partial")).payload)["unstable"] == "1600"
        await client.publish(f"{BASE}/gate/set", '{"open": false, "why": "playback"}')
        await client.publish(f"{BASE}/audio", SPEECH)
        await client.publish(f"{BASE}/gate/set", '{"open": true, "why": "playback"}')
        await client.publish(f"{BASE}/audio", SPEECH[:320])
        while json.loads((await wait("partial")).payload)["unstable"] != "1760":
            pass  # 1600 before the gate and 160 after it
        (stream,) = server.runtime.streams
        stream.stop("shutdown")
        final = await wait("final")
        assert (json.loads(final.payload)["text"], final.retain, final.qos) == ("1760", False, 0)
        await wait("speaking", b"false")
        bridge.cancel()
        await asyncio.gather(bridge, return_exceptions=True)
        await wait("status", b"offline")
    async with aiomqtt.Client("127.0.0.1", broker) as late:
        await late.subscribe(f"{BASE}/#")
        kept = {}
        with contextlib.suppress(asyncio.TimeoutError):
            while True:
                message = await asyncio.wait_for(anext(aiter(late.messages)), 0.2)
                kept[message.topic.value.removeprefix(f"{BASE}/")] = message.payload
    assert kept == {"status": b"offline", "speaking": b"false"}


@pytest.mark.parametrize("name", ["mqtt_bridge", "ros2_captions"])
def test_it_compiles(name, tmp_path):
    py_compile.compile(str(FOLDER / f"{name}.py"), str(tmp_path / "out"), doraise=True)


LISTENER = """
import sys, threading, rclpy
from std_msgs.msg import Bool, String

rclpy.init()
node = rclpy.create_node("listener")

def say(topic):
    return lambda message: print(topic, message.data, flush=True)

for topic, kind in (("/speech/final", String), ("/partial", String), ("/speaking", Bool)):
    node.create_subscription(kind, topic, say(topic), 10)
robot = node.create_publisher(Bool, "/robot_speaking", 10)

def hear():
    for line in sys.stdin:
        robot.publish(Bool(data=line == "speaks\\n"))

threading.Thread(target=hear, daemon=True).start()
rclpy.spin(node)
"""


@pytest.fixture
async def ros():
    """`await ros(*words)`: a Python that has ROS 2 runs them; all in a domain of their own."""
    if "ROS_PYTHON" not in os.environ:
        pytest.skip("ROS_PYTHON names no Python with rclpy, std_msgs and aiohttp")
    processes = []
    environ = {
        **os.environ,
        "ROS_DOMAIN_ID": str(os.getpid() % 100),
        "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
    }

    async def run(*words):
        pipe = asyncio.subprocess.PIPE
        processes.append(
            await asyncio.create_subprocess_exec(
                os.environ["ROS_PYTHON"], *words, stdin=pipe, stdout=pipe, env=environ
            )
        )
        return processes[-1]

    yield run
    for process in processes:
        process.terminate()
        await process.wait()


async def test_captions_are_topics_of_ros(house, captures, ros):
    server = await house()
    listener = await ros("-c", LISTENER)
    await ros(
        str(FOLDER / "ros2_captions.py"), "--ros-args", "-r", "final:=/speech/final",
        "-p", "mic:=desk", "-p", f"server:={server.url.replace('http', 'ws')}/v1/stream",
    )  # fmt: skip
    told: list[str] = []

    async def listen():
        while line := await listener.stdout.readline():
            told.append(line.decode().strip())

    async def until(true, act=lambda: None):
        for _ in range(600):
            if true():
                return
            act()
            await asyncio.sleep(0.05)
        raise AssertionError(told)

    listening = asyncio.create_task(listen())
    await until(lambda: captures)
    assert captures[0].profile.device == "desk"
    (stream,) = server.runtime.streams

    def speak():
        captures[0].record(160)

    await until(lambda: any(each.startswith("/partial") for each in told), speak)
    stream.flush()
    await until(lambda: any(each.startswith("/speech/final") for each in told))
    await until(lambda: "/speaking False" in told)
    listener.stdin.write(b"speaks\n")
    await until(lambda: stream.heard and not stream.heard[-1].any(), speak)
    listener.stdin.write(b"is done\n")
    await until(lambda: bool(stream.heard[-1].any()), speak)
    listening.cancel()


async def test_the_session_of_the_ros_node(house, monkeypatch):
    """What it says to a server, with a microphone that is none."""
    module, server = example("ros2_captions"), await house()
    monkeypatch.setattr(module, "AGAIN", 0.01)
    assert "rclpy" not in sys.modules
    said: asyncio.Queue[dict] = asyncio.Queue()
    url = server.url.replace("http", "ws") + "/v1/stream"
    captions = module.Captions(url, "none such", said.put_nowait)
    running = asyncio.create_task(captions.run())
    for _ in range(2):  # it comes back by itself
        while (event := await asyncio.wait_for(said.get(), 10))["type"] != "error":
            pass
        assert event["code"] in ("bad_source", "microphone", "missing_extra"), event
        await captions.talking(True)
    running.cancel()
