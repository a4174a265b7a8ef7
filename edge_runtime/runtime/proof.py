"""Whether a device says of a sound what the CPU says, before anybody relies on it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from edge_runtime.decode.chunked.runner import ChunkRunner
from edge_runtime.decode.family import AnyChain, AnyRunner, make_runner, open_chain
from edge_runtime.decode.tiles import Size
from edge_runtime.decode.update import Purpose, Update
from edge_runtime.device import open_device
from edge_runtime.errors import DeviceError

SECONDS = 2.0
TOKENS = tuple(range(1000, 1012))
"""What the text is made to begin with: any tokens show whether the model is the same."""
AGAIN = 3
"""Times that a device must repeat itself before it is relied on again."""
NEAR, SHARE = 0.1, 0.05
"""How far log-probabilities may lie apart: float16 rounds, and libraries add in their own order."""


def prove(chain: AnyChain, folder: Path) -> None:
    """Decode noise on the device of `chain` and, with the graphs in `folder`, on the CPU.

    Raises `DeviceError` where the two differ by more than rounding, and what decoding raises.
    """
    wanted = _heard(open_chain(open_device("cpu"), folder))
    given = _heard(chain)
    apart = np.abs(wanted - given)
    if not (apart <= NEAR + SHARE * np.abs(wanted)).all():
        raise DeviceError(
            f"{chain.device.name} does not say what the CPU says of the same sound: "
            f"numbers are up to {apart.max():.2f} apart",
            "Use another device, and please report this with the versions of its libraries.",
        )


def steady(runner: AnyRunner) -> None:
    """Decode the same noise again and again, on the device of `runner`.

    Raises `DeviceError` where it does not always say the same, and what decoding raises.
    """
    first = _said(runner)
    for _ in range(AGAIN):
        apart = np.abs(first - _said(runner))
        if not (apart <= NEAR + SHARE * np.abs(first)).all():
            raise DeviceError(
                f"{runner.chain.device.name} does not say the same of the same sound: "
                f"numbers are up to {apart.max():.2f} apart",
                "Run `edge-runtime doctor`, and restart the machine.",
            )


def _heard(chain: AnyChain) -> np.ndarray:
    """Log-probabilities along `TOKENS`, or what is heard where they cannot be forced."""
    return _said(make_runner(chain, Size(1, int(SECONDS * chain.shape.rate))))


def _said(runner: AnyRunner) -> np.ndarray:
    shape = runner.chain.shape
    samples = int(SECONDS * shape.rate)
    noise = np.random.default_rng(0).normal(0, 0.1, samples).astype(np.float32)
    if isinstance(runner, ChunkRunner):
        return runner.encoded(noise)
    tokens = tuple(token % shape.vocabulary for token in TOKENS)
    # Passes of another text come first: what they leave behind must not be read for the new.
    for forced in (tokens[:3], tokens):
        update = Update("proof", 0, Purpose.FINAL, 0, samples, tokens, forced, limit=len(tokens))
        (found,) = runner.run([update], [[noise]])
    return np.array(found.logprobs)
