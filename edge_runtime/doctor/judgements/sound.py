"""Microphones: is there one, and may this user record."""

from __future__ import annotations

from collections.abc import Iterator

from edge_runtime.doctor.base import Finding, ok, warning
from edge_runtime.doctor.facts import Facts


def sound(facts: Facts) -> Iterator[Finding]:
    """None is fine: audio may come over the network."""
    found, inputs, user = facts.sound, facts.inputs, facts.user
    if found is None or user is None:
        return
    shut = [node for node in found.nodes if not node.usable]
    if shut and not (inputs is not None and inputs.names):
        yield _shut(user.name, shut[0].path, found.member)
    elif not found.nodes:
        yield ok("sound", "no card that records; audio comes from files and clients")
    elif inputs is not None and inputs.trouble:
        yield warning(
            "sound",
            "there is a card that records, and the program cannot use it",
            inputs.trouble,
            inputs.fix.removeprefix("Run: "),
        )
    else:
        names = inputs.names if inputs is not None else ()
        yield ok("sound", _some(names or found.cards))


def _shut(user: str, path: str, member: bool) -> Finding:
    if member:
        return warning(
            "sound",
            f"{user} is in group audio, and this session does not know it yet",
            f"Groups are given at login, so {path} stays closed until the next one.",
            "Log in again; for a service: sudo systemctl restart edge-runtime",
        )
    return warning(
        "sound",
        f"{user} may not record: it is not in group audio",
        f"{path} is for that group; ALSA then says that there is no sound card at all.",
        f"sudo usermod -aG audio {user}, then log in again",
    )


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more}"
