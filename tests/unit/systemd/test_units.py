"""The files of the service in a staged system, and how closed the units are."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from edge_runtime.config import load
from edge_runtime.errors import ServiceError
from edge_runtime.systemd import units

PROGRAM = "/opt/somewhere/bin/edge-runtime"
NEEDED = ("systemctl", "systemd-sysusers", "systemd-tmpfiles", "userdel")


def service(*arguments: str) -> subprocess.CompletedProcess:
    line = [sys.executable, "-m", "edge_runtime", "service", *arguments]
    return subprocess.run(line, capture_output=True, text=True, check=False)


@pytest.fixture
def staged(tmp_path) -> Path:
    """A system of two files, into which the service can be installed."""
    if missing := [name for name in NEEDED if shutil.which(name) is None]:
        pytest.skip(f"{missing[0]} is not here: apt-get install systemd passwd")
    if os.geteuid() != 0:
        pytest.skip("only root makes users and folders of others: sudo tools/test")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (tmp_path / "etc" / "group").write_text("root:x:0:\n")
    return tmp_path


def files(root: Path) -> set[str]:
    found = (path for path in root.rglob("*") if path.is_symlink() or path.is_file())
    # what tools of users and groups leave beside their files
    return {
        str(path.relative_to(root))
        for path in found
        if not re.search(r"shadow|passwd|group|\.lock", path.name)
    }


def test_an_install_is_whole_and_an_uninstall_leaves_nothing(staged) -> None:
    (staged / "etc/tmpfiles.d").mkdir()  # as Debian has it; it has no sysusers.d
    done = service("install", "--root", str(staged), "--program", PROGRAM)
    assert done.returncode == 0, done.stderr
    written = [*units.OURS.values(), *units.SETTINGS.values()]
    started = "etc/systemd/system/multi-user.target.wants/edge-runtime.service"
    assert files(staged) == {str(place.relative_to("/")) for place in written} | {started}

    unit = (staged / "etc/systemd/system/edge-runtime.service").read_text()
    assert f"ExecStart={PROGRAM} serve" in unit
    assert units.WRITTEN_FOR not in unit
    passwd = (staged / "etc/passwd").read_text()
    (uid,) = re.findall(
        r"^edge-runtime:x:(\d+):\d+:.*:/var/lib/edge-runtime:.*nologin$", passwd, re.M
    )
    store = (staged / "var/lib/edge-runtime").stat()
    assert (store.st_uid, store.st_mode & 0o777) == (int(uid), 0o755)

    env = staged / "etc/edge-runtime/edge-runtime.env"
    env.write_text("EDGE_RUNTIME_PORT=9000\n")
    again = service("install", "--socket", "--root", str(staged), "--program", PROGRAM)
    assert again.returncode == 0, again.stderr
    assert env.read_text() == "EDGE_RUNTIME_PORT=9000\n"
    assert "etc/systemd/system/sockets.target.wants/edge-runtime.socket" in files(staged)

    kept = service("uninstall", "--keep", "--root", str(staged))
    assert kept.returncode == 0, kept.stderr
    assert "kept:" in kept.stdout
    assert files(staged) == {"etc/edge-runtime/edge-runtime.env", "etc/edge-runtime/config.toml"}
    assert not (staged / "etc/sysusers.d").exists()
    assert (staged / "etc/tmpfiles.d").is_dir()

    gone = service("uninstall", "--purge", "--root", str(staged))
    assert gone.returncode == 0, gone.stderr
    assert files(staged) == set()
    assert not (staged / "var/lib/edge-runtime").exists()
    assert "edge-runtime" not in (staged / "etc/passwd").read_text()
    assert "edge-runtime" not in (staged / "etc/group").read_text()


@pytest.mark.skipif(Path("/run/systemd/system").is_dir(), reason="systemd runs this machine")
@pytest.mark.parametrize("command", ["install", "uninstall", "status"])
def test_without_systemd_it_says_so(command) -> None:
    if os.geteuid() != 0 and command != "status":
        pytest.skip("that only root may is said before")
    done = service(command)
    assert done.returncode == 1
    assert done.stderr.startswith("error: systemd does not run this machine\nfix:   In a container")


def test_others_than_root_are_refused(monkeypatch) -> None:
    from edge_runtime.systemd import control

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ServiceError, match="only root") as caught:
        control.check_root()
    assert "sudo" in caught.value.fix


def test_an_installation_that_the_service_cannot_see_is_refused(tmp_path) -> None:
    program = tmp_path / "bin" / "edge-runtime"
    program.parent.mkdir(mode=0o755)
    program.touch()
    program.parent.chmod(0o700)  # where the tests lie may be a folder for everybody
    with pytest.raises(
        ServiceError, match=rf"cannot see .*: {folder_of(tmp_path)} is closed to it"
    ):
        units.check_reachable(program)


def folder_of(path: Path) -> str:
    """What is closed of it: a folder that the unit hides, else one that others may not enter."""
    hidden = [each for each in ("/home", "/root", "/tmp", "/var/tmp") if path.is_relative_to(each)]
    return hidden[0] if hidden else r"\S+"


def staged_units(folder: Path) -> list[str]:
    """Each unit with a program that is there, or that would be all that is said."""
    here = shutil.which("true")
    for name in units.UNITS:
        text = (units.folder() / name).read_text()
        (folder / name).write_text(text.replace(units.WRITTEN_FOR, here))
    return [str(folder / name) for name in units.UNITS]


def analyze(*arguments: str) -> subprocess.CompletedProcess:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not here: apt-get install systemd")
    line = ["systemd-analyze", *arguments]
    return subprocess.run(line, capture_output=True, text=True, check=False)


def test_systemd_has_nothing_against_any_unit(tmp_path) -> None:
    done = analyze("verify", "--man=no", *staged_units(tmp_path))
    assert (done.stderr, done.returncode) == ("", 0)


@pytest.mark.parametrize("name", [units.SERVICE, units.BUILD])
def test_a_unit_is_closed_but_for_what_it_says(name, tmp_path) -> None:
    staged_units(tmp_path)
    done = analyze("security", "--offline=true", "--no-pager", str(tmp_path / name))
    if "Unknown" in done.stderr or "unrecognized option" in done.stderr:
        pytest.skip("this systemd-analyze judges no files: it takes systemd 250")
    (level,) = re.findall(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert float(level) <= 2.0, done.stdout


def test_the_unit_and_the_program_agree_on_the_socket_and_the_example_is_a_configuration() -> None:
    from edge_runtime.server.address import MAIN

    socket = (units.folder() / units.SOCKET).read_text()
    assert f"\nFileDescriptorName={MAIN}\n" in socket
    assert "\nListenStream=127.0.0.1:8765\n" in socket
    example = (units.folder() / "config.toml").read_text()
    shown = re.sub(r"^#(?! )", "", example, flags=re.M)
    assert "\n[serving]\nport = 8765\n" in shown


def test_every_line_of_the_example_is_a_setting(tmp_path) -> None:
    example = (units.folder() / "config.toml").read_text()
    path = tmp_path / "config.toml"
    path.write_text(re.sub(r"^#(?=\S)", "", example, flags=re.M))
    config = load(path, environ={})
    assert (config.serving.max_sessions, config.dialects.wyoming_port) == (32, 10300)
