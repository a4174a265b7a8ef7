"""The command line of tools/soak."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import signal
import sys
from pathlib import Path

from edge_runtime.bench import server
from edge_runtime.bench.manifest import read
from soaking.feed import Feed
from soaking.state import Reading, State, cost


def main(arguments: list[str] | None = None) -> int:
    """The exit code: 0 when the goal is reached and nothing is wrong, 2 before that, 1 if it is."""
    parser = argparse.ArgumentParser(description="Feeds hours of audio through a real server.")
    parser.add_argument("manifest", type=Path, help="clips, as edge-runtime bench takes them")
    parser.add_argument("--hours", type=float, default=8.0, help="of audio, all parts together")
    parser.add_argument("--sparse", action="store_true", help="a tenth of it speech, at most")
    parser.add_argument("--state", type=Path, default=Path("soak.json"), help="kept, gone on with")
    parser.add_argument("--part", type=float, default=1e9, help="minutes that this part may take")
    parser.add_argument("--every", type=float, default=10.0, help="minutes of audio a reading")
    parser.add_argument("--workers", type=int, default=8, help="sessions at a time")
    parser.add_argument("--longest", type=float, default=30.0, help="minutes of a session")
    parser.add_argument("--device", default="", help="as edge-runtime serve takes it")
    given = parser.parse_args(arguments)
    # Both end the part; what a shell starts in the background is told to ignore the first.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    state = _state(given.state, given.hours * 3600, given.sparse)
    manifest = read(given.manifest)
    state.parts += 1

    def told(reading: Reading) -> None:
        state.write(given.state)
        print(
            f"{state.fed / 3600:7.2f} h of {state.goal / 3600:g}, {state.sessions} sessions: "
            f"{1000 * (cost([reading]) or 0.0):.1f} ms a hop, {reading.resident / 2**20:.0f} MB, "
            f"{reading.seconds / reading.took:.1f} × real time, {len(state.errors)} errors",
            flush=True,
        )

    with server.started(server.arguments("", given.device, None)) as ours:
        feed = Feed(ours, manifest, state, given.every * 60, given.longest * 60)
        # What was read is kept; what was not is fed again by the next part.
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(feed.run(given.workers, given.part * 60, told))
    state.write(given.state)
    for said in state.wrong[:10]:
        print(said)
    hop = ""
    if state.hop is not None and state.clock is not None:
        hop = (
            f", the last costs {state.hop:.3f} × the first (a hop by the clock: {state.clock:.3f})"
        )
    print(f"{state.fed / 3600:.2f} h of {state.goal / 3600:g} in {state.parts} parts{hop}")
    return 1 if state.wrong else 0 if state.fed >= state.goal else 2


def _state(path: Path, goal: float, sparse: bool) -> State:
    """That of the file, gone on with, or a new one."""
    if not path.exists():
        return State(goal, sparse, str(random.SystemRandom().randrange(1 << 32)))
    state = State.read(path)
    if (state.sparse, state.goal) != (sparse, goal):
        sys.exit(f"{path} is of a soak with other options; name another file with --state.")
    return state
