"""Where clients put their keys, and what those hear who have none."""

from __future__ import annotations

import pytest
from aiohttp.test_utils import make_mocked_request

from edge_runtime.server.door import Door, presented

ALL = ("bearer", "token", "pair", "prefix", "query")


def request(path="/v1/stream", **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return make_mocked_request("GET", path, named)


@pytest.mark.parametrize(
    ("way", "asked"),
    [
        ("bearer", request(Authorization="Bearer er_x")),
        ("bearer", request(Authorization="bearer   er_x ")),
        ("token", request(Authorization="Token er_x")),
        ("pair", request(Sec_WebSocket_Protocol="token, er_x")),
        ("prefix", request(Sec_WebSocket_Protocol="edge-runtime, edge-runtime-key.er_x")),
        ("prefix", request(Sec_WebSocket_Protocol="realtime,openai-insecure-api-key.er_x")),
        ("query", request("/v1/stream?key=er_x")),
        ("query", request("/v1/stream?model=m&token=er_x")),
    ],
)
def test_a_key_is_taken_from_its_own_place_only(way, asked):
    assert presented(asked, (way,)) == "er_x"
    assert presented(asked, [other for other in ALL if other != way]) is None
    assert presented(asked, ALL) == "er_x"


@pytest.mark.parametrize(
    "asked",
    [
        request(),
        request(Authorization="Bearer"),
        request(Authorization="Bearer "),
        request(Authorization="Basic er_x"),
        request(Authorization="er_x"),
        request(Sec_WebSocket_Protocol="token"),
        request(Sec_WebSocket_Protocol="edge-runtime-key."),
        request("/v1/stream?key="),
    ],
)
def test_none_is_none(asked):
    assert presented(asked, ALL) is None


def test_the_first_way_that_has_one_counts():
    both = request("/v1/stream?key=two", Authorization="Bearer one")
    assert presented(both, ("bearer", "query")) == "one"
    assert presented(both, ("query", "bearer")) == "two"


def test_a_door_of_its_own_words_wants_a_key_by_itself():
    assert Door().without == "nobody"
    assert presented(request(Authorization="Bearer one"), Door().ways) == "one"
