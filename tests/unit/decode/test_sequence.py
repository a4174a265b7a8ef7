"""A decode with a draft equals one from scratch, against a decoder that is a pure function."""

import random
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.decode.sequence import Sequence

BEGIN, END, WORDS = 1, 2, range(3, 9)
GERMAN, ENGLISH, NO_TIMES = 50, 51, 52

Answer = tuple[int, float, float, int]
"""Token, log-probability, margin and frame, as the head gives them."""


@dataclass
class Decoder:
    """Answers from a whole prefix alone, read from cache rows as the tiles do it."""

    seed: int
    cache: list[int] = field(default_factory=list)

    def answer(self, prefix: Seq[int]) -> Answer:
        dice = random.Random(f"{self.seed} {list(prefix)}")
        token = END if dice.random() < 0.06 else dice.choice(WORDS)
        return token, -dice.random(), dice.random(), dice.randrange(500)

    def run(self, position: int, fed: Seq[int]) -> list[Answer]:
        """Write `fed` to the rows from `position` on; what follows each of them."""
        assert position <= len(self.cache), "a row before this pass was never written"
        self.cache[position:] = fed
        return [self.answer(self.cache[: position + n + 1]) for n in range(len(fed))]


@dataclass
class Greedy:
    """The slow obvious decode: one token at a time, all that came before it."""

    tokens: list[int]
    answers: list[Answer]
    ended: bool


def from_scratch(
    decoder: Decoder, forced: Seq[int], limit: int, opening: Seq[int] = (BEGIN,)
) -> Greedy:
    tokens: list[int] = []
    answers: list[Answer] = []
    while len(tokens) < limit:
        answer = decoder.answer([*opening, *tokens])
        answers.append(answer)
        token = forced[len(tokens)] if len(tokens) < len(forced) else answer[0]
        if token == END:
            return Greedy(tokens, answers, True)
        tokens.append(token)
    return Greedy(tokens, answers, False)


def run(decoder: Decoder, sequence: Sequence, opening: Seq[int] = (BEGIN,)) -> list[int]:
    """Decode to the end; how many tokens each pass fed."""
    passes = []
    while not sequence.done:
        fed = sequence.feed()
        before = sequence.position
        answers = decoder.run(before, fed)
        taken = sequence.take(*(list(column) for column in zip(*answers, strict=True)))
        passes.append(len(fed))
        assert 1 <= taken <= len(fed)
        assert sequence.position == before + taken
        # The rows that count hold the opening and the text before the newest token.
        true = [*opening, *sequence.tokens][: sequence.position]
        assert decoder.cache[: sequence.position] == true
    return passes


def edited(tokens: list[int], edits: list[tuple[str, int, int]]) -> list[int]:
    draft = list(tokens)
    for kind, where, token in edits:
        at = where % (len(draft) + 1)
        if kind == "insert":
            draft.insert(at, token)
        else:
            draft[at : at + 1] = [token] if kind == "replace" and at < len(draft) else []
    return draft


edits = st.lists(
    st.tuples(
        st.sampled_from(["insert", "replace", "drop"]), st.integers(0, 40), st.sampled_from(WORDS)
    ),
    max_size=4,
)
texts = st.lists(st.sampled_from(WORDS), max_size=40)


openings = st.sampled_from([(BEGIN,), (BEGIN, GERMAN, NO_TIMES)])


