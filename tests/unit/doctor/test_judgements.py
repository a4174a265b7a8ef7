"""Each judgement by itself: one fact is changed, and one finding says so with what mends it."""

from __future__ import annotations

import msgspec
import pytest

from edge_runtime.doctor import Facts, judge
from edge_runtime.doctor.facts import (
    Card,
    Certificate,
    Engine,
    Gpu,
    Inputs,
    Jetson,
    Loaded,
    Model,
    Node,
    Packages,
    Port,
    Python,
    Settings,
    Sound,
    Store,
    System,
    User,
)
from edge_runtime.doctor.judgements.board import release
from edge_runtime.doctor.judgements.onnxruntime import covered

DAY = 86_400.0
NOW = 1_764_500_000.0  # 2025-11-30
ENGINE = Engine(
    model="moonshine-tiny-en",
    fingerprint="41d13e9cfe9f3e28",
    tensorrt="tensorrt",
    version="10.3.0",
    target=("8.7",),
)
CUDA = ("libcudart.so.12", "libcudnn.so.9")
NVRTC = ("libnvrtc.so.12", "libnvrtc.so.13")
ORIN = Facts(
    python=Python(version=(3, 10, 12), machine="aarch64", prefix="/opt/er", venv=True),
    user=User(name="robot", uid=1000, groups=(44,)),
    jetson=Jetson(
        model="NVIDIA Jetson Orin Nano Developer Kit",
        l4t="36.4.4",
        packages={"nvidia-l4t-core": "36.4.4-2025", "libnvinfer10": "10.3.0.30-1+cuda12.5"},
        mode="15W",
        share=0.6,
    ),
    gpu=Gpu(nodes=(Node(path="/dev/nvmap", group="video"),)),
    card=Card(name="Orin", capability=(8, 7)),
    packages=Packages(
        installed={"onnxruntime-gpu": "1.23.2", "cuda-bindings": "12.9.4"},
        provider=True,
        needed=CUDA,
        cubins=((8, 7),),
        libraries=(*CUDA, *NVRTC),
    ),
    tensorrt=Loaded(flavour="tensorrt", version="10.3.0"),
    pycuda=Loaded(),
    onnxruntime=Loaded(version="1.23.2", providers=("CUDAExecutionProvider",)),
    sound=Sound(cards=("ReSpeaker",), nodes=(Node(path="/dev/snd/pcmC0D0c", group="audio"),)),
    inputs=Inputs(names=("ReSpeaker",)),
    settings=Settings(ports=(Port(number=8765),)),
    certificate=Certificate(),
    store=Store(
        root="/s", free=9 << 30, size=64 << 30, models=(Model(name="m"),), engines=(ENGINE,)
    ),
    system=System(memory=8 << 30, available=5 << 30, now=NOW, newest=NOW - DAY),
)
DESKTOP = msgspec.structs.replace(
    ORIN,
    jetson=Jetson(),
    gpu=Gpu(nodes=(Node(path="/dev/nvidiactl"),), card=True, driver="580.65.06"),
    card=Card(name="RTX 3060", capability=(8, 6)),
    tensorrt=Loaded(flavour="tensorrt_rtx", version="1.7.1"),
    store=msgspec.structs.replace(
        ORIN.store,
        engines=(
            msgspec.structs.replace(
                ENGINE, tensorrt="tensorrt_rtx", version="1.7.1", target=("8.0-12.x",)
            ),
        ),
    ),
    packages=msgspec.structs.replace(
        ORIN.packages,
        cubins=((8, 0),),
        installed={"onnxruntime-gpu": "1.23.2", "cuda-bindings": "13.5.0"},
    ),
)
CPU = msgspec.structs.replace(DESKTOP, gpu=Gpu(), card=Card(trouble="there is no GPU"))


def but(facts, **changes):
    """`facts` with fields of its records replaced: `jetson={"l4t": "35.1"}`."""
    records = {
        name: msgspec.structs.replace(getattr(facts, name), **change)
        if isinstance(change, dict) and name != "troubles"
        else change
        for name, change in changes.items()
    }
    return msgspec.structs.replace(facts, **records)


