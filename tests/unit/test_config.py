"""Settings from a file, from variables and from a command line."""

from __future__ import annotations

import msgspec
import pytest

from edge_runtime.config import (
    TABLES,
    Computing,
    Config,
    Guarding,
    Listening,
    Profile,
    Serving,
    Updating,
    layers,
    load,
    suited,
    unset,
)
from edge_runtime.errors import ConfigError


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "config.toml"
        path.write_text(text)
        return path

    return write


def values(config):
    """The tables alone, whoever wrote them."""
    return msgspec.structs.replace(config, given=frozenset())


@pytest.fixture(autouse=True)
def _no_machine_wide_file(monkeypatch, tmp_path):
    monkeypatch.setattr(layers, "DEFAULT_PATH", tmp_path / "absent.toml")


def test_every_key_has_a_default():
    assert load(environ={}) == Config()


def test_a_file_is_read(file):
    read = load(file("[serving]\nport = 9000\n[listening]\nstrong = 0.9\ncap_ms = 12000\n"), {})
    wanted = Config(serving=Serving(port=9000), listening=Listening(strong=0.9, cap_ms=12000))
    assert values(read) == wanted
    assert read.given == {"serving.port", "listening.strong", "listening.cap_ms"}


def test_what_was_measured_to_suit_gives_way_to_what_was_said(file):
    path = file("[listening]\nthreshold = 0.5\n")
    suits = {"listening.threshold": 0.6, "listening.release": 0.3, "guarding.compression": 3.0}
    environ = {"EDGE_RUNTIME_GUARDING_COMPRESSION": "2.5"}
    read = suited(load(path, environ), suits, "a variant")
    assert read.listening == Listening(threshold=0.5, release=0.3)
    assert read.guarding.compression == 2.5
    assert unset(read, suits) == {"listening.release": 0.3}
    assert suited(Config(), suits, "a variant").guarding == Guarding(compression=3.0)
    assert suited(load(environ={}, options={"listening.release": 0.2}), suits, "").given == {
        "listening.release"
    }


def test_whole_numbers_are_taken_for_floats(file):
    assert load(file("[updating]\nhop_factor = 4\n"), {}).updating.hop_factor == 4.0


def test_the_machine_wide_file_is_used_where_it_exists(file, monkeypatch):
    monkeypatch.setattr(layers, "DEFAULT_PATH", file("[serving]\nport = 9001\n"))
    assert load(environ={}).serving.port == 9001


def test_a_variable_names_the_file(file):
    path = file("[serving]\nport = 9002\n")
    assert load(environ={"EDGE_RUNTIME_CONFIG": str(path)}).serving.port == 9002


def test_variables_override_the_file_and_options_the_variables(file):
    path = file("[serving]\nport = 9000\nhost = '::1'\nmax_sessions = 3\n")
    environ = {"EDGE_RUNTIME_PORT": "9001", "EDGE_RUNTIME_SERVING_MAX_SESSIONS": "4"}
    read = load(path, environ, {"port": 9002, "host": None})
    assert (read.serving.port, read.serving.host, read.serving.max_sessions) == (9002, "::1", 4)


@pytest.mark.parametrize("listed", ['languages = ["de", "en"]', 'languages = "de, en"'])
def test_names_are_a_list_or_have_commas_between_them(file, listed):
    assert load(file(f"[serving]\n{listed}\n")).serving.spoken == ("de", "en")


def test_the_full_name_of_a_variable_wins_over_the_short_one():
    environ = {"EDGE_RUNTIME_SERVING_PORT": "9001", "EDGE_RUNTIME_PORT": "9000"}
    assert load(environ=environ).serving.port == 9001


@pytest.mark.parametrize(
    ("table", "key"),
    [(table, key) for table in TABLES for key in type(getattr(Config(), table)).__struct_fields__],
)
def test_every_key_is_a_variable(table, key):
    value = getattr(getattr(Config(), table), key)
    read = load(environ={f"EDGE_RUNTIME_{table}_{key}".upper(): str(value)})
    assert values(read) == Config()
    assert read.given == {f"{table}.{key}"}
    if value == "":  # a path, say: whatever it is, it is only known where it is used
        return
    wrong = "" if isinstance(value, str) else "-999999"
    with pytest.raises(ConfigError, match=key):
        load(environ={f"EDGE_RUNTIME_{table}_{key}".upper(): wrong})


def test_variables_and_options_that_are_right_only_together_are_taken():
    names = "EDGE_RUNTIME_LISTENING_CAP_MS", "EDGE_RUNTIME_LISTENING_SEARCH_MS"
    read = load(environ=dict(zip(names, ("3000", "1000"), strict=True)))
    assert (read.listening.cap_ms, read.listening.search_ms) == (3000, 1000)
    given = {"listening.cap_ms": 3000, "listening.search_ms": 1000}
    assert load(environ={}, options=given) == read
    assert suited(Config(), given, "here").listening == read.listening
    with pytest.raises(ConfigError, match=f"{names[0]}, {names[1]}: .*search_ms"):
        load(environ=dict.fromkeys(names, "3000"))


def test_other_programs_variables_are_none_of_ours():
    environ = {
        "PORT": "1", "EDGE_RUNTIME_STORE": "/x", "EDGE_RUNTIME_DEBUG": "1", "EDGE": "2",
    }  # fmt: skip
    assert load(environ=environ) == Config()


