"""`transcribe --live` and `--mic`: a source through the streaming runtime, in this process."""

from __future__ import annotations

import asyncio

from edge_runtime.audio.ring import Samples
from edge_runtime.audio.source import Source
from edge_runtime.cli.live import View
from edge_runtime.cli.pump import pump, stopped_by_ctrl_c
from edge_runtime.runtime import Options, Runtime, Stream


def dictate(runtime: Runtime, source: Source, options: Options, view: View) -> None:
    """Show the events of a source until it ends or Ctrl-C.

    A live source never waits: what the device cannot take in time is dropped and said.
    Whatever was said before the end, or before the source failed, gets its final.
    """
    with view:
        asyncio.run(_dictate(runtime, source, options, view))


async def _dictate(runtime: Runtime, source: Source, options: Options, view: View) -> None:
    async with runtime.serving():
        stream = runtime.open(options)
        feeding = asyncio.create_task(_feed(stream, source))
        async for event in stream:
            view.show(event)
        await feeding


async def _feed(stream: Stream, source: Source) -> None:
    async def offer(block: Samples) -> None:
        stream.offer(block)

    with stopped_by_ctrl_c() as stopping:
        try:
            await pump(source, offer if source.live else stream.feed, stopping)
        finally:
            stream.stop()
