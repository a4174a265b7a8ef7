"""What probes read of files: a port's owner, keys, a certificate, a store, libraries."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time

import pytest

from edge_runtime.doctor.facts import Node
from edge_runtime.doctor.machine import Machine
from edge_runtime.doctor.probes.certificate import certificate
from edge_runtime.doctor.probes.gpu import gpu
from edge_runtime.doctor.probes.jetson import jetson, packages
from edge_runtime.doctor.probes.packages import packages as wheels
from edge_runtime.doctor.probes.settings import settings
from edge_runtime.doctor.probes.store import store
from edge_runtime.doctor.probes.system import system
from edge_runtime.doctor.recorded import RecordedMachine
from edge_runtime.server.keys import Keys
from tests.unit.doctor.recording import library, machine

CONFIG = "etc/edge-runtime/config.toml"
LINE = "0: 0100007F:{port:04X} 00000000:0000 {state} 0:0 00:0 0 {uid} 0 {inode} 1\n"


@pytest.fixture
def pc(tmp_path):
    return machine("pc", tmp_path / "pc")


@pytest.fixture
def orin(tmp_path):
    return machine("orin-jetpack-6", tmp_path / "orin")


def write(root, path, text):
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def listening(root, inode=77, uid=1000, port=9000, state="0A"):
    line = LINE.format(port=port, state=state, uid=uid, inode=inode)
    write(root, "proc/net/tcp", "  sl  local_address\n" + line)


def process(root, pid, command, inode=77):
    write(root, f"proc/{pid}/cmdline", command.replace(" ", "\0"))
    (root / f"proc/{pid}/fd").mkdir()
    (root / f"proc/{pid}/fd/3").symlink_to(f"socket:[{inode}]")


def port(root, config=""):
    (found,) = settings(RecordedMachine(root), config).ports
    return found.owner, found.ours


def test_a_free_port_has_no_owner(pc):
    assert port(pc) == ("", False)
    listening(pc, state="01")  # a connection from that port, not a listener
    assert port(pc) == ("", False)


def test_a_port_is_somebodys(pc):
    listening(pc)
    process(pc, 812, "/usr/bin/python3 -m http.server 9000")
    assert port(pc) == ("/usr/bin/python3 -m http.server 9000 (pid 812)", False)


def test_a_port_is_our_own_servers(pc):
    listening(pc)
    process(pc, 812, "/opt/edge-runtime/bin/python3 /opt/edge-runtime/bin/edge-runtime serve")
    assert port(pc)[1] is True


def test_a_port_of_another_user_is_told_by_the_socket(pc):
    listening(pc, uid=998)
    write(pc, "etc/passwd", "root:x:0:0:::\nedge-runtime:x:998:998:::\n")
    assert port(pc) == ("a program of user edge-runtime", True)
    listening(pc, uid=0)
    assert port(pc) == ("a program of user root", False)
    wants = pc / "etc/systemd/system/sockets.target.wants"
    wants.mkdir(parents=True)
    (wants / "edge-runtime.socket").symlink_to("/etc/systemd/system/edge-runtime.socket")
    assert port(pc) == ("systemd, for our server", True)


def test_ports_of_dialects_are_looked_at(pc):
    write(pc, CONFIG, "[serving]\nport = 0\n[dialects]\nvosk_port = 2700\n")
    listening(pc, port=2700)
    (found,) = settings(RecordedMachine(pc), "").ports
    assert (found.key, found.number, bool(found.owner)) == ("dialects.vosk_port", 2700, True)


def test_a_real_listener_of_this_machine_is_found():
    with socket.create_server(("127.0.0.1", 0)) as server:
        number = server.getsockname()[1]
        found = settings(Machine(environ={"EDGE_RUNTIME_PORT": str(number)}), "").ports[0]
    assert f"(pid {os.getpid()})" in found.owner
    assert not found.ours


def test_settings_that_cannot_be_used(pc, tmp_path):
    write(pc, CONFIG, "[serving]\nprot = 1\n")
    found = settings(RecordedMachine(pc), "")
    assert "unknown key prot" in found.trouble
    assert "port" in found.fix
    given = settings(RecordedMachine(pc), str(tmp_path / "none.toml"))
    assert "does not exist" in given.trouble


def test_keys_are_counted_and_not_told(pc):
    write(pc, CONFIG, '[serving]\nhost = "0.0.0.0"\n')
    key = Keys(pc / "var/lib/edge-runtime/keys/keys.json").add("phone")
    found = settings(RecordedMachine(pc), "")
    assert (found.count, found.local) == (1, False)
    assert key not in str(found)
    assert "phone" not in str(found)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_dates_of_a_certificate(pc, tmp_path):
    made = [str(tmp_path / "key.pem"), str(tmp_path / "cert.pem")]
    curve = "ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=x -days 20"
    line = ["openssl", "req", "-x509", "-newkey", *curve.split(), "-keyout", made[0]]
    subprocess.run([*line, "-out", made[1]], check=True, capture_output=True)
    write(pc, CONFIG, f'[admitting]\ntls_cert = "{made[1]}"\ntls_key = "{made[0]}"\n')
    found = certificate(RecordedMachine(pc), "")
    assert found.ends - found.begins == 20 * 86_400
    assert abs(found.begins - time.time()) < 120
    write(pc, CONFIG, f'[admitting]\ntls_cert = "{made[1]}"\ntls_key = "{made[1]}"\n')
    broken = certificate(RecordedMachine(pc), "")
    assert "cannot be used with the key" in broken.trouble
    assert broken.ends is None


def test_only_installed_packages_of_nvidia_are_kept(orin):
    found = jetson(RecordedMachine(orin), "").packages
    assert found["libcudnn9-cuda-12"] == "9.3.0.75-1"
    assert "libcudnn8" not in found  # removed, and its settings left
    assert "bash" not in found
    assert packages("") == {}


def test_the_card_on_the_bus(pc):
    assert gpu(RecordedMachine(pc), "").card is False
    write(pc, "sys/bus/pci/devices/0000:01:00.1/vendor", "0x10de\n")
    write(pc, "sys/bus/pci/devices/0000:01:00.1/class", "0x040300\n")  # its sound
    assert gpu(RecordedMachine(pc), "").card is False
    write(pc, "sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n")
    write(pc, "sys/bus/pci/devices/0000:01:00.0/class", "0x030000\n")
    assert gpu(RecordedMachine(pc), "").card is True


def test_rights_follow_group_and_mode(orin):
    assert gpu(RecordedMachine(orin), "").nodes[0] == Node(path="/dev/nvmap", group="video")
    text = (orin / "machine.json").read_text()
    (orin / "machine.json").write_text(text.replace("[29, 44,", "[29,"))
    assert not gpu(RecordedMachine(orin), "").nodes[0].usable
    (orin / "machine.json").write_text(text.replace('"uid": 1000', '"uid": 0'))
    assert gpu(RecordedMachine(orin), "").nodes[0].usable


@pytest.mark.parametrize(
    ("needed", "text", "requires", "expected"),
    [
        (["libcudart.so.12", "libcudnn.so.8", "libm.so.6"], "", "",
         ("libcudart.so.12", "libcudnn.so.8")),
        (["libcudart.so.13"], "libcudnn.so.9", "", ("libcudart.so.13", "libcudnn.so.9")),
        (["libcudart.so.13"], "", "Requires-Dist: nvidia-cudnn-cu13~=9.0; extra == 'cudnn'\n",
         ("libcudart.so.13", "libcudnn.so.9")),
        ([], "", "", ()),
    ],
)  # fmt: skip
def test_what_the_wheel_needs(orin, needed, text, requires, expected):
    site = "opt/edge-runtime/lib/python3.10/site-packages"
    said = f"Metadata-Version: 2.1\nName: onnxruntime_gpu\nVersion: 1.31.1\n{requires}"
    write(orin, f"{site}/onnxruntime_gpu-1.31.1.dist-info/METADATA", said)
    path = orin / site / "onnxruntime/capi/libonnxruntime_providers_cuda.so"
    path.parent.mkdir(parents=True)
    path.write_bytes(library([87], needed=needed, text=text))
    found = wheels(RecordedMachine(orin), "")
    assert found.installed["onnxruntime-gpu"] == "1.31.1"
    assert (found.needed, found.cubins, found.unread) == (expected, ((8, 7),), "")
    path.write_bytes(b"no library")
    assert "no ELF" in wheels(RecordedMachine(orin), "").unread


def test_libraries_are_looked_for_where_a_loader_looks(orin):
    assert "libcudnn.so.9" in wheels(RecordedMachine(orin), "").libraries
    write(orin, "etc/ld.so.conf.d/own.conf", "/opt/own/lib\n")
    write(orin, "opt/own/lib/libcudnn.so.8", "")
    write(orin, "opt/edge-runtime/lib/python3.10/site-packages/nvidia/cudnn/lib/libcudnn.so.7", "")
    found = wheels(RecordedMachine(orin), "").libraries
    assert {"libcudnn.so.7", "libcudnn.so.8", "libcudnn.so.9"} <= set(found)


def test_a_damaged_store_is_told(orin):
    root = orin / "var/lib/edge-runtime"
    (root / "silero-vad/weights").rename(root / "away")
    (engine,) = store(RecordedMachine(orin), "").engines
    assert (engine.damage, engine.unlike) == ("", ())
    (root / f"moonshine-tiny-en/{engine.fingerprint}/encoder.plan").write_bytes(b"other")
    found = store(RecordedMachine(orin), "")
    assert [each.name for each in found.models if each.trouble] == ["silero-vad"]
    assert "encoder.plan" in found.engines[0].damage


def test_every_model_that_is_served_is_looked_for(orin):
    served = ("moonshine-tiny-en", "whisper-tiny-en")
    write(orin, CONFIG, f"[serving]\nmodels = {list(served)}\n".replace("'", '"'))
    found = store(RecordedMachine(orin), "").models
    assert sorted(each.name for each in found) == ["moonshine-tiny-en", "silero-vad", served[1]]
    (missing,) = [each for each in found if each.trouble]
    assert missing.name == "whisper-tiny-en"
    assert "edge-runtime pull whisper-tiny-en" in missing.fix


def test_an_engine_under_another_name_is_damaged(orin):
    (folder,) = (orin / "var/lib/edge-runtime/moonshine-tiny-en").glob("*/engine.json")
    folder.parent.rename(folder.parent.with_name("0" * 16))
    (engine,) = store(RecordedMachine(orin), "").engines
    assert "was built as" in engine.damage


def test_an_engine_of_another_export_is_told(orin):
    (path,) = (orin / "var/lib/edge-runtime/moonshine-tiny-en").glob("*/engine.json")
    text = path.read_text()
    at = text.index('"graphs":"') + 10
    path.write_text(text[:at] + "f" * 16 + text[at + 16 :])
    (engine,) = store(RecordedMachine(orin), "").engines
    # Its size is the same, so that it is whole; its name says that it was another.
    assert "was built as" in engine.damage


def test_the_clock_is_synchronised_or_not_or_cannot_be_told(pc, orin):
    assert system(RecordedMachine(pc), "").synchronised is True
    (pc / "run/systemd/timesync/synchronized").unlink()
    assert system(RecordedMachine(pc), "").synchronised is False
    assert system(RecordedMachine(orin), "").synchronised is None
