"""Short ways to write a take by hand."""

from types import SimpleNamespace

import pytest

from edge_runtime import events
from edge_runtime.bench.take import Arrival, Take


def partial(at, stable, unstable, segment=0, end=None):
    return Arrival(
        at,
        events.Partial(
            segment=segment,
            stable=stable,
            unstable=unstable,
            start=0.0,
            end=at if end is None else end,
        ),
    )


def final(at, text, segment=0, **more):
    return Arrival(
        at,
        events.Final(
            segment=segment,
            turn=segment,
            reason=more.pop("reason", "endpoint"),
            text=text,
            start=0.0,
            end=at,
            logprob=-0.1,
            **more,
        ),
    )


def take(*arrivals, seconds=5.0):
    return Take("clip", seconds, tuple(arrivals))


@pytest.fixture
def said():
    """`partial`, `final` and `take`, which make what a client would have received."""
    return SimpleNamespace(partial=partial, final=final, take=take)
