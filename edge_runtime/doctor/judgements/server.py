"""Settings, ports, keys and the certificate: whether the server would start, and let in whom."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone

from edge_runtime.doctor.base import Finding, error, ok, warning
from edge_runtime.doctor.facts import Certificate, Facts

SOON = 30 * 86_400.0
"""Seconds before its end from which a certificate is named."""


def settings(facts: Facts) -> Iterator[Finding]:
    """Can they be read, and used."""
    found = facts.settings
    if found is None:
        return
    if found.trouble:
        yield error("settings", found.trouble, "No command that reads them starts.", found.fix)
    else:
        yield ok("settings", found.path or "none given; every key has its default")


def ports(facts: Facts) -> Iterator[Finding]:
    """Is each free, or has our own server it."""
    found = facts.settings
    if found is None or found.trouble:
        return
    taken = [each for each in found.ports if each.owner and not each.ours]
    for port in taken:
        yield error(
            "ports",
            f"port {port.number} ({port.key}) is taken by {port.owner}",
            "Two programs cannot listen on one port: the server does not start.",
            f"sudo ss -ltnp 'sport = :{port.number}', then stop that program; or set {port.key}",
        )
    free = [f"{each.number}{' (our server)' if each.ours else ''}" for each in found.ports]
    if not taken and free:
        yield ok("ports", f"{', '.join(free)}: nobody else is there")


def keys(facts: Facts) -> Iterator[Finding]:
    """Needed as soon as other machines reach the server."""
    found = facts.settings
    if found is None or found.trouble:
        return
    if found.keys_trouble:
        yield error(
            "keys",
            found.keys_trouble,
            "Nobody can be let in by a key.",
            f"sudo chown edge-runtime {found.keys_file} (or the user that serves)",
        )
    elif found.local:
        yield ok("keys", "only this machine reaches the server")
    elif found.keys == "never":
        yield warning(
            "keys",
            f"the server listens on {found.host} and asks nobody for a key",
            "Every machine that reaches this address can use it.",
            'edge-runtime keys add NAME, and keys = "auto" in [admitting]',
        )
    elif not found.count:
        yield error(
            "keys",
            f"the server would listen on {found.host}, and there is no key",
            "It refuses to start: every machine that reaches this address could use it.",
            "edge-runtime keys add NAME",
        )
    else:
        yield ok("keys", f"{found.count} in {found.keys_file}")


def certificate(facts: Facts) -> Iterator[Finding]:
    """Its pair, its dates, and whether there is one where others listen in."""
    found, settled, system = facts.certificate, facts.settings, facts.system
    if found is None or settled is None or settled.trouble:
        return
    if not found.path:
        if not settled.local:
            yield warning(
                "certificate",
                f"the server listens on {settled.host} without TLS",
                "Keys and audio can be read on the way.",
                "edge-runtime tls self-signed, then tls_cert and tls_key in [admitting]",
            )
        return
    if found.trouble:
        yield error("certificate", found.trouble, "The server does not start.", found.fix)
    elif system is not None:
        yield _dated(found, system.now)


def _dated(found: Certificate, now: float) -> Finding:
    fix = "edge-runtime tls self-signed --again, or renew it with its authority"
    begins, ends = found.begins, found.ends
    if begins is not None and now < begins:
        return error(
            "certificate",
            f"{found.path} is valid only from {_date(begins)} on",
            "Clients refuse it until then; or the clock here is wrong.",
            "date, then sudo timedatectl set-ntp true",
        )
    if ends is None:
        return ok("certificate", f"{found.path}; without openssl its end cannot be told")
    if now >= ends:
        why = "Clients refuse it."
        return error("certificate", f"{found.path} ended on {_date(ends)}", why, fix)
    if ends - now < SOON:
        why = "Clients refuse it from then on."
        return warning("certificate", f"{found.path} ends on {_date(ends)}", why, fix)
    return ok("certificate", f"{found.path}, good until {_date(ends)}")


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d")
