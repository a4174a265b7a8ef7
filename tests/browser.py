"""A real Chromium without a window, driven by its DevTools protocol over a WebSocket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp

NAMES = ("chromium", "chromium-browser", "google-chrome")

_QUIET = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
    "--no-first-run", "--no-default-browser-check", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-extensions", "--mute-audio",
    "--remote-debugging-port=0", "--disable-features=Translate,MediaRouter,OptimizationHints",
    "--autoplay-policy=no-user-gesture-required",
)  # fmt: skip


def chromium() -> str | None:
    """The path of a Chromium of this machine, None where there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@contextlib.contextmanager
def launched(folder: Path, *flags: str) -> Iterator[str]:
    """A browser with its profile in `folder`; gives the address of its DevTools."""
    command = [str(chromium()), *_QUIET, f"--user-data-dir={folder}", *flags, "about:blank"]
    log = folder / "stderr"
    folder.mkdir(parents=True, exist_ok=True)
    with log.open("w") as stderr:
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=stderr, start_new_session=True
        )
    try:
        yield _address(process, log)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        said = re.search(r"DevTools listening on (\S+)", log.read_text())
        if said:
            return said[1]
        time.sleep(0.05)
    raise AssertionError(f"the browser does not start:\n{log.read_text()[-2000:]}")


class Tab:
    """A tab with a profile of its own: what it was asked for, and what its page logged.

    `console` has errors and warnings of the page, `requests` every address it asked for.
    """

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.console: list[str] = []
        self.requests: list[str] = []
        self._socket = socket
        self._session: str | None = None
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._count = 0

    async def call(self, method: str, **params: Any) -> Any:
        """The result of a DevTools command; raises `AssertionError` with what it says is wrong."""
        self._count += 1
        number = self._count
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        await self._socket.send_json(message)
        said = await asyncio.wait_for(answer, 30)
        assert "error" not in said, (method, said["error"])
        return said["result"]

    async def evaluate(self, code: str) -> Any:
        """The value of an expression, as JSON has it; a promise is awaited."""
        result = await self.call(
            "Runtime.evaluate",
            expression=code,
            awaitPromise=True,
            returnByValue=True,
            userGesture=True,
        )
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    async def until(self, code: str, seconds: float = 40.0) -> Any:
        """The value of an expression once it is true."""
        deadline = time.monotonic() + seconds
        while not (value := await self.evaluate(code)):
            if time.monotonic() > deadline:
                shown = await self.evaluate("document.body.innerText")
                raise AssertionError(f"never true: {code}\n{shown}\n{self.console}")
            await asyncio.sleep(0.05)
        return value

    async def open(self, url: str) -> None:
        """Go there; returns when the page has loaded."""
        await self.call("Page.navigate", url=url)
        await self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    async def press(self, key: str, code: int, shift: bool = False) -> None:
        """Press a key and let it go."""
        text = {"Enter": "\r", " ": " "}.get(key, "")
        common = {"key": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        down = "keyDown" if text else "rawKeyDown"
        await self.call("Input.dispatchKeyEvent", type=down, text=text, **common)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    async def begin(self) -> None:
        """Attach to a new tab of its own profile."""
        context = await self.call("Target.createBrowserContext")
        target = await self.call(
            "Target.createTarget", url="about:blank", browserContextId=context["browserContextId"]
        )
        attached = await self.call(
            "Target.attachToTarget", targetId=target["targetId"], flatten=True
        )
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "DOM"):
            await self.call(f"{domain}.enable")

    async def listen(self) -> None:
        """Take in what the browser says, until it is gone."""
        async for message in self._socket:
            said = json.loads(message.data)
            if "id" in said:
                self._answers.pop(said["id"]).set_result(said)
            else:
                self._note(said["method"], said["params"])

    def _note(self, method: str, said: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.console.append(str(said["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and said["type"] in {"error", "warning"}:
            self.console.append(str([each.get("value") for each in said["args"]]))
        elif method == "Log.entryAdded" and said["entry"]["level"] in {"error", "warning"}:
            self.console.append(f"{said['entry']['text']} {said['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(said["request"]["url"])
        elif method == "Network.webSocketCreated":
            self.requests.append(said["url"])


@contextlib.asynccontextmanager
async def tab(address: str) -> AsyncIterator[Tab]:
    """A new tab of the browser at this address; it is closed at the end."""
    async with aiohttp.ClientSession() as http, http.ws_connect(address, max_msg_size=0) as socket:
        made = Tab(socket)
        listening = asyncio.create_task(made.listen())
        await made.begin()
        try:
            yield made
            with contextlib.suppress(AssertionError, asyncio.TimeoutError):
                await made.call("Page.close")
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
