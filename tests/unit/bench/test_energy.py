"""Where speech begins and ends, on signals whose frames are known."""

import numpy as np

from edge_runtime.bench import energy


def signal(*levels):
    """20 ms frames of constant amplitude, so a frame's energy is its level squared."""
    return np.repeat(np.array(levels, np.float32), energy.FRAME)


def test_the_energy_of_a_frame_is_its_mean_square():
    frames = energy.frame_energies(np.concatenate([signal(0.5, 0.0), np.ones(100, np.float32)]))
    assert frames.tolist() == [0.25, 0.0]  # the 100 samples left over are no frame


def test_speech_starts_at_three_loud_frames_and_ends_with_the_last():
    # a click of one frame at 2, speech from 5 to 24, a pause inside it, then silence
    levels = [0.001] * 2 + [0.5] + [0.001] * 2 + [0.5] * 10 + [0.001] * 3 + [0.5] * 7 + [0.001] * 5
    span = energy.speech(signal(*levels))
    assert span is not None
    assert (span.start, span.end) == (5 * 320, 25 * 320)
    assert span.onset == 0.1
    assert span.close == 0.5


def test_thirty_decibels_below_the_loudest_is_the_limit():
    # P95 is 1.0² here: 30 dB below is an amplitude of 10^-1.5 = 0.03162
    loud = [1.0] * 20
    inside = energy.speech(signal(*loud, 0.0317, 0.0))
    outside = energy.speech(signal(*loud, 0.0315, 0.0))
    assert inside is not None
    assert outside is not None
    assert inside.end == 21 * 320
    assert outside.end == 20 * 320


def test_the_level_is_a_percentile_so_one_burst_does_not_set_it():
    # 99 frames at 0.01 and one at 1.0: with the maximum as level, speech would be one frame
    span = energy.speech(signal(*[0.01] * 99, 1.0))
    assert span is not None
    assert (span.start, span.end) == (0, 100 * 320)


def test_nothing_is_found_in_silence_or_in_too_little():
    assert energy.speech(np.zeros(16000, np.float32)) is None
    assert energy.speech(signal(0.5, 0.5)) is None
    assert energy.speech(np.zeros(0, np.float32)) is None
    assert energy.speech(signal(*[0.5, 0.0, 0.0] * 5)) is None  # never three in a row


def test_trimming_keeps_speech_only():
    pcm = signal(0.0, 0.5, 0.5, 0.5, 0.0)
    assert energy.trimmed(pcm).tolist() == signal(0.5, 0.5, 0.5).tolist()
    silent = np.zeros(960, np.float32)
    assert energy.trimmed(silent) is silent


def test_an_onset_may_ask_for_more_than_the_noise_floor():
    # 25 dB below the loudest for 10 frames, then speech
    pcm = signal(*[0.056] * 10, *[1.0] * 20)
    faint, voiced = energy.speech(pcm), energy.speech(pcm, energy.VOICED_DB)
    assert faint is not None
    assert voiced is not None
    assert (faint.start, voiced.start) == (0, 10 * 320)
