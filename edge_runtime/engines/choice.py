"""Which variants of a model are in use: the one that serves, the one on trial, those before."""

from __future__ import annotations

import msgspec

from edge_runtime.engines import manifest
from edge_runtime.engines.store import Store
from edge_runtime.errors import ModelDamaged

CHOICE = "active.json"
"""The file that says which variant of a model serves."""

_KEPT = 8  # what served before


class Choice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fingerprints of a model's variants; None is the model in full precision.

    `before` is what was active earlier, the latest last; `rejected` says why a variant that
    was on trial is not any more.
    """

    active: str | None = None
    candidate: str | None = None
    before: tuple[str | None, ...] = ()
    rejected: dict[str, str] = {}

    def promoted(self, fingerprint: str) -> Choice:
        """With that one active, and what was active before remembered."""
        chosen = self._free(fingerprint)
        if fingerprint == self.active:
            return chosen
        before = (*self.before, self.active)[-_KEPT:]
        return msgspec.structs.replace(chosen, active=fingerprint, before=before)

    def tried(self, fingerprint: str) -> Choice:
        """With that one on trial; the one that is active already is on none."""
        chosen = self._free(fingerprint)
        if fingerprint == self.active:
            return chosen
        return msgspec.structs.replace(chosen, candidate=fingerprint)

    def denied(self, fingerprint: str, why: str) -> Choice:
        """With the trial of that one ended."""
        chosen = self._free(fingerprint)
        return msgspec.structs.replace(chosen, rejected={**chosen.rejected, fingerprint: why})

    def back(self) -> Choice:
        """With what was before active again, at last the model in full precision."""
        *before, was = self.before or (None,)
        return msgspec.structs.replace(self, active=was, before=tuple(before))

    def without(self, fingerprint: str) -> Choice:
        """As if that one had never been: where it was active, what was so before is."""
        chosen = self.back() if self.active == fingerprint else self
        before = tuple(each for each in chosen.before if each != fingerprint)
        if chosen.active == fingerprint:
            return msgspec.structs.replace(chosen, before=before).without(fingerprint)
        while before and before[-1] == chosen.active:
            before = before[:-1]
        return msgspec.structs.replace(chosen._free(fingerprint), before=before)

    def _free(self, fingerprint: str) -> Choice:
        """With that one neither on trial nor rejected."""
        candidate = None if self.candidate == fingerprint else self.candidate
        rejected = {each: why for each, why in self.rejected.items() if each != fingerprint}
        return msgspec.structs.replace(self, candidate=candidate, rejected=rejected)

    def state(self, fingerprint: str) -> str:
        """What that one is: "active", "candidate", "rejected: why", or "not used"."""
        if fingerprint in (self.active, self.candidate):
            return "active" if fingerprint == self.active else "candidate"
        why = self.rejected.get(fingerprint)
        return "not used" if why is None else f"rejected: {why}"


def read(store: Store, model: str) -> Choice:
    """Which variants of the model are in use; raises `ModelDamaged`."""
    path = store.root / model / CHOICE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Choice)
    except FileNotFoundError:
        return Choice()
    except (OSError, msgspec.MsgspecError) as error:
        raise ModelDamaged(
            f"{path}: {error}", f"Delete it, then run: edge-runtime engines promote {model} FP"
        ) from error


def write(store: Store, model: str, chosen: Choice) -> None:
    """Write which variants are in use through to the disk; hold its lock.

    Raises `StoreUnwritable`.
    """
    path = store.root / model / CHOICE
    part = path.with_name(f".{CHOICE}.part")
    with store.writing():
        part.write_bytes(msgspec.json.format(msgspec.json.encode(chosen)) + b"\n")
        manifest.sync(part)
        part.replace(path)
        manifest.sync(path.parent)
