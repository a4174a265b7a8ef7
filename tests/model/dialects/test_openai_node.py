"""The `openai` package of npm, unmodified, where there is one."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import soxr

CLIP = "1088-134315-0002"


@pytest.fixture
def node():
    """The command, with a folder of modules; skips without them."""
    found, modules = shutil.which("node"), os.environ.get("OPENAI_NODE_MODULES")
    if found is None:
        pytest.skip("node is not installed")
    if modules is None or not Path(modules, "openai").is_dir():
        pytest.skip(
            "no npm openai: npm install --prefix DIR openai ws, "
            "then OPENAI_NODE_MODULES=DIR/node_modules"
        )
    return found


async def test_a_recording_and_live_audio(node, house, clip, flac, transcribed, tmp_path):
    server = await house()
    speech = clip(CLIP)
    data = flac(speech)
    (tmp_path / "talk.flac").write_bytes(data)
    audio = np.clip(soxr.resample(speech.audio, speech.rate, 24000), -1, 1)
    (tmp_path / "talk.pcm").write_bytes(np.rint(audio * 32767).astype("<i2").tobytes())
    process = await asyncio.create_subprocess_exec(
        node, str(Path(__file__).with_name("openai_client.mjs")), server.url,
        str(tmp_path / "talk.flac"), str(tmp_path / "talk.pcm"),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, said = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, said.decode()
    answers = json.loads(out)
    text = transcribed(data).text
    assert answers["text"] == text
    assert len(answers["live"].split()) == pytest.approx(len(text.split()), abs=3)
