"""Whether a model on trial differs from the active one by more than is allowed: arithmetic."""

from __future__ import annotations

from edge_runtime.config import Canary
from edge_runtime.runtime.canary.counts import Counts


def breach(active: Counts, trial: Counts, limits: Canary) -> str | None:
    """The first limit that is broken, as a sentence; None as long as none is.

    Nothing is said before enough sessions of both have ended.
    """
    if min(active.sessions, trial.sessions) < limits.min_sessions:
        return None
    return (
        _more("sessions fail", active.failed_share, trial.failed_share, limits,
              "max_failed_increase")
        or _more("finals are rejected", active.rejected_share, trial.rejected_share, limits,
                 "max_rejected_increase")
        or _more("finals contradict stable words", active.conflict_share, trial.conflict_share,
                 limits, "max_conflict_increase")
        or _slower(active, trial, limits)
        or _longer(active, trial, limits)
    )  # fmt: skip


def _more(what: str, active: float, trial: float, limits: Canary, key: str) -> str | None:
    allowed: float = getattr(limits, key)
    if trial - active <= allowed:
        return None
    return (
        f"{trial:.1%} of its {what}, {active:.1%} of the active model's; "
        f"{allowed:.1%} more are allowed (canary.{key})"
    )


def _slower(active: Counts, trial: Counts, limits: Canary) -> str | None:
    if active.latency is None or trial.latency is None:
        return None
    ratio = trial.latency / active.latency
    if ratio <= limits.max_latency_ratio:
        return None
    return (
        f"95 % of its updates take up to {1000 * trial.latency:.1f} ms, {ratio:.2f} times the "
        f"active model's; {limits.max_latency_ratio:g} times is allowed (canary.max_latency_ratio)"
    )


def _longer(active: Counts, trial: Counts, limits: Canary) -> str | None:
    usual, found = active.words_per_second, trial.words_per_second
    if usual is None or found is None:
        return None
    change = found / usual - 1
    if abs(change) <= limits.max_length_change:
        return None
    return (
        f"it writes {found:.2f} words a second, the active model {usual:.2f}; a difference of "
        f"{limits.max_length_change:.0%} is allowed (canary.max_length_change)"
    )
