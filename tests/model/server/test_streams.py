"""Real speech over real sockets: every word arrives, in order, whatever the client does."""

from __future__ import annotations

import asyncio

import jiwer
import numpy as np
import pytest
from whisper_normalizer.english import EnglishTextNormalizer

SHORT = "1089-134691-0000"
CLIPS = ["1088-134315-0002", "1088-134315-0003", "163-122947-0006", "4640-19188-0003"]
TOLERANCE = 0.12  # of the words of a clip or two


@pytest.fixture(scope="module")
def wrong():
    """The word error rate of a text against a transcript."""
    normal = EnglishTextNormalizer()
    return lambda transcript, text: jiwer.wer(normal(transcript), normal(text))


async def test_a_clip_becomes_its_text(house, read, clip, wrong):
    server = await house()
    speech = clip(CLIPS[0])
    events = await server.say(speech.pcm, pace=0.5)
    read.check(events)
    kinds = [event["type"] for event in events]
    assert (kinds[0], kinds[-1]) == ("ready", "closed")
    assert "partial" in kinds
    assert events[0]["model"] == "moonshine-tiny-en"
    assert events[0]["device"] == "cpu"
    assert events[-1]["audio_seconds"] == pytest.approx(len(speech.audio) / 16000, abs=1e-3)
    assert wrong(speech.transcript, read.text(events)) <= TOLERANCE


async def test_paced_like_a_microphone_words_come_while_they_are_spoken(house, read, clip, wrong):
    server = await house()
    speech = clip(SHORT)
    socket = await server.connect({})
    loop = asyncio.get_running_loop()
    began = loop.time()
    pcm = speech.pcm

    async def send():
        for number, first in enumerate(range(0, len(pcm), 3200)):
            await asyncio.sleep(began + number * 0.1 - loop.time())
            await socket.send_bytes(pcm[first : first + 3200])
        await socket.send_json({"type": "stop"})

    sending = asyncio.create_task(send())
    events = await read.until(socket, "partial")
    first = loop.time() - began
    assert not sending.done()
    assert first < events[-1]["end"] + 1.0
    later, code = await read.rest(socket)
    await sending
    read.check(events + later)
    assert code == 1000
    assert wrong(speech.transcript, read.text(later)) <= TOLERANCE


async def test_the_socket_changes_nothing(house, read, clip):
    """Without partials the text depends on the audio alone: as fed directly, by any pieces."""
    server = await house()
    for name in CLIPS[:2]:
        speech = clip(name)
        audio = np.frombuffer(speech.pcm, "<i2").astype(np.float32) / 32768
        expected = await read.directly(server.runtime, audio)
        assert expected
        for size in (99_999, 3200, 641):
            events = await server.say(speech.pcm, size, partials=False)
            read.check(events)
            assert read.text(events) == expected


async def test_streams_side_by_side_do_not_hear_each_other(house, read, clip):
    server = await house()
    speeches = [clip(name) for name in CLIPS]
    alone = [read.text(await server.say(each.pcm, partials=False)) for each in speeches]
    assert len(set(alone)) == 4
    together = await asyncio.gather(*(server.say(each.pcm, partials=False) for each in speeches))
    for events in together:
        read.check(events)
    assert [read.text(events) for events in together] == alone


@pytest.mark.parametrize(
    ("encoding", "rate", "channels"),
    [("pcm_f32le", 48000, 2), ("pcm_s16le", 8000, 1), ("mulaw", 8000, 1), ("pcm_s16le", 44100, 1)],
)
async def test_other_kinds_of_audio_say_the_same(
    house, read, clip, wrong, encoding, rate, channels
):
    import soxr

    server = await house()
    speech = clip(CLIPS[0])
    audio = np.clip(soxr.resample(speech.audio, speech.rate, rate), -1, 1)
    audio = np.repeat(audio[:, None], channels, axis=1).ravel()
    wire = {
        "pcm_s16le": lambda: np.rint(audio * 32767).astype("<i2"),
        "pcm_f32le": lambda: audio.astype("<f4"),
        "mulaw": lambda: _mulaw(audio),
    }[encoding]().tobytes()
    events = await server.say(
        wire, 1001, encoding=encoding, sample_rate=rate, channels=channels, partials=False
    )
    read.check(events)
    assert wrong(speech.transcript, read.text(events)) <= TOLERANCE
    assert events[-1]["audio_seconds"] == pytest.approx(len(speech.audio) / 16000, abs=0.005)


