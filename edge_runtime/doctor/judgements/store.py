"""The store, its disk and the configured model."""

from __future__ import annotations

from collections.abc import Iterator

from edge_runtime.doctor.base import Finding, error, ok, warning
from edge_runtime.doctor.facts import Facts
from edge_runtime.doctor.judgements.board import has_gpu, tensorrt_serves
from edge_runtime.doctor.judgements.engines import fits

SCARCE, LITTLE = 256 << 20, 1 << 30
"""Bytes of disk that exporting a model, and building an engine of it, take at most."""


def store(facts: Facts) -> Iterator[Finding]:
    """Whether this user may write it."""
    found, user = facts.store, facts.user
    if found is None:
        return
    if not found.writable:
        name = user.name if user is not None else "USER"
        yield warning(
            "store",
            f"{name} may not write {found.root}",
            "What is in it serves, but nothing can be pulled, built or exported.",
            f"sudo chown -R {name} {found.root}, or set EDGE_RUNTIME_STORE to another folder",
        )
    else:
        yield ok("store", f"{found.root}{'' if found.exists else ', not made yet'}")


def disk(facts: Facts) -> Iterator[Finding]:
    """The disk of the store."""
    found = facts.store
    if found is None or not found.size:
        return
    left = f"{found.free / (1 << 30):.1f} of {found.size / (1 << 30):.0f} GB are free"
    if found.free >= LITTLE:
        yield ok("disk", left)
        return
    make = error if found.free < SCARCE else warning
    yield make(
        "disk",
        f"only {left} on the disk of the store",
        "A model takes about 0.3 GB with its graphs, an engine 0.1 GB and room while it is built.",
        "edge-runtime engines list, then edge-runtime engines rm MODEL; sudo apt-get clean",
    )


def model(facts: Facts) -> Iterator[Finding]:
    """Whether the configured model is there whole; a board with an engine needs no weights."""
    found, loaded = facts.store, facts.tensorrt
    if found is None or not found.models:
        return
    missing = [each for each in found.models if each.trouble]
    name = found.models[0].name
    if not missing:
        yield ok("model", f"{name} is in the store")
        return
    if has_gpu(facts) and tensorrt_serves(facts) and loaded is not None:
        mine = [each for each in found.engines if each.model == name and not each.damage]
        if any(not fits(facts, each, found, loaded) for each in mine):
            yield ok("model", f"{name} serves from its engine, without its weights")
            return
    if found.service:
        yield error(
            "model",
            missing[0].trouble,
            "The service has a store of its own, /var/lib/edge-runtime, which this user does not "
            "use.",
            "sudo --user=edge-runtime edge-runtime doctor",
        )
        return
    yield error(
        "model",
        missing[0].trouble,
        "The server does not start without it.",
        missing[0].fix.removeprefix("Run: ") or f"edge-runtime pull {name}",
    )
