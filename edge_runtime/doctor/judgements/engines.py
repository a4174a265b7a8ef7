"""Engines of the configured model: does one serve here, and if not why."""

from __future__ import annotations

from collections.abc import Iterator

from edge_runtime.doctor.base import Finding, error, ok, warning
from edge_runtime.doctor.facts import Engine, Facts, Loaded, Store
from edge_runtime.doctor.judgements.board import capability, dotted, has_gpu, tensorrt_serves
from edge_runtime.engines.engine import covers


def engines(facts: Facts) -> Iterator[Finding]:
    """Only where TensorRT would serve them; damaged ones are named everywhere."""
    store = facts.store
    if store is None:
        return
    for engine in store.engines:
        if engine.damage:
            yield warning(
                "engines",
                f"{engine.model} {engine.fingerprint} is damaged",
                f"{engine.damage}: it is not used.",
                f"{_build(engine)} --again",
            )
    model = facts.settings.model if facts.settings is not None else ""
    whole = [each for each in store.engines if not each.damage and each.model == model]
    loaded = facts.tensorrt
    if not has_gpu(facts) or not tensorrt_serves(facts) or loaded is None:
        if whole:
            yield ok("engines", f"{_count(whole)} of {model}, not used here")
        return
    yield _serving(facts, store, loaded, model, whole)


def fits(facts: Facts, engine: Engine, store: Store, loaded: Loaded) -> str:
    """Why an engine does not serve here, empty where it does."""
    here = capability(facts)
    if engine.tensorrt != loaded.flavour:
        return f"is for {engine.tensorrt}, here is {loaded.flavour}"
    if engine.version != loaded.version:
        return f"was built by TensorRT {engine.version}, here is {loaded.version}"
    if here is not None and not any(covers(each, here) for each in engine.target):
        return f"is for GPUs {' '.join(engine.target)}, this is {dotted(here)}"
    if engine.unlike:
        return f"differs in {', '.join(engine.unlike)}"
    if store.precisions and engine.precision not in store.precisions:
        return f"is in {engine.precision}, wanted is {store.precisions[0]}"
    return ""


def _serving(
    facts: Facts, store: Store, loaded: Loaded, model: str, whole: list[Engine]
) -> Finding:
    if not whole:
        return warning(
            "engines",
            f"no engine of {model} was built",
            "TensorRT serves engines alone; until there is one, the next device does.",
            f"edge-runtime build {model}",
        )
    reasons = [(fits(facts, each, store, loaded), each) for each in whole]
    fitting = [each for reason, each in reasons if not reason]
    if fitting:
        return ok("engines", f"{fitting[0].fingerprint} of {model} serves here")
    reason, engine = reasons[-1]
    return error(
        "engines",
        f"the engine {engine.fingerprint[:8]} {reason}",
        "An engine serves the exact TensorRT, GPU and model that it was built for; it is refused, "
        "and the next device serves.",
        _build(engine, loaded.flavour),
    )


def _build(engine: Engine, flavour: str = "") -> str:
    return (
        f"edge-runtime build {engine.model} --precision {engine.precision} "
        f"--tensorrt {flavour or engine.tensorrt}"
    )


def _count(engines: list[Engine]) -> str:
    return "one engine" if len(engines) == 1 else f"{len(engines)} engines"
