"""What the runner must know of an exported streaming transducer: `shape.json` beside its graphs."""

from __future__ import annotations

import msgspec


class PageShape(msgspec.Struct, frozen=True):
    """The states of one stream that are numbers of one type: how many."""

    dtype: str
    size: int


class Recurrent(msgspec.Struct, frozen=True):
    """A recurrent state of the predictor, of one stream."""

    dtype: str
    layers: int
    width: int


class ChunkShape(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="transducer"):
    """How a streaming transducer takes audio, and what it keeps of a stream.

    A feature frame is `length` samples, one every `step`; frame 0 begins at sample `first`, and
    what lies before sample 0 is its mirror image or zeros. A chunk is `window` feature frames, of
    which `lead` lie before those that it is about; the next one is `shift` later. It gives `frames`
    encoded vectors of `width`. The greedy loop takes `steps` steps before the host looks. After the
    last sample there come `flush` samples of silence, so that nothing stays in the encoder.
    """

    step: int
    first: int
    length: int
    mirrored: bool
    window: int
    shift: int
    lead: int
    frames: int
    width: int
    pages: tuple[PageShape, ...]
    context: int
    recurrent: tuple[Recurrent, ...]
    blank: int
    steps: int
    flush: int
    single: bool
    tokens_per_second: float
    vocabulary: int
    rate: int = 16000

    @property
    def grows(self) -> bool:
        """Whether text is only ever added to: what was said is not taken back."""
        return True

    @property
    def samples(self) -> int:
        """Samples that a chunk looks at."""
        return (self.window - 1) * self.step + self.length

    @property
    def hop(self) -> int:
        """Samples from one chunk to the next."""
        return self.shift * self.step

    @property
    def frame_seconds(self) -> float:
        """Time from one encoded frame to the next."""
        return self.hop / self.frames / self.rate

    @property
    def shortest(self) -> int:
        """Samples of the least audio that makes the device work."""
        return self.end(0)

    def begin(self, chunk: int) -> int:
        """The first sample that a chunk looks at; negative where that lies before the first."""
        return (chunk * self.shift - self.lead) * self.step + self.first

    def end(self, chunk: int) -> int:
        """Past the last sample that a chunk looks at."""
        return self.begin(chunk) + self.samples

    def missing(self, chunk: int) -> int:
        """Feature frames at the start of a chunk that lie before the first one."""
        return max(0, self.lead - chunk * self.shift)

    def ready(self, samples: int) -> int:
        """How many chunks can be run on so much audio while more is to come."""
        return max(0, (samples - self.end(0)) // self.hop + 1)

    def whole(self, samples: int) -> int:
        """How many chunks there are to so much audio once it is over, silence behind it."""
        return -(-(samples + self.flush) // self.hop)