@given(
    st.integers(0, 10**6), edits, texts, texts.map(lambda t: t[:6]), st.integers(1, 40), openings
)
def test_any_draft_gives_the_tokens_of_a_decode_from_scratch(
    seed: int, changes: list, noise: list[int], forced: list[int], limit: int, opening: tuple
) -> None:
    decoder = Decoder(seed)
    slow = from_scratch(decoder, forced, limit, opening)
    for draft in (edited(slow.tokens[len(forced) :], changes), noise, []):
        decoder.cache.clear()
        sequence = Sequence(opening, END, forced, draft, limit)
        passes = run(decoder, sequence, opening)
        assert sequence.first == decoder.answer([BEGIN])[1]
        assert sequence.tokens == slow.tokens
        assert sequence.ended == slow.ended
        assert sequence.frames == [answer[3] for answer in slow.answers[: len(slow.tokens)]]
        for n, (token, answer) in enumerate(zip(slow.tokens, slow.answers, strict=False)):
            if token == answer[0]:
                assert (sequence.logprobs[n], sequence.margins[n]) == answer[1:3]
            else:  # forced against the decoder's choice: less sure than the second best at most
                assert sequence.logprobs[n] == pytest.approx(answer[1] - answer[2])
                assert sequence.margins[n] == 0.0

        assert sequence.passes == len(passes) <= max(1, len(slow.answers) - len(forced))
        assert sequence.steps == passes.count(1)
        assert sequence.drafted == len(draft)
        assert sequence.produced == len(slow.answers)
        told = max(0, len(slow.answers) - len(forced))
        assert sequence.accepted + sequence.passes == told or not told
        assert sequence.accepted <= sequence.drafted
        assert sequence.bonus <= sequence.passes
        assert (sequence.accepted, sequence.bonus) == (0, 0) or (draft and told)


@given(st.integers(0, 10**6), edits, texts, st.integers(1, 40), st.integers(1, 20))
def test_a_chain_is_as_many_single_steps(
    seed: int, changes: list, forced: list[int], limit: int, steps: int
) -> None:
    """The device goes on by itself, beyond the end too: what it says there counts for nothing."""
    decoder = Decoder(seed)
    draft = edited(from_scratch(decoder, forced[:6], limit).tokens, changes)
    one, other = (Sequence((BEGIN,), END, forced[:6], draft, limit) for _ in range(2))
    for each in (one, other):
        answers = decoder.run(0, each.feed())
        each.take(*(list(column) for column in zip(*answers, strict=True)))
    while not one.done:
        one.step()
        (newest,) = one.feed()
        answers = []
        for step in range(steps):
            fed = answers[-1][0] if step else newest
            answers += decoder.run(one.position + step, [fed])
        before = one.position
        true = one.follow(*(list(column) for column in zip(*answers, strict=True)))
        assert one.position == before + true
        for answer in answers[:true]:
            other.step()
            other.take(*([each] for each in answer))
        if one.done:
            assert other.done
            one._draft = other._draft  # nobody asks for it any more
            one._aside = other._aside
            one._fed = other._fed
        assert vars(one) == vars(other)


@given(st.integers(0, 10**6), edits, texts, st.integers(1, 40), st.integers(1, 5))
def test_a_decode_that_is_broken_off_goes_on_with_its_draft(
    seed: int, changes: list, forced: list[int], limit: int, passes: int
) -> None:
    decoder, forced = Decoder(seed), forced[:6]
    slow = from_scratch(decoder, forced, limit)
    one = Sequence((BEGIN,), END, forced, edited(slow.tokens[len(forced) :], changes), limit)
    for _ in range(passes):
        answers = decoder.run(one.position, one.feed())
        one.take(*(list(column) for column in zip(*answers, strict=True)))
        if one.done:
            return
    known = one.tokens[len(forced) :]
    assert list(one.draft[: len(known)]) == known
    decoder.cache.clear()
    other = Sequence((BEGIN,), END, forced, one.draft, limit)
    run(decoder, other)
    assert other.tokens == slow.tokens
    assert other.accepted >= len(known)


@given(texts, texts, st.integers(1, 40))
def test_a_pass_never_needs_more_cache_rows_than_the_limit_allows(
    forced: list[int], draft: list[int], limit: int
) -> None:
    """A cache of `limit + 1` rows is enough, or of the forced prefix and its begin mark."""
    decoder = Decoder(7)
    sequence = Sequence((BEGIN,), END, forced, draft, limit)
    while not sequence.done:
        fed = sequence.feed()
        assert sequence.position + len(fed) <= max(limit, len(forced)) + 1
        answers = decoder.run(sequence.position, fed)
        sequence.take(*(list(column) for column in zip(*answers, strict=True)))


