"""A candidate beside the active model, on real sockets: the share, the comparison, the end."""

from __future__ import annotations

import threading
import weakref

import numpy as np
import pytest

from edge_runtime.config import Canary, Computing, Config, Guarding, Serving
from edge_runtime.decode.runner import Runner
from edge_runtime.engines import choice, variants
from edge_runtime.errors import DeviceError, StoreUnwritable
from edge_runtime.runtime.canary import load
from edge_runtime.server import Limits
from tests.waiting import until

BELIEVED = Guarding(tokens_per_second=100, compression=100, mean_logprob=-100)


pytestmark = pytest.mark.usefixtures("loud_is_speech")


@pytest.fixture
def house(host, made_up_path, made_up_store):
    """A server of the made-up model: `await house(share=0.5, …)`."""

    async def start(**canary):
        config = Config(
            serving=Serving(port=0, model=str(made_up_path), device="cpu"),
            computing=Computing(lanes=2),
            guarding=BELIEVED,
            canary=Canary(**canary),
        )
        limits = Limits(linger=0.5, grace=5.0)
        return await host(config, lambda metrics: load(config, made_up_store, metrics), limits)

    return start


@pytest.fixture
def turn() -> bytes:
    """Noise, and silence after it."""
    noise = np.random.default_rng(4).normal(0, 8000, 16_000).clip(-32000, 32000)
    return np.append(noise, np.zeros(12_000)).astype("<i2").tobytes()


async def texts(server, turn, count: int) -> list[str]:
    """What sessions one after the other are told as final."""
    said = []
    for _ in range(count):
        events = await server.say(turn)
        said.append(" ".join(event["text"] for event in events if event["type"] == "final"))
    return said


async def health(server) -> dict:
    async with server.http.get(server.url + "/healthz") as answer:
        return await answer.json()


def counted(server, name: str, variant: str) -> float:
    return server.metrics.value(f"edge_runtime_variant_{name}", variant=variant)


async def test_without_a_share_there_is_no_trial(house, calibrated, turn) -> None:
    name = calibrated(candidate=True).name
    server = await house()
    await texts(server, turn, 2)
    told = await health(server)
    assert (told["precision"], told["variant"], told["canary"]) == ("fp32", None, None)
    assert counted(server, "sessions_total", name) == 0


def lanes() -> int:
    return sum(thread.name.startswith("lane-") for thread in threading.enumerate())


async def test_the_share_goes_to_the_candidate_and_both_are_counted(
    house, calibrated, turn
) -> None:
    name, before = calibrated(candidate=True).name, lanes()
    server = await house(share=0.3)
    assert lanes() - before == 2  # one each, not two each
    said = await texts(server, turn, 10)
    # Every product of the candidate is as it was, so all say the same.
    assert len(set(said)) == 1
    assert said[0]
    assert [counted(server, "sessions_total", each) for each in ("full", name)] == [7, 3]
    assert [counted(server, "finals_total", each) for each in ("full", name)] == [7, 3]
    for figure in ("words_total", "speech_seconds_total", "update_seconds_count"):
        full, tried = (counted(server, figure, each) for each in ("full", name))
        assert min(full, tried) > 0, figure
    told = await health(server)
    assert (told["precision"], told["variant"], told["forced"]) == ("fp32", None, False)
    canary = told["canary"]
    assert (canary["variant"], canary["share"], canary["ended"]) == (name, 0.3, None)
    assert (canary["forced"], canary["rejected"]) == (False, False)
    assert (canary["active"]["sessions"], canary["candidate"]["sessions"]) == (7, 3)
    assert canary["active"]["words_per_second"] == canary["candidate"]["words_per_second"]
    for labels in (("fp32", "", "false"), ("int8", name, "false")):
        precision, variant, forced = labels
        assert server.metrics.value(
            "edge_runtime_model_info",
            model="made-up", precision=precision, variant=variant, forced=forced,
        ) == 1  # fmt: skip


def wordy(folder) -> None:
    """A vocabulary that writes many more words."""
    tokens = [f"\\u2581w{number}" for number in range(50)]
    path = folder / "vocabulary.json"
    path.write_text("[" + ", ".join(f'"{token}"' for token in tokens) + "]")


async def test_a_breach_ends_the_trial_for_good(
    house, calibrated, made_up, made_up_store, turn, read, caplog
) -> None:
    name = calibrated(candidate=True, spoil=wordy).name
    server = await house(share=0.5, min_sessions=2, max_length_change=0.5, max_latency_ratio=1000)
    # One that the candidate serves when its trial ends goes on to its own end.
    open_before = [await server.connect({}) for _ in "ab"]
    for client in open_before:
        await read.until(client, "ready")
        await client.send_bytes(turn)
    said = await texts(server, turn, 8)
    assert len(set(said)) == 2
    assert len(set(said[4:])) == 1  # all by the active model
    told = (await health(server))["canary"]
    assert told["rejected"]
    assert "words a second" in told["ended"] or "finals are rejected" in told["ended"]
    assert told["ended"] in caplog.text
    for client in open_before:
        await client.send_json({"type": "stop"})
        events, code = await read.rest(client)
        assert (events[-1]["type"], code) == ("closed", 1000)
    state = f"rejected: {told['ended']}"
    await until(lambda: choice.read(made_up_store, "made-up").state(name) == state)
    assert variants.candidate(made_up_store, made_up) is None
    # The next start has nobody to try, says so, and serves.
    again = await house(share=0.5)
    assert "there is no candidate of made-up" in (await health(again))["canary"]["ended"]
    assert (await texts(again, turn, 1)) == said[-1:]


