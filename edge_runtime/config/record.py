"""All settings, one record a table of the file."""

from __future__ import annotations

import msgspec

from edge_runtime.config.admitting import Admitting
from edge_runtime.config.canary import Canary
from edge_runtime.config.computing import Computing
from edge_runtime.config.dialects import Dialects
from edge_runtime.config.guarding import Guarding
from edge_runtime.config.listening import Listening
from edge_runtime.config.microphones import Profile
from edge_runtime.config.power import Power
from edge_runtime.config.recovering import Recovering
from edge_runtime.config.serving import Serving
from edge_runtime.config.telemetry import Telemetry
from edge_runtime.config.updating import Updating


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything, one record a table of the TOML file.

    `given` has the "table.key" of what a file, a variable or an option said: that stands, also
    where something else was measured to suit. `microphones` has those that have a name of their
    own: a table [microphones.NAME] each.
    """

    serving: Serving = Serving()
    admitting: Admitting = Admitting()
    computing: Computing = Computing()
    recovering: Recovering = Recovering()
    listening: Listening = Listening()
    updating: Updating = Updating()
    guarding: Guarding = Guarding()
    canary: Canary = Canary()
    power: Power = Power()
    telemetry: Telemetry = Telemetry()
    dialects: Dialects = Dialects()
    microphones: dict[str, Profile] = msgspec.field(default_factory=dict)
    given: frozenset[str] = frozenset()


TABLES = Config.__struct_fields__[:-2]
"""The tables of the file, but for those of the microphones."""
