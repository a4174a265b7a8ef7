"""Several models in one server: a session gets the one that it names, and hears of a wrong name."""

from __future__ import annotations

import pytest

OTHERS = {"large": ("de", "en")}


@pytest.mark.parametrize(("named", "model"), [({}, "stand-in"), ({"model": "large"}, "large")])
async def test_a_session_is_served_by_the_model_it_names(house, speech, named, model) -> None:
    server = await house(others=OTHERS)
    ready, *_ = await server.say(speech(1600), **named)
    assert ready["model"] == model
    counts = {each.model: len(each.streams) for each in server.runtime.models.values()}
    assert counts == {"stand-in": 0, "large": 0} | {model: 1}


async def test_a_wrong_name_is_told_those_there_are(house, read) -> None:
    server = await house(others=OTHERS)
    socket = await server.connect({"model": "larg"})
    (error,), code = await read.rest(socket)
    assert (error["code"], code) == ("unknown_model", 1008)
    assert "'larg'" in error["message"]
    assert "stand-in, large" in error["fix"]
    assert server.metrics.value("edge_runtime_refused_total", code="unknown_model") == 1


async def test_a_session_comes_back_to_its_model(house, read) -> None:
    server = await house(others=OTHERS)
    socket = await server.connect({"model": "large", "resume": {"token": ""}})
    (ready,) = await read.until(socket, "ready")
    await socket.close()
    resume = {"token": ready["resume"], "last_seq": 1}
    other = await server.connect({"model": "stand-in", "resume": resume})
    (error,), _ = await read.rest(other)
    assert error["code"] == "resume_mismatch"
    assert "large" in error["message"]
    for start in ({}, {"model": "large"}):
        again = await server.connect({**start, "resume": resume})
        (ready,) = await read.until(again, "ready")
        assert ready["model"] == "large"
        resume = {"token": ready["resume"], "last_seq": 1}


async def test_the_list_of_models_has_all_of_them(house) -> None:
    server = await house(others=OTHERS)
    async with server.http.get(server.url + "/v1/models") as answer:
        assert [each["id"] for each in (await answer.json())["data"]] == ["stand-in", "large"]
