"""Settings: a few small frozen records, checked when made; every key has a default."""

from __future__ import annotations

from edge_runtime.config.admitting import Admitting
from edge_runtime.config.canary import Canary
from edge_runtime.config.computing import Computing
from edge_runtime.config.dialects import Dialects
from edge_runtime.config.guarding import Guarding
from edge_runtime.config.layers import RESERVED, load, nearest, suited, unset
from edge_runtime.config.listening import CAP_MS_MIN, Listening
from edge_runtime.config.microphones import Profile
from edge_runtime.config.power import Power
from edge_runtime.config.record import TABLES, Config
from edge_runtime.config.recovering import Recovering
from edge_runtime.config.serving import Serving
from edge_runtime.config.telemetry import Telemetry
from edge_runtime.config.updating import Updating

__all__ = [
    "CAP_MS_MIN",
    "RESERVED",
    "TABLES",
    "Admitting",
    "Canary",
    "Computing",
    "Config",
    "Dialects",
    "Guarding",
    "Listening",
    "Power",
    "Profile",
    "Recovering",
    "Serving",
    "Telemetry",
    "Updating",
    "load",
    "nearest",
    "suited",
    "unset",
]