class Recital(Decoder):
    """Says a given text, whatever it was told so far."""

    def __init__(self, text: Seq[int]) -> None:
        super().__init__(0)
        self.text = [*text, END]

    def answer(self, prefix: Seq[int]) -> Answer:
        return self.text[min(len(prefix) - 1, len(self.text) - 1)], -0.1, 5.0, len(prefix)


LONG = list(range(100, 120))


def test_a_draft_that_is_right_costs_one_pass() -> None:
    sequence = Sequence((BEGIN,), END, (), LONG, 112)
    assert run(Recital(LONG), sequence) == [21]
    assert sequence.tokens == LONG
    assert (sequence.accepted, sequence.bonus, sequence.produced) == (20, 1, 21)
    assert sequence.steps == 0


@pytest.mark.parametrize(
    ("draft", "passes"),
    [
        # the old closing mark is refused: what follows is told token by token
        ([*LONG[:17], 50], 4),
        # a wrong token amid the draft: the rest is found again after it
        ([*LONG[:5], 50, *LONG[6:]], 3),
        # a token was left out, or one too many
        ([*LONG[:5], *LONG[6:]], 3),
        ([*LONG[:5], 50, *LONG[5:]], 2),
    ],
)
def test_a_refused_draft_is_taken_up_again(draft: list[int], passes: int) -> None:
    sequence = Sequence((BEGIN,), END, (), draft, 112)
    assert len(run(Recital(LONG), sequence)) <= passes
    assert sequence.tokens == LONG


def test_the_limit_ends_a_loop() -> None:
    sequence = Sequence((BEGIN,), END, (), (), 8)
    run(Recital([7] * 100), sequence)
    assert sequence.tokens == [7] * 8
    assert not sequence.ended


def test_an_empty_text_is_one_pass() -> None:
    sequence = Sequence((BEGIN,), END, (), LONG, 112)
    assert run(Recital([]), sequence) == [21]
    assert sequence.tokens == []
    assert sequence.ended
    assert (sequence.accepted, sequence.produced) == (0, 1)


class Linguist(Recital):
    """Hears German, and recites in it; says something else where it is told otherwise."""

    def answer(self, prefix: Seq[int]) -> Answer:
        if len(prefix) == 1:
            return GERMAN, -3.0, 5.0, 0
        text = self.text if prefix[1] == GERMAN else [90, 91, END]
        return text[min(max(0, len(prefix) - 3), len(text) - 1)], -0.1, 5.0, len(prefix)


@pytest.mark.parametrize(("guess", "draft", "passes"), [(GERMAN, LONG, 1), (ENGLISH, [90, 91], 22)])
def test_a_language_is_a_guess_that_is_checked(guess: int, draft: list[int], passes: int) -> None:
    opening = (BEGIN, guess, NO_TIMES)
    sequence = Sequence(opening, END, (), draft, 112, marks={ENGLISH, GERMAN})
    assert sequence.silent == 2
    fed = run(Linguist(LONG), sequence, (BEGIN, GERMAN, NO_TIMES))
    assert len(fed) == passes
    assert sequence.tokens == LONG
    assert (sequence.mark, sequence.first) == (GERMAN, -3.0)


@pytest.mark.parametrize("marks", [(), {ENGLISH}, {ENGLISH, NO_TIMES}])
def test_a_language_that_is_told_or_not_among_those_allowed_stays(marks: set[int]) -> None:
    opening = (BEGIN, ENGLISH, NO_TIMES)
    sequence = Sequence(opening, END, (), (), 112, marks=marks)
    run(Linguist(LONG), sequence, opening)
    assert sequence.tokens == [90, 91]
    assert sequence.mark == ENGLISH


def test_a_forced_text_survives_another_language() -> None:
    sequence = Sequence((BEGIN, ENGLISH, NO_TIMES), END, LONG[:3], (), 112, marks={ENGLISH, GERMAN})
    run(Linguist(LONG), sequence, (BEGIN, GERMAN, NO_TIMES))
    assert sequence.tokens == LONG
