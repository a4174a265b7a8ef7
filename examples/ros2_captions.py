"""A ROS 2 node that publishes what a microphone of an edge-runtime server hears.

    pip install aiohttp
    python ros2_captions.py --ros-args -p mic:=desk -r final:=/speech/final

It publishes `final` and `partial` (std_msgs/String) and `speaking` (std_msgs/Bool), and closes
its ears while `robot_speaking` (std_msgs/Bool) is true. Keys come from EDGE_RUNTIME_KEY.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable
from typing import Any

import aiohttp

AGAIN = 2.0
"""Seconds after which a server that was lost is looked for again."""


class Captions:
    """A session with a server, begun anew where it is lost. `said` is called with each event."""

    def __init__(self, url: str, mic: str, said: Callable[[dict[str, Any]], None]) -> None:
        self._url, self._mic, self._said = url, mic, said
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._talking = False

    async def run(self) -> None:
        """Hear for ever."""
        key = os.environ.get("EDGE_RUNTIME_KEY")
        headers = {"Authorization": f"Bearer {key}"} if key else None
        async with aiohttp.ClientSession(headers=headers) as http:
            while True:
                try:
                    async with http.ws_connect(self._url, max_msg_size=0) as socket:
                        await self._hear(socket)
                except (aiohttp.ClientError, OSError) as error:
                    self._said({"type": "warning", "code": "lost", "message": str(error)})
                await asyncio.sleep(AGAIN)

    async def talking(self, robot: bool) -> None:
        """The robot itself begins to speak, or is done."""
        self._talking = robot
        if self._socket is not None and not self._socket.closed:
            await self._socket.send_json({"type": "gate", "open": not robot, "why": "playback"})

    async def _hear(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        gated = {"gated": "playback"} if self._talking else {}
        await socket.send_json({"type": "start", "source": f"mic:{self._mic}", **gated})
        self._socket = socket
        async for message in socket:
            self._said(json.loads(message.data))


def main() -> None:
    """Spin until ROS shuts down."""
    import rclpy
    from rclpy.node import Node
    from std_msgs.msg import Bool, String

    rclpy.init()
    node = Node("captions")
    server = node.declare_parameter("server", "ws://127.0.0.1:8765/v1/stream").value
    mic = node.declare_parameter("mic", "").value
    finals = node.create_publisher(String, "final", 10)
    partials = node.create_publisher(String, "partial", 10)
    speaking = node.create_publisher(Bool, "speaking", 10)

    def said(event: dict[str, Any]) -> None:
        kind = event["type"]
        if kind == "final" and event["text"]:
            finals.publish(String(data=event["text"].strip()))
        elif kind == "partial":
            partials.publish(String(data=event["stable"] + event["unstable"]))
        elif kind in ("speech_start", "speech_end"):
            speaking.publish(Bool(data=kind == "speech_start"))
        elif kind in ("warning", "error"):
            node.get_logger().warning(event["message"])

    captions, loop = Captions(server, mic, said), asyncio.new_event_loop()

    def talks(robot: Bool) -> None:
        asyncio.run_coroutine_threadsafe(captions.talking(robot.data), loop)

    node.create_subscription(Bool, "robot_speaking", talks, 10)
    threading.Thread(target=loop.run_until_complete, args=(captions.run(),), daemon=True).start()
    try:
        rclpy.spin(node)
    finally:
        node.destroy_node()
        rclpy.try_shutdown()


if __name__ == "__main__":
    main()