async def test_a_candidate_is_let_go_with_its_last_session(
    house, calibrated, turn, read, caplog
) -> None:
    name, before = calibrated(candidate=True, spoil=wordy).name, lanes()
    server = await house(share=0.5, min_sessions=2, max_length_change=0.5, max_latency_ratio=1000)
    chain = weakref.ref(server.runtime._trial.runtime.loaded.chain)
    clients = [await server.connect({}) for _ in "ab"]  # the second is the candidate's
    for client in clients:
        await read.until(client, "ready")
    await texts(server, turn, 6)
    assert (await health(server))["canary"]["rejected"]
    assert chain() is not None
    assert lanes() - before == 2
    for client in clients:
        await client.send_bytes(turn)
        await client.send_json({"type": "stop"})
        events, code = await read.rest(client)
        assert (events[-1]["type"], code) == ("closed", 1000)
        assert [event["text"] for event in events if event["type"] == "final"]
    await until(lambda: "is not in memory any more" in caplog.text)
    assert chain() is None
    assert lanes() - before == 1
    told = (await health(server))["canary"]
    assert (told["variant"], told["rejected"]) == (name, True)
    assert told["candidate"]["sessions"] >= 3
    assert not server.metrics.value(
        "edge_runtime_model_info", model="made-up", precision="int8", variant=name, forced="false"
    )
    assert all(await texts(server, turn, 2))


async def test_a_candidate_that_does_not_run_is_let_go_at_once(
    house, calibrated, turn, monkeypatch
) -> None:
    calibrated(candidate=True)
    real, failing = Runner.warm, []

    def warm(self):
        failing.append(self.chain)
        if len(failing) > 1:  # the active model is warmed first
            raise DeviceError("no room", "Free some.")
        real(self)

    monkeypatch.setattr(Runner, "warm", warm)
    server = await house(share=0.5)
    chain = weakref.ref(failing.pop())
    failing.clear()
    await until(lambda: server.runtime._trial is None)
    assert chain() is None
    assert (await health(server))["canary"]["ended"].startswith("the candidate does not run: no")
    assert all(await texts(server, turn, 2))


async def test_a_candidate_whose_updates_fail_is_rejected(
    house, calibrated, made_up_store, turn, monkeypatch
) -> None:
    name = calibrated(candidate=True).name
    server = await house(share=0.5, min_sessions=2, max_rejected_increase=1)
    bad, real = server.runtime._trial.runtime.loaded.chain, Runner.rounds

    def rounds(self, *rest):
        if self.chain is bad:
            raise DeviceError("it does not compute", "Use another.")
        return real(self, *rest)

    monkeypatch.setattr(Runner, "rounds", rounds)
    said = await texts(server, turn, 6)
    assert [bool(text) for text in said] == [True, False, True, False, True, True]
    told = (await health(server))["canary"]
    assert told["ended"].startswith("100.0% of its sessions fail, 0.0% of the active model's")
    assert counted(server, "sessions_failed_total", name) == 2
    state = f"rejected: {told['ended']}"
    await until(lambda: choice.read(made_up_store, "made-up").state(name) == state)


async def test_a_candidate_whose_device_is_lost_is_rejected_at_once(
    house, calibrated, made_up_store, turn
) -> None:
    name = calibrated(candidate=True).name
    server = await house(share=0.9)
    server.runtime._trial.runtime._decoder.dead = DeviceError("it fell off", "Restart.")
    assert all(await texts(server, turn, 3))
    told = (await health(server))["canary"]
    assert told["ended"] == "its device was lost: it fell off. Restart."
    rejected = {name: told["ended"]}  # written beside what is served
    await until(lambda: choice.read(made_up_store, "made-up").rejected == rejected)


async def test_a_store_that_cannot_be_written_ends_the_trial_all_the_same(
    house, calibrated, turn, monkeypatch, caplog
) -> None:
    calibrated(candidate=True)
    server = await house(share=0.5)

    def reject(*rest):
        raise StoreUnwritable("no space left", "Free some.")

    monkeypatch.setattr(variants, "reject", reject)
    server.runtime._trial.runtime._decoder.dead = DeviceError("it fell off", "Restart.")
    assert all(await texts(server, turn, 2))
    unknown = "the store does not know that the candidate was rejected: no space left"
    await until(lambda: unknown in caplog.text)


async def test_what_is_promoted_serves_from_the_next_start_on_and_is_taken_back(
    house, calibrated, made_up_store, made_up_scheme, turn
) -> None:
    name = calibrated(made_up_scheme, candidate=True, forced=True).name
    first = await house(share=0.5)
    full = (await texts(first, turn, 1))[0]
    variants.promote(made_up_store, "made-up")
    assert (await health(first))["variant"] is None
    second = await house()
    told = await health(second)
    assert (told["precision"], told["variant"], told["forced"]) == ("int8", name, True)
    assert (await texts(second, turn, 1))[0]
    variants.rollback(made_up_store, "made-up")
    third = await house()
    assert (await health(third))["variant"] is None
    assert (await texts(third, turn, 1))[0] == full


async def test_a_variant_that_is_refused_leaves_the_full_model_and_says_why(
    house, calibrated, turn, monkeypatch
) -> None:
    calibrated()
    calibrated(candidate=True)
    monkeypatch.setattr("edge_runtime.engines.store._quantiser", lambda: "another")
    server = await house(share=0.5)
    told = await health(server)
    assert (told["status"], told["precision"]) == ("ok", "fp32")
    assert "Run: edge-runtime calibrate made-up" in told["variant_unused"]
    assert told["canary"]["ended"] is not None
    assert (await texts(server, turn, 2))[0]
