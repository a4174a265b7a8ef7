"""Where settings come from: a file, then variables, then a command line, each over the last."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from edge_runtime.config.microphones import Profile
from edge_runtime.config.record import TABLES, Config
from edge_runtime.config.serving import Serving
from edge_runtime.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Record = TypeVar("Record", bound=msgspec.Struct)

DEFAULT_PATH = Path("/etc/edge-runtime/config.toml")
PREFIX = "EDGE_RUNTIME_"
RESERVED = frozenset(
    {"EDGE_RUNTIME_CONFIG", "EDGE_RUNTIME_DEBUG", "EDGE_RUNTIME_KEY", "EDGE_RUNTIME_STORE"}
)
"""Variables that are not keys of the configuration."""


def load(
    path: str | Path | None = None,
    environ: Mapping[str, str] | None = None,
    options: Mapping[str, object] | None = None,
) -> Config:
    """The settings of a file, then of `EDGE_RUNTIME_…` variables, then of a command line.

    `path` is the TOML file (default: `$EDGE_RUNTIME_CONFIG`, else /etc/edge-runtime/config.toml
    where that exists). A variable is `EDGE_RUNTIME_<TABLE>_<KEY>`, or `EDGE_RUNTIME_<KEY>` for a
    key of `serving`. `options` maps "table.key", or a key of `serving`, to a value; `None` is
    not given. Raises `ConfigError` naming the place, the key and what would be right.
    """
    environ = os.environ if environ is None else environ
    chosen = path or environ.get("EDGE_RUNTIME_CONFIG") or None
    config = Config()
    if chosen is not None or DEFAULT_PATH.is_file():
        place = Path(chosen or DEFAULT_PATH)
        tables = _read(place)
        named = _microphones(tables.pop("microphones", {}), str(place))
        config = _given(msgspec.structs.replace(config, microphones=named), tables, str(place))
    # short names first, so that the full name of a key has the last word
    variables = sorted(environ, key=lambda name: (_is_full(name), name))
    config = _together(
        config,
        (
            (name, *_variable(name), environ[name])
            for name in variables
            if name.startswith(PREFIX) and name not in RESERVED
        ),
        strict=False,
    )
    config = _together(config, (_option(*each) for each in (options or {}).items()))
    return _first_of_models(config)


def unset(config: Config, settings: Mapping[str, float]) -> dict[str, float]:
    """Those of `settings`, by "table.key", that nobody gave another value."""
    return {name: value for name, value in settings.items() if name not in config.given}


def suited(config: Config, settings: Mapping[str, float], place: str) -> Config:
    """`config` with what was measured to suit, in the keys that nobody gave a value.

    `settings` maps "table.key" to a value, and comes from `place`. Raises `ConfigError` for a key
    that there is not, or a value out of its range.
    """
    tables: dict[str, dict[str, float]] = {}
    for name, value in unset(config, settings).items():
        table, _, key = name.partition(".")
        tables.setdefault(table, {})[key] = value
    return _merged(config, tables, place)


def nearest(word: str, known: Iterable[str]) -> str:
    """A sentence naming the known word most like `word`, or all of them."""
    known = sorted(known)
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"Did you mean {close[0]}?" if close else f"Known are {', '.join(known)}."


def _first_of_models(config: Config) -> Config:
    """With the first of the models that are listed as `model`, where nobody gave that."""
    listed = config.serving.listed
    if not listed or "serving.model" in config.given:
        return config
    serving = msgspec.structs.replace(config.serving, model=listed[0])
    return msgspec.structs.replace(config, serving=serving)


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist", "Check the path of --config.") from None
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}", "Give this user read permission."
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}", "Correct that line.") from None


def _microphones(tables: Any, place: str) -> dict[str, Profile]:
    named: dict[str, Profile] = {}
    for name, keys in tables.items() if isinstance(tables, Mapping) else [("NAME", tables)]:
        table = f"microphones.{name}"
        if not isinstance(keys, Mapping):
            raise ConfigError(f"{place}: {table} is not a table", "Write it as [microphones.NAME].")
        for key in keys:
            if key not in Profile.__struct_fields__:
                raise ConfigError(
                    f"{place}: unknown key {key} in [{table}]",
                    nearest(key, Profile.__struct_fields__),
                )
        named[name] = _converted(dict(keys), Profile, table, place)
    return named


def _is_full(name: str) -> bool:
    rest = name.removeprefix(PREFIX).lower()
    return any(rest.startswith(f"{table}_") for table in TABLES)


def _variable(name: str) -> tuple[str, str]:
    rest = name.removeprefix(PREFIX).lower()
    if rest in Serving.__struct_fields__:
        return "serving", rest
    for table, record in _records(Config()).items():
        key = rest.removeprefix(f"{table}_")
        if key in record.__struct_fields__ and key != rest:
            return table, key
    full = [
        f"{table}_{key}".upper()
        for table, record in _records(Config()).items()
        for key in record.__struct_fields__
    ]
    short = [key.upper() for key in Serving.__struct_fields__]
    hint = nearest(name.removeprefix(PREFIX), full + short)
    raise ConfigError(f"unknown variable {name}", f"After {PREFIX}: {hint}")


def _option(name: str, value: object) -> tuple[str, str, str, object]:
    table, _, key = name.rpartition(".")
    return f"option {key}", table or "serving", key, value


def _together(
    config: Config, settings: Iterable[tuple[str, str, str, object]], *, strict: bool = True
) -> Config:
    """`config` with settings of one origin, each (place, table, key, value); `None` is none.

    Those of a table are checked beside each other: some are right only together.
    """
    tables: dict[str, dict[str, object]] = {}
    places: dict[str, list[str]] = {}
    for place, table, key, value in settings:
        if value is not None:
            tables.setdefault(table, {})[key] = value
            places.setdefault(table, []).append(place)
    for table, keys in tables.items():
        config = _given(config, {table: keys}, ", ".join(places[table]), strict)
    return config


def _records(config: Config) -> dict[str, msgspec.Struct]:
    return {table: getattr(config, table) for table in TABLES}


def _given(config: Config, tables: Mapping[str, Any], place: str, strict: bool = True) -> Config:
    """As `_merged`; what came in so is known from then on."""
    merged = _merged(config, tables, place, strict)
    names = {f"{table}.{key}" for table, keys in tables.items() for key in keys}
    return msgspec.structs.replace(merged, given=merged.given | names)


def _merged(config: Config, tables: Mapping[str, Any], place: str, strict: bool = True) -> Config:
    """`config` with the keys of `tables` replaced; values are converted where not `strict`."""
    records = _records(config)
    for table, keys in tables.items():
        if table not in records:
            owners = [name for name, each in records.items() if table in each.__struct_fields__]
            raise ConfigError(
                f"{place}: unknown table [{table}]",
                f"It is a key: write it below [{owners[0]}]."
                if owners
                else nearest(table, records),
            )
        if not isinstance(keys, Mapping):
            raise ConfigError(f"{place}: {table} is not a table", f"Write it as [{table}].")
        record = records[table]
        for key in keys:
            if key not in record.__struct_fields__:
                raise ConfigError(
                    f"{place}: unknown key {key} in [{table}]",
                    nearest(key, record.__struct_fields__),
                )
        values = {**msgspec.structs.asdict(record), **keys}
        records[table] = _converted(values, type(record), table, place, strict)
    return msgspec.structs.replace(config, **records)


def _converted(
    values: Mapping[str, Any], kind: type[Record], table: str, place: str, strict: bool = True
) -> Record:
    try:
        return msgspec.convert(values, kind, strict=strict)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, ConfigError):  # a range, from __post_init__
            cause = error.__cause__
            raise ConfigError(f"{place}: {cause.message}", cause.fix) from None
        raise ConfigError(
            f"{place}: [{table}] {error}", "Give the key a value of that type."
        ) from None