async def test_flush_right_after_the_last_sample_loses_no_word(house, read, clip):
    server = await house()
    for name in CLIPS:
        speech = clip(name)
        pcm = _without_silence(speech).tobytes()
        stopped = read.text(await server.say(pcm, partials=False))
        socket = await server.connect({"partials": False})
        await socket.send_bytes(pcm)
        await socket.send_json({"type": "flush"})
        flushed = await read.until(socket, "flushed")
        await socket.send_bytes(pcm)
        await socket.send_json({"type": "stop"})
        again, code = await read.rest(socket)
        read.check(flushed + again)
        assert code == 1000
        assert [e["reason"] for e in flushed if e["type"] == "final"][-1] == "flush"
        assert read.text(flushed) == stopped
        # the second time begins in the middle of nothing, yet says the same
        assert len(read.text(again).split()) == pytest.approx(len(stopped.split()), abs=2)


async def test_a_sender_50_times_too_fast_gets_every_word(house, read, clip):
    server = await house()
    one = clip(SHORT)
    pause = bytes(16000 * 2)
    pcm = (one.pcm + pause) * 20
    socket = await server.connect({"partials": False})
    sent = 0

    async def send():
        nonlocal sent
        for first in range(0, len(pcm), 3200):
            await socket.send_bytes(pcm[first : first + 3200])
            sent = first + 3200
            await asyncio.sleep(0.1 / 50)
        await socket.send_json({"type": "stop"})

    sending = asyncio.create_task(send())
    events, code = await read.rest(socket, 120)
    await sending
    read.check(events)
    assert code == 1000
    assert sent >= len(pcm)
    assert "overrun" not in {event["type"] for event in events}
    assert events[-1]["audio_seconds"] == pytest.approx(len(pcm) / 32000, abs=1e-3)
    audio = np.frombuffer(pcm, "<i2").astype(np.float32) / 32768
    assert read.text(events) == await read.directly(server.runtime, audio)


async def test_who_reads_only_at_the_end_finds_every_final(house, read, clip):
    server = await house()
    speech = clip(CLIPS[1])
    socket = await server.connect({})
    pcm = speech.pcm
    for first in range(0, len(pcm), 3200):
        await socket.send_bytes(pcm[first : first + 3200])
    await socket.send_json({"type": "stop"})
    await asyncio.sleep(1.0)
    events, code = await read.rest(socket)
    read.check(events)
    assert code == 1000
    assert read.text(events)


async def test_words_have_times_when_asked_for(house, read, clip):
    server = await house()
    events = await server.say(clip(CLIPS[0]).pcm, words=True, partials=False)
    finals = [event for event in events if event["type"] == "final"]
    words = [word for event in finals for word in event["words"]]
    assert " ".join(word["text"].strip() for word in words) == read.text(events)
    assert all(word["start"] <= word["end"] for word in words)
    starts = [word["start"] for word in words]
    assert starts == sorted(starts)


async def test_silence_says_nothing(house, read, clip):
    server = await house()
    for pcm in (b"", b"\0\0", bytes(3 * 32000), clip("noise1").pcm):
        events = await server.say(pcm)
        assert [event["type"] for event in events] == ["ready", "closed"]


async def test_figures_follow_what_happened(house, read, clip):
    server = await house()
    speech = clip(CLIPS[0])
    await server.say(speech.pcm, pace=0.5)
    value = server.metrics.value
    assert value("edge_runtime_updates_total", purpose="partial") > 3
    assert value("edge_runtime_stage_seconds_sum", purpose="partial", stage="encode") > 0
    assert value("edge_runtime_stage_seconds_count", purpose="final", stage="emit") >= 1
    assert value("edge_runtime_tokens_total", purpose="partial", kind="produced") > 20
    assert (
        0
        < value("edge_runtime_tokens_total", purpose="partial", kind="accepted")
        <= value("edge_runtime_tokens_total", purpose="partial", kind="drafted")
    )
    assert value("edge_runtime_audio_seconds_total") == pytest.approx(
        len(speech.audio) / 16000, abs=0.01
    )
    assert value("edge_runtime_bytes_total", direction="in") >= len(speech.pcm)


def _without_silence(speech):
    """The samples up to the end of the last loud 20 ms."""
    samples = np.frombuffer(speech.pcm, "<i2")
    frames = samples[: len(samples) // 320 * 320].reshape(-1, 320).astype(np.float64)
    energy = np.square(frames).mean(axis=1)
    loud = np.flatnonzero(energy > np.percentile(energy, 95) / 1000)
    return samples[: (loud[-1] + 1) * 320]


def _mulaw(audio):
    """G.711 µ-law, by the nearest of the decoder's 256 values (ITU-T G.711)."""
    code = np.arange(256)
    exponent, mantissa = (~code >> 4) & 7, ~code & 15
    value = ((mantissa * 8 + 132) << exponent) - 132
    value = np.where(~code & 128, -value, value) / 32768
    order = np.argsort(value, kind="stable")
    edges = (value[order][1:] + value[order][:-1]) / 2
    return code[order][np.searchsorted(edges, audio)].astype(np.uint8)
