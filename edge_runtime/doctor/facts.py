"""What the probes found: records of plain values, which judgements read and JSON carries."""

from __future__ import annotations

import msgspec

Capability = tuple[int, int]


class _Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Python(_Record, frozen=True, kw_only=True):
    """The interpreter, and its folder; `system_site` is whether it sees the system's packages."""

    version: tuple[int, int, int]
    machine: str = "x86_64"
    prefix: str = "/usr"
    venv: bool = False
    system_site: bool = True


class User(_Record, frozen=True, kw_only=True):
    """Who asks: `groups` are the numbers that the process has."""

    name: str
    uid: int
    groups: tuple[int, ...] = ()


class Node(_Record, frozen=True, kw_only=True):
    """A file under /dev; `group` is the name of its group, `usable` by who asks."""

    path: str
    group: str = ""
    usable: bool = True


class Jetson(_Record, frozen=True, kw_only=True):
    """`l4t` is empty on other machines; `packages` are NVIDIA's of dpkg, by name.

    `jtop` is the version of jetson-stats, empty without it, and `jtop_knows` whether its list of
    releases has this L4T. `mode` is the power mode, `share` the part of the GPU's clock it allows.
    """

    model: str = ""
    l4t: str = ""
    packages: dict[str, str] = {}
    jtop: str = ""
    jtop_knows: bool = True
    mode: str = ""
    share: float | None = None


class Gpu(_Record, frozen=True, kw_only=True):
    """What files tell: the driver's `nodes`, whether there is a `card` on the bus, its `driver`.

    `groups` are those that the user is in by /etc/group, also where he has not logged in since.
    """

    nodes: tuple[Node, ...] = ()
    card: bool = False
    driver: str = ""
    hidden: bool = False


class Card(_Record, frozen=True, kw_only=True):
    """What CUDA tells, or in `trouble` why it does not."""

    name: str = ""
    capability: Capability | None = None
    trouble: str = ""
    fix: str = ""


class Loaded(_Record, frozen=True, kw_only=True):
    """A library that was loaded: in `trouble` why it was not, both empty where there is none."""

    flavour: str = ""
    version: str = ""
    trouble: str = ""
    providers: tuple[str, ...] = ()


class Packages(_Record, frozen=True, kw_only=True):
    """Python packages by name, and what the GPU part of onnxruntime's wheel says of itself.

    `provider` is whether there is such a part, `needed` the libraries it loads, `cubins`, `ptx`
    and `alone` what its kernels are for, as `fatbin` has it. `libraries` are those of NVIDIA's that
    a loader finds here.
    """

    installed: dict[str, str] = {}
    provider: bool = False
    needed: tuple[str, ...] = ()
    cubins: tuple[Capability, ...] = ()
    ptx: tuple[Capability, ...] = ()
    alone: tuple[Capability, ...] = ()
    libraries: tuple[str, ...] = ()
    unread: str = ""


class Sound(_Record, frozen=True, kw_only=True):
    """`cards` are those of ALSA, `nodes` what records of them; `member` of audio by /etc/group."""

    cards: tuple[str, ...] = ()
    nodes: tuple[Node, ...] = ()
    member: bool = False


class Inputs(_Record, frozen=True, kw_only=True):
    """Microphones as the program sees them."""

    names: tuple[str, ...] = ()
    trouble: str = ""
    fix: str = ""


class Model(_Record, frozen=True, kw_only=True):
    """A model that the server needs; `trouble` is empty where it is there whole."""

    name: str
    trouble: str = ""
    fix: str = ""


class Engine(_Record, frozen=True, kw_only=True):
    """An engine of the store; `unlike` is what of it, but for library and GPU, is not as wanted."""

    model: str
    fingerprint: str
    tensorrt: str
    version: str
    target: tuple[str, ...]
    precision: str = "fp16"
    split: tuple[int, ...] = ()
    unlike: tuple[str, ...] = ()
    damage: str = ""


class Store(_Record, frozen=True, kw_only=True):
    """The store; `free` and `size` are bytes of its disk, `precisions` those that serve.

    `service` is whether there is another store, of the service, that this user may not write.
    """

    root: str
    exists: bool = True
    writable: bool = True
    free: int = 0
    size: int = 0
    models: tuple[Model, ...] = ()
    engines: tuple[Engine, ...] = ()
    precisions: tuple[str, ...] = ("fp16",)
    service: bool = False


class Port(_Record, frozen=True, kw_only=True):
    """A port that is configured, and who listens there: empty is nobody."""

    number: int
    key: str = "serving.port"
    owner: str = ""
    ours: bool = False


class Settings(_Record, frozen=True, kw_only=True):
    """What of the settings matters here; `trouble` says why they cannot be used."""

    path: str = ""
    trouble: str = ""
    fix: str = ""
    device: str = "auto"
    model: str = "moonshine-tiny-en"
    reader: str = "sysfs"
    host: str = "127.0.0.1"
    local: bool = True
    keys: str = "auto"
    keys_file: str = ""
    count: int = 0
    keys_trouble: str = ""
    certificate: str = ""
    ports: tuple[Port, ...] = ()


class Certificate(_Record, frozen=True, kw_only=True):
    """`begins` and `ends` are seconds since 1970."""

    path: str = ""
    begins: float | None = None
    ends: float | None = None
    trouble: str = ""
    fix: str = ""


class System(_Record, frozen=True, kw_only=True):
    """Memory in bytes; `now` and `newest`, a date that must be past, in seconds since 1970.

    `synchronised` is None where nothing tells.
    """

    memory: int = 0
    available: int = 0
    now: float = 0.0
    newest: float = 0.0
    synchronised: bool | None = None


class Facts(_Record, frozen=True, kw_only=True):
    """All of it; None is a probe that did not end, and `troubles` says how it did by its name."""

    python: Python | None = None
    user: User | None = None
    jetson: Jetson | None = None
    gpu: Gpu | None = None
    card: Card | None = None
    packages: Packages | None = None
    tensorrt: Loaded | None = None
    pycuda: Loaded | None = None
    onnxruntime: Loaded | None = None
    sound: Sound | None = None
    inputs: Inputs | None = None
    settings: Settings | None = None
    certificate: Certificate | None = None
    store: Store | None = None
    system: System | None = None
    troubles: dict[str, str] = {}