@pytest.mark.parametrize(
    ("text", "message", "fix"),
    [
        ("[serving]\nprot = 1\n", "unknown key prot in [serving]", "Did you mean port?"),
        ("[listenning]\n", "unknown table [listenning]", "Did you mean listening?"),
        ("[x]\n", "unknown table [x]", "Known are admitting, "),
        ("serving = 3\n", "serving is not a table", "[serving]"),
        ("port = 3\n", "unknown table [port]", "serving"),
        ("[serving]\nport = 'x'\n", "[serving] Expected `int`, got `str` - at `$.port`", "type"),
        ("[serving]\nport = '9000'\n", "[serving] Expected `int`, got `str`", "type"),
        ("[serving]\nport = 65536\n", "serving.port is 65536", "0 to 65535"),
        ("[serving]\nhost = ''\n", "serving.host is empty", "default"),
        ("[admitting]\nkeys = 'maybe'\n", "admitting.keys is 'maybe'", "auto, always, never"),
        ("[admitting]\norigins = 'kiosk'\n", "admitting.origins has 'kiosk'", "https://"),
        ("[admitting]\ntls_key = 'k'\n", "tls_key is given without tls_cert", "certificate"),
        ("[computing]\ngather = 'dma'\n", "computing.gather is 'dma'", "copy, kernel"),
        ("[computing]\ngraphs = 1\n", "[computing] Expected `bool`, got `int`", "type"),
        ("[listening]\nthreshold = nan\n", "listening.threshold is nan", "0.01 to 0.99"),
        ("[listening]\ncap_ms = 3000\n", "search_ms (4000) reaches past cap_ms", "smaller"),
        ("[serving\n", "is not TOML", "line"),
        ("\udcff", "is not TOML", "line"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path, text, message, fix):
    path = tmp_path / "wrong.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError) as caught:
        load(path, {})
    assert str(path) in caught.value.message
    assert message in caught.value.message
    assert fix in caught.value.fix


@pytest.mark.parametrize(
    ("name", "value", "message", "fix"),
    [
        ("EDGE_RUNTIME_PROT", "1", "EDGE_RUNTIME_PROT", "PORT"),
        ("EDGE_RUNTIME_LISTENING_CAPMS", "1", "LISTENING_CAPMS", "LISTENING_CAP_MS"),
        ("EDGE_RUNTIME_PORT", "x", "EDGE_RUNTIME_PORT", "type"),
        ("EDGE_RUNTIME_PORT", "-1", "EDGE_RUNTIME_PORT: serving.port is -1", "0 to 65535"),
        ("EDGE_RUNTIME_CAP_MS", "9000", "unknown variable", "CAP_MS"),
    ],
)
def test_what_is_wrong_in_a_variable_is_named(name, value, message, fix):
    with pytest.raises(ConfigError) as caught:
        load(environ={name: value})
    assert message in caught.value.message
    assert fix in caught.value.fix


def test_a_file_that_is_missing_or_unreadable_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.toml does not exist"):
        load(tmp_path / "none.toml", {})
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path, {})


def test_an_unknown_option_is_named():
    with pytest.raises(ConfigError, match="unknown key prt"):
        load(environ={}, options={"prt": 1})
    assert load(environ={}, options={"updating.hop_ms": 300}).updating.hop_ms == 300


@pytest.mark.parametrize(
    ("record", "values"),
    [
        (Serving, {"max_sessions": 0}),
        (Computing, {"precision": "int4"}),
        (Computing, {"priority": 1}),
        (Serving, {"max_message_bytes": 1 << 30}),
        (Serving, {"languages": "de, english"}),
        (Serving, {"resume_seconds": float("nan")}),
        (Listening, {"evidence": 0}),
        (Updating, {"hop_ms": 1}),
        (Updating, {"stable_logprob": 0.1}),
        (Guarding, {"compression": 0.0}),
    ],
)
def test_records_are_checked_when_made(record, values):
    with pytest.raises(ConfigError) as caught:
        record(**values)
    assert next(iter(values)) in caught.value.message
    with pytest.raises(AttributeError):
        setattr(record(), next(iter(values)), 1)


def test_records_stay_small():
    for record in (Serving, Computing, Listening, Updating, Guarding):
        assert issubclass(record, msgspec.Struct)
        assert len(record.__struct_fields__) <= 12


def test_microphones_have_tables_of_their_own(file):
    path = file(
        '[microphones.desk]\ndevice = "Array"\nchannel = 2\n[microphones.default]\ngain_db = 6\n'
    )
    assert load(path, {}).microphones == {
        "desk": Profile(device="Array", channel=2),
        "default": Profile(gain_db=6.0),
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[microphones.desk]\nchanel = 2\n", r"unknown key chanel in \[microphones.desk\]"),
        ("[microphones.desk]\nchannel = 'two'\n", r"\[microphones.desk\] Expected `int`"),
        ("[microphones.desk]\nrate = 100\n", r"rate is 100"),
        ("[microphones.desk]\ngain_db = 41.0\n", r"gain_db is 41"),
        ("[microphones]\ndesk = 'USB'\n", "microphones.desk is not a table"),
        ("microphones = 'USB'\n", "microphones.NAME is not a table"),
    ],
)
def test_a_microphone_that_is_described_wrong(file, text, said):
    path = file(text)
    with pytest.raises(ConfigError, match=said) as caught:
        load(path, {})
    assert caught.value.fix
