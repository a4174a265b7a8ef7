"""Dimensions of a model, the shapes that its graphs run at, and tokens that mean no text."""

from __future__ import annotations

from edge_runtime.engines.record import Positive, Record


class Buckets(Record, frozen=True, kw_only=True):
    """The shapes graphs run at, ascending: what is asked for is padded to the next one."""

    audio_seconds: tuple[float, ...]
    draft_tokens: tuple[Positive, ...]

    def __post_init__(self) -> None:
        for field in ("audio_seconds", "draft_tokens"):
            steps = getattr(self, field)
            if not steps or list(steps) != sorted(set(steps)) or steps[0] <= 0:
                raise ValueError(f"{field} must be positive and ascending, got {list(steps)}")


class Architecture(Record, frozen=True, kw_only=True):
    """Dimensions of an encoder and a decoder with cross-attention.

    Graphs carry heads of `padded_head_dim`. `past` is the length of the decoder's
    self-attention cache, in tokens; a decode begins with `bos` and ends with `eos`.
    """

    encoder_layers: Positive
    decoder_layers: Positive
    width: Positive
    heads: Positive
    head_dim: Positive
    padded_head_dim: Positive
    encoder_mlp: Positive
    decoder_mlp: Positive
    past: Positive
    vocabulary: Positive
    bos: int
    eos: int
    norm_epsilon: float
    tokens_per_second: float

    def __post_init__(self) -> None:
        if self.heads * self.head_dim != self.width:
            raise ValueError(f"{self.heads} heads of {self.head_dim} are not {self.width} wide")
        if self.padded_head_dim < self.head_dim:
            raise ValueError("padded_head_dim is smaller than head_dim")


class MoonshineArchitecture(Architecture, frozen=True, kw_only=True):
    """`rotary` of each head's `head_dim` dimensions turn with the position, at base `theta`."""

    rotary: Positive
    theta: float
    conv_channels: tuple[Positive, Positive, Positive]
    conv_kernels: tuple[Positive, Positive, Positive]
    conv_strides: tuple[Positive, Positive, Positive]

    def __post_init__(self) -> None:
        Architecture.__post_init__(self)
        if self.conv_channels[2] != self.width:
            raise ValueError("the last of conv_channels must be the width")
        if self.rotary % 2 or self.rotary > self.head_dim:
            raise ValueError("rotary must be even and at most head_dim")

    def frames(self, samples: int) -> int:
        """Encoder frames of `samples` at 16 kHz: three unpadded convolutions, at least 0."""
        for kernel, stride in zip(self.conv_kernels, self.conv_strides, strict=True):
            samples = max(0, (samples - kernel) // stride + 1)
        return samples


class WhisperArchitecture(Architecture, frozen=True, kw_only=True):
    """The encoder sees `context` frames of 20 ms: shorter audio is padded to a multiple of
    `context_step`, all of `context` where the two are the same.

    `positions` is how many tokens the decoder has positions for. `tokens` of the vocabulary
    have a meaning; the rest pads it for the search of the best.
    """

    mel_bins: Positive
    context: Positive
    context_step: Positive
    positions: Positive
    tokens: Positive

    def __post_init__(self) -> None:
        Architecture.__post_init__(self)
        if self.context % self.context_step:
            raise ValueError("context must be a multiple of context_step")
        if self.past > self.positions:
            raise ValueError("past is longer than there are positions")
        if self.tokens > self.vocabulary:
            raise ValueError("vocabulary is smaller than its tokens")


class Marks(Record, frozen=True, kw_only=True):
    """Tokens that mean no text: what a decode begins with, and what it may not say.

    After `bos` a multilingual model is told the language (`first_language` is that of the
    recipe's first language, the others follow) and the task; `closing` come last. The first
    answer tells how likely `no_speech` is. `suppressed` are never said, `suppressed_first` not at
    once.
    """

    no_speech: int
    closing: tuple[int, ...]
    suppressed: tuple[int, ...]
    suppressed_first: tuple[int, ...]
    first_language: int | None = None
    transcribe: int | None = None
    translate: int | None = None

    def __post_init__(self) -> None:
        told = (self.first_language, self.transcribe, self.translate)
        if any(each is None for each in told) and any(each is not None for each in told):
            raise ValueError("first_language, transcribe and translate belong together")
