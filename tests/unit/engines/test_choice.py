"""Which variant serves: promoted, tried, denied, taken back, in every order that there is."""

from __future__ import annotations

import pytest

from edge_runtime.engines import choice
from edge_runtime.engines.choice import Choice
from edge_runtime.errors import ModelDamaged


def test_back_goes_step_by_step_down_to_full_precision() -> None:
    chosen = Choice().promoted("a").promoted("b").promoted("c")
    seen = [chosen.active]
    while chosen.active is not None:
        chosen = chosen.back()
        seen.append(chosen.active)
    assert seen == ["c", "b", "a", None]
    assert chosen.before == ()


def test_what_is_active_already_stays_so_and_is_remembered_once() -> None:
    chosen = Choice().promoted("a").promoted("a")
    assert chosen == Choice(active="a", before=(None,))
    assert chosen.tried("a").candidate is None
    assert Choice(active="b", before=("a",)).promoted("a").before == ("a", "b")


def test_a_trial_ends_by_promotion_or_with_a_reason() -> None:
    tried = Choice(active="a").tried("b")
    assert (tried.active, tried.candidate) == ("a", "b")
    assert tried.promoted("b") == Choice(active="b", before=("a",))
    denied = tried.denied("b", "too slow")
    assert denied == Choice(active="a", rejected={"b": "too slow"})
    assert [denied.state(each) for each in "abc"] == ["active", "rejected: too slow", "not used"]
    assert tried.state("b") == "candidate"
    # Calibrated once more, it is tried again.
    assert denied.tried("b") == tried
    # Another one's trial goes on.
    assert tried.denied("c", "no").candidate == "b"


def test_what_is_removed_leaves_no_trace() -> None:
    chosen = Choice(active="b", before=(None, "a", "b", "a"), candidate="c", rejected={"d": "no"})
    assert chosen.without("b").active == "a"
    assert "b" not in chosen.without("b").before
    assert chosen.without("a") == Choice(
        active="b", before=(None,), candidate="c", rejected={"d": "no"}
    )
    assert chosen.without("c").candidate is None
    assert chosen.without("d").rejected == {}
    assert Choice(active="a").without("a") == Choice()


def test_only_the_latest_are_remembered() -> None:
    chosen = Choice()
    for number in range(20):
        chosen = chosen.promoted(str(number))
    assert chosen.before == tuple(str(number) for number in range(11, 19))


def test_it_is_kept_and_a_damaged_one_is_refused(tmp_path, made_up_store) -> None:
    model = "made-up"
    assert choice.read(made_up_store, model) == Choice()
    chosen = Choice(active="a", before=(None, "b"), candidate="c", rejected={"d": "no"})
    choice.write(made_up_store, model, chosen)
    assert choice.read(made_up_store, model) == chosen
    path = made_up_store.root / model / choice.CHOICE
    assert [each.name for each in path.parent.glob(".*")] == []
    path.write_text('{"active": 3}')
    with pytest.raises(ModelDamaged, match=r"active\.json.*Delete it, then run: .* promote made"):
        choice.read(made_up_store, model)