def closed(path, group):
    return (Node(path=path, group=group, usable=False),)


NO_TENSORRT = {"tensorrt": Loaded()}
FIRST = {"settings": {"device": "onnx-cuda"}}  # onnxruntime is what is to serve

# What is wrong, the facts, the check, its level, words of what or why, and words of the fix.
WRONG = {
    "old Python": (but(ORIN, python={"version": (3, 8, 10)}), "python", "error", "3.8.10", "3.10"),
    "JetPack 5": (but(ORIN, jetson={"l4t": "35.4.1", "packages": {}}),
        "jetpack", "error", "L4T 35.4.1 is older", "JetPack 6.2"),
    "JetPack 6.0": (but(ORIN, jetson={"l4t": "36.3.0", "packages": {}}),
        "jetpack", "error", "10.3", "JetPack 6.2"),
    "half an update": (but(ORIN, jetson={"packages": {"nvidia-l4t-core": "36.4.7-1"}}),
        "jetpack", "warning", "nvidia-l4t-core is 36.4.7-1", "dist-upgrade"),
    "no release file": (but(ORIN, jetson={"l4t": "", "packages": {}}),
        "jetpack", "warning", "without Jetson Linux's release", "nv_tegra_release"),
    "slow mode": (but(ORIN, jetson={"mode": "7W", "share": 0.4}),
        "power", "warning", "7W holds the GPU at 40%", "nvpmodel -m"),
    "no jtop": (but(ORIN, settings={"reader": "jtop"}),
        "jetson-stats", "error", "not installed", 'reader = "sysfs"'),
    "jtop of old": (
        but(ORIN, jetson={"jtop": "4.3.2", "jtop_knows": False}, settings={"reader": "jtop"}),
        "jetson-stats", "warning", "4.3.2 does not know", "restart jtop.service"),
    "no nodes on a Jetson": (but(ORIN, gpu={"nodes": ()}),
        "gpu", "error", "driver is not loaded", "--runtime nvidia"),
    "no driver": (but(CPU, gpu={"card": True}),
        "gpu", "warning", "driver is not loaded", "ubuntu-drivers"),
    "hidden": (but(DESKTOP, gpu={"hidden": True}),
        "gpu", "warning", "CUDA_VISIBLE_DEVICES", "unset CUDA_VISIBLE_DEVICES"),
    "not in video": (but(ORIN, gpu={"nodes": closed("/dev/nvmap", "video")}),
        "gpu", "error", "robot may not open /dev/nvmap", "usermod -aG video robot"),
    "no bindings": (but(ORIN, packages={"installed": {"onnxruntime-gpu": "1"}}),
        "gpu", "error", "cuda-bindings is not", "pip install 'cuda-bindings>=12.6,<13'"),
    "no bindings, desktop": (but(DESKTOP, packages={"installed": {"onnxruntime-gpu": "1"}}),
        "gpu", "error", "cuda-bindings is not", "pip install 'cuda-bindings>=13,<14'"),
    "no bindings, old driver": (
        but(DESKTOP, packages={"installed": {}}, gpu={"driver": "550.54"}),
        "gpu", "error", "cuda-bindings is not", "'cuda-bindings>=12.6,<13'"),
    "CUDA fails": (but(ORIN, card=Card(trouble="CUDA_ERROR_NO_DEVICE", fix="nvidia-smi")),
        "gpu", "error", "CUDA_ERROR_NO_DEVICE", "nvidia-smi"),
    "other bindings": (
        but(ORIN, card=Card(trouble="it fails"),
            packages={"installed": {"onnxruntime-gpu": "1", "cuda-bindings": "13.5.0"}}),
        "gpu", "error", "it fails", "pip install 'cuda-bindings>=12.6,<13'"),
    "TensorRT fails": (but(ORIN, tensorrt=Loaded(trouble="libnvinfer.so.10"), packages=None),
        "tensorrt", "error", "libnvinfer.so.10", "--reinstall tensorrt"),
    "TensorRT fails, desktop": (but(DESKTOP, tensorrt=Loaded(trouble="broken"), packages=None),
        "tensorrt", "error", "broken", "edge-runtime[rtx]"),
    "no TensorRT": (but(ORIN, **NO_TENSORRT),
        "tensorrt", "error", "GPU is not used", "apt-get install tensorrt python3-libnvinfer"),
    "unseen TensorRT": (
        but(ORIN, jetson={"packages": {"python3-libnvinfer": "10.3.0.30"}}, **NO_TENSORRT),
        "tensorrt", "error", "does not see it",
        "/usr/bin/python3 -m venv --system-site-packages /opt/er"),
    "no TensorRT, blind venv": (but(ORIN, python={"system_site": False}, **NO_TENSORRT),
        "tensorrt", "error", "comes with JetPack",
        "python3-libnvinfer && /usr/bin/python3 -m venv --system-site-packages /opt/er"),
    "no TensorRT, desktop": (but(DESKTOP, **NO_TENSORRT),
        "tensorrt", "warning", "fastest", "edge-runtime[rtx]"),
    "old TensorRT": (
        but(ORIN, tensorrt={"version": "8.6.2"}, store={"engines": (
            msgspec.structs.replace(ENGINE, version="8.6.2"),)}),
        "tensorrt", "error", "8.6.2 is too old", "JetPack 6.2"),
    "two TensorRT": (but(ORIN, jetson={"packages": {"libnvinfer10": "10.7.0.23-1+cuda12.6"}}),
        "tensorrt", "warning", "the library libnvinfer10 is 10.7.0", "pip uninstall -y tensorrt"),
    "no NVRTC": (but(ORIN, packages={"libraries": CUDA}),
        "nvrtc", "warning", "libnvrtc.so.12 is not found", "apt-get install cuda-nvrtc-12-6"),
    "no NVRTC, desktop": (but(DESKTOP, packages={"libraries": (*CUDA, "libnvrtc.so.12")}),
        "nvrtc", "warning", "libnvrtc.so.13 is not found", "pip install nvidia-cuda-nvrtc"),
    "PyCUDA fails": (but(ORIN, pycuda=Loaded(trouble="libcurand.so.11")),
        "pycuda", "warning", "libcurand.so.11", "--no-binary pycuda"),
    "two onnxruntime": (
        but(CPU, packages={"installed": {"onnxruntime": "1", "onnxruntime-gpu": "1"}}),
        "onnxruntime", "error", "both installed", "pip uninstall -y onnxruntime onnxruntime-gpu"),
    "no onnxruntime": (but(CPU, onnxruntime=Loaded()),
        "onnxruntime", "error", "not installed", "pip install --force-reinstall onnxruntime"),
    "onnxruntime fails": (but(CPU, onnxruntime=Loaded(trouble="GLIBC_2.38")),
        "onnxruntime", "error", "GLIBC_2.38", "pip install --force-reinstall onnxruntime"),
    "no kernels, second": (but(DESKTOP, packages={"cubins": ((9, 0),)}),
        "onnxruntime", "warning", "(sm_86)", "pip install --force-reinstall onnxruntime-gpu"),
    "no kernels, first": (but(DESKTOP, packages={"cubins": ((9, 0),)}, **FIRST),
        "onnxruntime", "error", "(sm_86)", "pip install --force-reinstall onnxruntime-gpu"),
    "desktop kernels": (but(ORIN, packages={"cubins": ((8, 0),)}),
        "onnxruntime", "warning", "promises nothing", "jp6/cu126"),
    "cuDNN 8": (
        but(DESKTOP, **FIRST,
            packages={"libraries": ("libcudart.so.12", "libcudnn.so.8", *NVRTC)}),
        "cudnn", "error", "wants cuDNN 9, here is libcudnn.so.8",
        "pip install 'nvidia-cudnn-cu12==9.*'"),
    "no cuDNN": (but(DESKTOP, packages={"libraries": ("libcudart.so.12", *NVRTC)}),
        "cudnn", "warning", "there is none here", "nvidia-cudnn-cu12"),
    "CUDA 11": (but(DESKTOP, packages={"libraries": ("libcudart.so.11", "libcudnn.so.9", *NVRTC)}),
        "cuda", "warning", "wants libcudart.so.12, here is libcudart.so.11", "[cuda,cudnn]"),
    "settings": (but(CPU, settings={"trouble": "unknown key prot", "fix": "Did you mean port?"}),
        "settings", "error", "unknown key prot", "Did you mean port?"),
    "port": (but(CPU, settings={"ports": (Port(number=8765, owner="nginx (pid 7)"),)}),
        "ports", "error", "port 8765 (serving.port) is taken by nginx (pid 7)", "sport = :8765"),
    "no key": (but(CPU, settings={"host": "0.0.0.0", "local": False, "certificate": "c"},
        certificate={"path": "c", "ends": NOW + 300 * DAY}),
        "keys", "error", "0.0.0.0, and there is no key", "edge-runtime keys add NAME"),
    "keys never": (
        but(CPU, settings={"host": "::", "local": False, "keys": "never", "certificate": "c"},
            certificate={"path": "c", "ends": NOW + 300 * DAY}),
        "keys", "warning", "asks nobody", "edge-runtime keys add NAME"),
    "keys unread": (but(CPU, settings={"keys_trouble": "keys.json cannot be read"}),
        "keys", "error", "cannot be read", "chown"),
    "no TLS": (but(CPU, settings={"host": "::", "local": False, "count": 1}),
        "certificate", "warning", ":: without TLS", "edge-runtime tls self-signed"),
    "not a pair": (but(CPU, certificate={"path": "c", "trouble": "no pair", "fix": "Give two"}),
        "certificate", "error", "no pair", "Give two"),
    "ended": (but(CPU, certificate={"path": "c", "begins": 0.0, "ends": NOW - DAY}),
        "certificate", "error", "c ended on 2025-11-29", "tls self-signed --again"),
    "ends soon": (but(CPU, certificate={"path": "c", "begins": 0.0, "ends": NOW + 29 * DAY}),
        "certificate", "warning", "c ends on 2025-12-29", "tls self-signed --again"),
    "not yet": (but(CPU, certificate={"path": "c", "begins": NOW + DAY, "ends": NOW + 9 * DAY}),
        "certificate", "error", "only from 2025-12-01 on", "timedatectl"),
    "store": (but(CPU, store={"writable": False}),
        "store", "warning", "robot may not write /s", "chown -R robot /s"),
    "disk low": (but(CPU, store={"free": 900 << 20}), "disk", "warning", "only 0.9 of 64", "rm"),
    "disk full": (but(CPU, store={"free": 9 << 20}), "disk", "error", "only 0.0 of 64", "rm"),
    "model": (but(CPU, store={"models": (Model(name="m", trouble="m is not in the store",
        fix="Run: edge-runtime pull m"),)}),
        "model", "error", "m is not in the store", "edge-runtime pull m"),
    "other store": (but(CPU, store={"service": True, "models": (Model(name="m", trouble="no m",
        fix="Run: edge-runtime pull m"),)}),
        "model", "error", "/var/lib/edge-runtime", "sudo --user=edge-runtime"),
    "no engine": (but(ORIN, store={"engines": ()}),
        "engines", "warning", "no engine of moonshine-tiny-en", "edge-runtime build moonshine"),
    "damaged engine": (
        but(ORIN, store={"engines": (ENGINE, msgspec.structs.replace(
            ENGINE, fingerprint="00", damage="a.plan is gone"))}),
        "engines", "warning", "a.plan is gone", "--tensorrt tensorrt --again"),
    "engine of another version": (but(ORIN, tensorrt={"version": "10.16.2.10"},
        jetson={"packages": {}}),
        "engines", "error", "built by TensorRT 10.3.0, here is 10.16.2.10",
        "edge-runtime build moonshine-tiny-en --precision fp16 --tensorrt tensorrt"),
    "engine of another library": (but(DESKTOP, store={"engines": (ENGINE,)}),
        "engines", "error", "is for tensorrt, here is tensorrt_rtx", "--tensorrt tensorrt_rtx"),
    "engine of another GPU": (but(ORIN, card={"capability": (11, 0)}, packages={"provider": False}),
        "engines", "error", "for GPUs 8.7, this is 11.0", "edge-runtime build"),
    "engine of other weights": (but(ORIN, store={"engines": (
        msgspec.structs.replace(ENGINE, unlike=("weights (wanted a, found b)",)),)}),
        "engines", "error", "differs in weights (wanted a, found b)", "edge-runtime build"),
    "engine of another precision": (but(ORIN, store={"precisions": ("int8", "fp32")}),
        "engines", "error", "is in fp16, wanted is int8", "edge-runtime build"),
    "memory low": (but(CPU, system={"available": 900 << 20}),
        "memory", "warning", "only 0.9 of 8.0", "multi-user.target"),
    "memory gone": (but(CPU, system={"available": 300 << 20}),
        "memory", "error", "only 0.3 of 8.0", "multi-user.target"),
    "clock": (but(CPU, system={"now": 86400.0}),
        "clock", "error", "says 1970-01-02", "timedatectl set-ntp true"),
    "clock adrift": (but(CPU, system={"synchronised": False}),
        "clock", "warning", "not synchronised", "timedatectl timesync-status"),
    "not in audio": (but(CPU, sound={"nodes": closed("/dev/snd/pcmC0D0c", "audio")},
        inputs=Inputs()),
        "sound", "warning", "robot may not record", "usermod -aG audio robot"),
    "audio, not logged in": (
        but(CPU, sound={"nodes": closed("/dev/snd/pcmC0D0c", "audio"), "member": True},
            inputs=Inputs()),
        "sound", "warning", "this session does not know", "Log in again"),
    "no PortAudio": (but(CPU, inputs=Inputs(trouble="PortAudio is missing",
        fix="Run: sudo apt install libportaudio2")),
        "sound", "warning", "PortAudio is missing", "sudo apt install libportaudio2"),
    "hung": (but(CPU, tensorrt=None, troubles={"tensorrt": "took longer than 60 s"}),
        "tensorrt", "error", "looking at tensorrt took longer than 60 s", "import tensorrt"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_one_finding_says_what_is_wrong_and_what_mends_it(what):
    facts, check, level, words, fix = WRONG[what]
    bad = [each for each in judge(facts) if each.level != "ok"]
    (found,) = [each for each in bad if each.check == check]
    assert found.level == level
    assert words in f"{found.what} {found.why}"
    assert fix in found.fix
    assert all(each.why and each.fix and not each.fix.startswith("Run:") for each in bad)


ALONE = set(WRONG) - {
    # TensorRT that does not serve is why onnxruntime's wheel and engines matter, or do not.
    "engine of another GPU", "no bindings", "no bindings, desktop", "no bindings, old driver",
}  # fmt: skip


@pytest.mark.parametrize("what", sorted(ALONE))
def test_nothing_else_is_wrong_then(what):
    facts, check, *_ = WRONG[what]
    assert {each.check for each in judge(facts) if each.level != "ok"} == {check}


# What is fine: the facts, the check, and words of what is said.
FINE = {
    "a GPU that is not wanted": (
        but(ORIN, settings={"device": "cpu"}, gpu={"nodes": closed("/dev/nvmap", "video")}),
        "gpu", "not used",
    ),
    "TensorRT that is not wanted": (but(ORIN, **FIRST), "tensorrt", "not used here"),
    "blind venv that has TensorRT": (but(ORIN, python={"system_site": False}), "python", "3.10.12"),
    "Orin": (ORIN, "onnxruntime", "1.23.2, CUDA; kernels for 8.7"),
    "Orin's engine": (ORIN, "engines", "41d13e9cfe9f3e28 of moonshine-tiny-en serves here"),
    "desktop": (DESKTOP, "gpu", "RTX 3060, compute capability 8.6, driver 580.65.06"),
    "desktop, cubin of the family": (DESKTOP, "onnxruntime", "kernels for 8.0"),
    "cpu": (CPU, "gpu", "none here; the CPU serves"),
    "cpu, engine": (CPU, "engines", "one engine of moonshine-tiny-en, not used here"),
    "wheel for the CPU beside TensorRT": (
        but(ORIN, packages={"provider": False}), "onnxruntime", "TensorRT has the GPU",
    ),
    "jtop of old, unused": (
        but(ORIN, jetson={"jtop": "4.3.2", "jtop_knows": False}), "jetson-stats", "not used",
    ),
    "engine without weights": (
        but(ORIN, store={"models": (Model(name="moonshine-tiny-en", trouble="not there"),)}),
        "model", "serves from its engine",
    ),
    "our own server": (
        but(CPU, settings={"ports": (Port(number=8765, owner="edge-runtime", ours=True),)}),
        "ports", "8765 (our server)",
    ),
    "keys": (
        but(CPU, settings={"host": "::", "local": False, "count": 2, "keys_file": "/k"}),
        "keys", "2 in /k",
    ),
    "certificate": (
        but(CPU, certificate={"path": "c", "begins": 0.0, "ends": NOW + 31 * DAY}),
        "certificate", "good until 2025-12-31",
    ),
    "no openssl": (but(CPU, certificate={"path": "c"}), "certificate", "cannot be told"),
    "sound server instead of group audio": (
        but(CPU, sound={"nodes": closed("/dev/snd/pcmC0D0c", "audio")}), "sound", "ReSpeaker",
    ),
    "no card": (but(CPU, sound={"nodes": (), "cards": ()}, inputs=Inputs(trouble="none")),
        "sound", "no card that records"),
    "power": (ORIN, "power", "mode 15W"),
    "store to be": (but(CPU, store={"exists": False}), "store", "/s, not made yet"),
}  # fmt: skip


@pytest.mark.parametrize("what", FINE)
def test_what_is_fine_is_said(what):
    facts, check, words = FINE[what]
    (found,) = [each for each in judge(facts) if each.check == check]
    assert (found.level, words in found.what) == ("ok", True), found


@pytest.mark.parametrize("facts", [ORIN, DESKTOP, CPU], ids=["Orin", "desktop", "cpu"])
def test_a_machine_in_order_gives_no_alarm(facts):
    assert [each for each in judge(facts) if each.level != "ok"] == []


def test_what_is_not_wanted_gives_no_alarm():
    for change in ({"tensorrt": Loaded()}, {"tensorrt": Loaded(trouble="it is broken")}):
        for device in ("cpu", "onnx-cuda"):
            facts = but(ORIN, settings={"device": device}, **change)
            assert [each for each in judge(facts) if each.level != "ok"] == []


def test_nothing_is_judged_without_facts():
    assert judge(Facts()) == []


@pytest.mark.parametrize(
    ("here", "held", "expected"),
    [
        ((8, 7), {"cubins": ((8, 7),)}, "all"),
        ((8, 7), {"cubins": ((8, 0),)}, "related"),
        ((8, 7), {"cubins": ((8, 9),)}, "none"),  # of the same generation, and newer
        ((8, 7), {"cubins": ((7, 2), (9, 0))}, "none"),
        ((8, 7), {"ptx": ((8, 0),)}, "all"),  # is compiled when it is loaded
        ((8, 7), {"ptx": ((9, 0),)}, "none"),
        ((8, 6), {"cubins": ((8, 0),)}, "all"),
        ((8, 6), {"cubins": ((8, 7),)}, "none"),
        ((11, 0), {"cubins": ((10, 0), (12, 0))}, "none"),
        ((12, 1), {"cubins": ((12, 0),)}, "all"),
        ((12, 1), {"alone": ((12, 0),)}, "none"),
        ((9, 0), {"alone": ((9, 0),)}, "all"),
    ],
)
def test_which_kernels_run_where(here, held, expected):
    assert covered(here, Packages(**held)) == expected


def test_versions_are_compared_by_their_numbers():
    assert release("10.3.0.30-1+cuda12.5") == (10, 3, 0)
    assert release("10.16.2.10") > release("10.3.0")
    assert release("36.4") == (36, 4)
