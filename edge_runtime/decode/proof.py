"""Whether a device says of a sound what the CPU says, before anybody relies on it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from edge_runtime.decode.chunked.runner import ChunkRunner
from edge_runtime.decode.family import AnyChain, AnyRunner, make_runner
from edge_runtime.decode.tiles import Chain, Size
from edge_runtime.decode.update import Purpose, Update
from edge_runtime.errors import DeviceError, ModelDamaged

FILE = "proof.npz"
SECONDS = 2.0
TOKENS = tuple(range(1000, 1012))
"""What the text is made to begin with: any tokens show whether the model is the same."""
AGAIN = 3
"""Times that a device must repeat itself before it is relied on again."""
NEAR, SHARE = 0.1, 0.05
"""How far log-probabilities may lie apart: float16 rounds, and libraries add in their own order."""


@dataclass(frozen=True)
class Answers:
    """What was said of so many `samples` of noise.

    `numbers` are log-probabilities of `TOKENS`, or what was heard where none can be forced.
    """

    samples: int
    numbers: NDArray[np.floating]


def answers(chain: AnyChain, most: int) -> Answers:
    """What `chain` says of two seconds, or of the `most` samples that it takes.

    Raises what decoding raises.
    """
    samples = int(SECONDS * chain.shape.rate)
    if isinstance(chain, Chain):
        # As long as the least bucket: that shape is made for sessions, too.
        samples = chain.whole_frames(samples)
    samples = min(samples, most)
    return Answers(samples, _heard(chain, samples))


def write(wanted: Answers, folder: Path) -> None:
    """Keep beside an engine's plans what they should say."""
    with (folder / FILE).open("wb") as file:
        np.savez(file, samples=np.array(wanted.samples), numbers=wanted.numbers)


def read(folder: Path) -> Answers:
    """What `write` kept; raises `ModelDamaged`."""
    try:
        with np.load(folder / FILE, allow_pickle=False) as kept:
            return Answers(int(kept["samples"]), kept["numbers"])
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise ModelDamaged(
            f"{folder / FILE}, which tells what the engine should say, cannot be read: {error}",
            "Run: edge-runtime build MODEL --again",
        ) from error


def prove(chain: AnyChain, wanted: Answers) -> None:
    """Hold what `chain` says against the answers of another that is relied on.

    Raises `DeviceError` where the two differ by more than rounding, and what decoding raises.
    """
    apart = np.abs(wanted.numbers - _heard(chain, wanted.samples))
    if not (apart <= NEAR + SHARE * np.abs(wanted.numbers)).all():
        raise DeviceError(
            f"{chain.device.name} does not say what the CPU says of the same sound: "
            f"numbers are up to {apart.max():.2f} apart",
            "Use another device, and please report this with the versions of its libraries.",
        )


def steady(runner: AnyRunner) -> None:
    """Decode the same noise again and again, on the device of `runner`.

    Raises `DeviceError` where it does not always say the same, and what decoding raises.
    """
    samples = min(int(SECONDS * runner.chain.shape.rate), runner.size.samples)
    first = _said(runner, samples)
    for _ in range(AGAIN):
        apart = np.abs(first - _said(runner, samples))
        if not (apart <= NEAR + SHARE * np.abs(first)).all():
            raise DeviceError(
                f"{runner.chain.device.name} does not say the same of the same sound: "
                f"numbers are up to {apart.max():.2f} apart",
                "Run `edge-runtime doctor`, and restart the machine.",
            )


def _heard(chain: AnyChain, samples: int) -> NDArray[np.floating]:
    """On a lane of its own, which is gone afterwards."""
    with contextlib.closing(make_runner(chain, Size(1, samples))) as runner:
        return _said(runner, samples)


def _said(runner: AnyRunner, samples: int) -> NDArray[np.floating]:
    # It swells: what is even sounds the same backwards.
    swelling = np.random.default_rng(0).normal(0, 0.2, samples) * np.linspace(0, 1, samples)
    noise = swelling.astype(np.float32)
    if isinstance(runner, ChunkRunner):
        return runner.encoded(noise)
    tokens = tuple(token % runner.chain.shape.vocabulary for token in TOKENS)
    # Passes of another text come first: what they leave behind must not be read for the new.
    for forced in (tokens[:3], tokens):
        update = Update("proof", 0, Purpose.FINAL, 0, samples, tokens, forced, limit=len(tokens))
        (found,) = runner.run([update], [[noise]])
    return np.array(found.logprobs)
