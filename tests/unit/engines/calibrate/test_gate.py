"""The gate: word counts done by hand, intervals of known samples, and every way to refuse."""

import msgspec
import numpy as np
import pytest

from edge_runtime.engines.calibrate.gate import Outcome, Verdict, interval, judge
from edge_runtime.errors import CalibrationError

TEN = "one red fox ran over the old stone bridge today"


def outcomes(count, quantised=TEN, original=TEN, transcript=TEN, seconds=4.0, name="clip"):
    return [Outcome(f"{name} {k}", seconds, original, quantised, transcript) for k in range(count)]


def test_equal_texts_pass():
    verdict = judge(outcomes(300, seconds=3.0))
    assert verdict.passed
    assert verdict.reasons == ()
    assert (verdict.words, verdict.clips, verdict.minutes) == (3000, 300, 15.0)
    assert (verdict.wer_original, verdict.wer_quantised, verdict.increase) == (0, 0, 0)
    assert (verdict.low, verdict.high, verdict.changed, verdict.worst) == (0, 0, 0, ())
    assert verdict.transcribed


def test_errors_are_counted_against_the_transcript():
    # the original loses "today"; the quantised one gets it right and changes two other words
    bad = outcomes(
        1,
        original="one red fox ran over the old stone bridge",
        quantised="one dead fox ran over an old stone bridge today",
    )
    verdict = judge(bad + outcomes(9, name="good"))
    assert verdict.words == 100
    assert verdict.wer_original == pytest.approx(1)
    assert verdict.wer_quantised == pytest.approx(2)
    assert verdict.increase == pytest.approx(1)
    assert verdict.changed == 3
    assert verdict.changed_percent == pytest.approx(100 * 3 / 99)
    assert not verdict.passed
    assert "grew by 1.00 points" in verdict.reasons[0]
    (worst,) = verdict.worst
    assert worst.outcome.name == "clip 0"
    assert (worst.words, worst.errors_original, worst.errors_quantised, worst.lost) == (10, 1, 2, 1)


@pytest.mark.parametrize(("wrong", "passed"), [(3, True), (4, False)])
def test_the_limit_itself_is_allowed(wrong, passed):
    texts = outcomes(100 - wrong) + outcomes(wrong, quantised=TEN.replace("fox", "box"), name="bad")
    verdict = judge(texts)  # 3 of 1000 words are 0.3 points
    assert verdict.increase == pytest.approx(wrong / 10)
    assert verdict.passed is passed


def test_fewer_errors_than_the_original_pass():
    verdict = judge(outcomes(5, original="one red box"))
    assert verdict.passed
    assert verdict.increase == pytest.approx(-80)


def test_without_transcripts_the_difference_is_judged():
    same = outcomes(97, transcript=None)
    other = outcomes(3, quantised=TEN.replace("old ", ""), transcript=None, name="other")
    verdict = judge(same + other)
    assert not verdict.transcribed
    assert verdict.passed
    assert verdict.increase == pytest.approx(0.3)
    assert any(note.startswith("no transcripts") for note in verdict.notes)
    assert not judge(same + other, 0.2).passed
    assert "texts differ by 0.30" in judge(same + other, 0.2).reasons[0]


@pytest.mark.parametrize("transcript", ["", None])
def test_words_where_nobody_speaks_are_a_reason(transcript):
    noise = outcomes(1, original="", quantised="you", transcript=transcript, name="noise")
    verdict = judge(outcomes(300) + noise)
    assert (verdict.speechless_clips, verdict.speechless_quantised) == (1, 1)
    assert verdict.words == 3000
    assert verdict.reasons == (
        "words written where nobody speaks: 1, and 0 by the unquantised model",
    )


def test_words_that_the_original_writes_on_noise_are_forgiven():
    noise = outcomes(1, original="thank you", quantised="you", transcript="", name="noise")
    verdict = judge(outcomes(300) + noise)
    assert verdict.passed
    assert (verdict.speechless_original, verdict.speechless_quantised) == (2, 1)
    assert not any("without speech" in note for note in verdict.notes)


def test_a_hold_out_without_words_cannot_pass():
    assert judge([]).reasons == ("the hold-out has no words to judge by",)
    assert not judge(outcomes(3, "", "", "")).passed


def test_few_words_are_said_to_be_few_and_how_many_minutes_are_missing():
    # 1000 words in 400 s: 150 words a minute, 1000 more are 6.7 minutes of hold-out
    verdict = judge(outcomes(100))
    assert "1,000 words of hold-out are little to judge by: about 7 more minutes" in str(
        verdict.notes
    )
    # of all recordings only 30 % are held out
    assert "about 23 more minutes" in str(judge(outcomes(100), share=0.3).notes)
    assert "little" not in str(judge(outcomes(200)).notes)


def test_an_interval_that_reaches_past_the_limit_is_noted():
    texts = outcomes(98) + outcomes(2, quantised=TEN.replace("fox", "box"), name="bad")
    verdict = judge(texts)
    assert verdict.passed
    assert verdict.low == 0
    assert 0.3 < verdict.high < 0.7
    assert any("cannot be excluded" in note for note in verdict.notes)


def test_the_interval_has_the_width_that_theory_gives():
    # clips of 20 words, each lost with p = 0.1 one: σ of the rate is 100/20 √(p (1-p) / n)
    random = np.random.default_rng(5)
    lost = (random.random(400) < 0.1).astype(np.int64)
    low, high = interval(lost, np.full(400, 20))
    centre, sigma = 5 * lost.mean(), 5 * np.sqrt(lost.var() / 400)
    assert low == pytest.approx(centre - 1.96 * sigma, abs=0.02)
    assert high == pytest.approx(centre + 1.96 * sigma, abs=0.02)


def test_the_interval_is_the_same_each_time_and_pairs_stay_together():
    lost, words = np.array([0, 3, 0, 1]), np.array([10, 30, 10, 40])
    assert interval(lost, words) == interval(lost, words)
    # a clip's lost words are always the same share: no draw can change the rate
    assert interval(np.array([1, 2, 3]), np.array([10, 20, 30])) == pytest.approx((10, 10))
    assert interval(np.array([1]), np.array([10])) == (10, 10)
    assert interval(np.array([], np.int64), np.array([], np.int64)) == (0, 0)


def test_the_worst_clips_come_first():
    texts = [
        *outcomes(30, quantised=TEN.replace("fox", "box"), name="one"),
        *outcomes(1, quantised="", name="all"),
        *outcomes(1, original="", quantised=TEN, name="better"),
    ]
    worst = judge(texts).worst
    assert len(worst) == 10
    assert worst[0].outcome.name == "all 0"
    assert [each.outcome.name for each in worst[1:3]] == ["one 0", "one 1"]
    assert judge(texts[30:]).worst[-1].outcome.name == "better 0"


def test_two_clips_of_one_name_are_refused():
    with pytest.raises(CalibrationError, match="same name"):
        judge(outcomes(1) + outcomes(1))


def test_a_verdict_survives_json():
    verdict = judge(outcomes(3, quantised="one"))
    assert msgspec.json.decode(msgspec.json.encode(verdict), type=Verdict) == verdict
