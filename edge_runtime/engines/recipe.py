"""A recipe: where a model's weights travel, what they must hold, how its graphs are cut."""

from __future__ import annotations

import datetime
import difflib
import hashlib
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import msgspec

from edge_runtime.errors import RecipeError

Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9.-]*$")]
Sha256 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]
# A bare file name: a recipe must not reach out of the folder it is given.
FileName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]
FolderName = Annotated[str, msgspec.Meta(pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.-]*(/(?!$)|$))*$")]
Positive = Annotated[int, msgspec.Meta(ge=1)]


class _Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class SourceFile(_Record, frozen=True, kw_only=True):
    """A file of the weights. Without `sha256`, what the source says of it counts."""

    name: FileName
    size: Positive | None = None
    sha256: Sha256 | None = None


class Source(_Record, frozen=True, kw_only=True):
    """One form in which the weights travel; `reader` is the module that reads it."""

    reader: Literal["ort", "safetensors", "onnx", "ctranslate2"]
    files: Annotated[tuple[SourceFile, ...], msgspec.Meta(min_length=1)]

    @property
    def all_files(self) -> tuple[SourceFile, ...]:
        """Every file of the source, wherever in it that lies."""
        return self.files


class Wheel(_Record, frozen=True, kw_only=True):
    """Files inside `folder` of a wheel on the package index.

    `platform` is the tag the wheel was uploaded under, `download_size` its bytes.
    """

    package: str
    version: str
    platform: str
    folder: str
    download_size: Positive
    files: Annotated[tuple[SourceFile, ...], msgspec.Meta(min_length=1)]


class PypiSource(Source, frozen=True, kw_only=True):
    """Files in a wheel, as of `Wheel`, or in `more` than one: an index limits the size of each."""

    package: str
    version: str
    platform: str
    folder: str
    download_size: Positive
    more: tuple[Wheel, ...] = ()

    @property
    def wheels(self) -> tuple[Wheel, ...]:
        """All of them, in order."""
        first = Wheel(
            package=self.package,
            version=self.version,
            platform=self.platform,
            folder=self.folder,
            download_size=self.download_size,
            files=self.files,
        )
        return (first, *self.more)

    @property
    def all_files(self) -> tuple[SourceFile, ...]:
        return tuple(file for wheel in self.wheels for file in wheel.files)


class HubSource(Source, frozen=True, kw_only=True):
    """Files of a repository on a model hub, in `folder` there where that has a name."""

    repo: str
    revision: str
    folder: FolderName = ""

    def path(self, file: SourceFile) -> str:
        """Where in the repository it lies."""
        return f"{self.folder}/{file.name}" if self.folder else file.name


class Sources(_Record, frozen=True, kw_only=True):
    """Where a model can be had from, the first one by default."""

    pypi: PypiSource | None = None
    hub: HubSource | None = None

    def named(self) -> dict[str, PypiSource | HubSource]:
        """The sources that there are, by name, in the order they are tried."""
        both = {"pypi": self.pypi, "hub": self.hub}
        return {name: source for name, source in both.items() if source is not None}


class Expected(_Record, frozen=True, kw_only=True):
    """A word error rate (%) seen for this model, and where the figure comes from."""

    set: str
    wer: float
    source: str


class Verified(_Record, frozen=True, kw_only=True):
    """What of this model was run by those who wrote the recipe, on which `device`, and when.

    `what` is short, for a list: "130 clips". A recipe without one was not run here.
    """

    what: Annotated[str, msgspec.Meta(min_length=1, max_length=60)]
    device: Annotated[str, msgspec.Meta(min_length=1, max_length=40)]
    date: datetime.date

    def __str__(self) -> str:
        return f"{self.what}, {self.device}, {self.date.isoformat()}"


class Buckets(_Record, frozen=True, kw_only=True):
    """The shapes graphs run at, ascending: what is asked for is padded to the next one."""

    audio_seconds: tuple[float, ...]
    draft_tokens: tuple[Positive, ...]

    def __post_init__(self) -> None:
        for field in ("audio_seconds", "draft_tokens"):
            steps = getattr(self, field)
            if not steps or list(steps) != sorted(set(steps)) or steps[0] <= 0:
                raise ValueError(f"{field} must be positive and ascending, got {list(steps)}")


class Architecture(_Record, frozen=True, kw_only=True):
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


class Marks(_Record, frozen=True, kw_only=True):
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


class SileroArchitecture(_Record, frozen=True, kw_only=True):
    """What the voice detector hears at once: `context` samples before a `frame` of them."""

    rate: Positive
    frame: Positive
    context: Positive
    hidden: Positive


class Recipe(_Record, frozen=True, kw_only=True, tag_field="family"):
    """What every model's recipe says; the family decides the rest.

    `streaming`: a "re-encoding" model hears the whole segment again at each update, one of "true
    streaming" hears each sound once, and keeps state for each session; "stateful" is a voice
    detector. Of `expected` the first is that of the graphs that are made of the recipe.
    """

    name: Name
    title: str
    publisher: str
    languages: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    licence: str
    streaming: Literal["re-encoding", "true streaming", "stateful"]
    sources: Sources
    requires: tuple[Name, ...] = ()
    expected: tuple[Expected, ...] = ()
    verified: tuple[Verified, ...] = ()

    def __post_init__(self) -> None:
        if not self.sources.named():
            raise ValueError("a recipe needs a source")

    @property
    def family(self) -> str:
        """What kind of model it is: the exporter goes by this."""
        return str(self.__struct_config__.tag)

    @property
    def size(self) -> int | None:
        """Bytes of the weights as they come from the first source, where the recipe tells."""
        sizes = [file.size for file in next(iter(self.sources.named().values())).all_files]
        return sum(size for size in sizes if size) if all(sizes) else None

    @property
    def hash(self) -> str:
        """sha256 (hex) of all that the exported graphs depend on, the weights aside."""
        content = msgspec.to_builtins({"family": self.family, **self._graph_content()})
        return hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()

    def _graph_content(self) -> dict[str, object]:
        raise NotImplementedError


class EncoderDecoderRecipe(Recipe, frozen=True, kw_only=True):
    """An encoder and a decoder in tiles, which read a whole segment at each update.

    `decoder_tiles` says how many layers each decoder tile has, in order.
    `alignment_heads` are (layer, head) of the decoder's cross-attention, one at least.
    """

    placed: ClassVar[bool]
    """Whether the embedding of a token tells its position."""

    architecture: Architecture
    decoder_tiles: Annotated[tuple[Positive, ...], msgspec.Meta(min_length=1)]
    alignment_heads: tuple[tuple[int, int], ...]
    buckets: Buckets

    @property
    def fixed_frames(self) -> int | None:
        """The frames that the encoder gives of any audio; None where these follow its length."""
        return None

    def __post_init__(self) -> None:
        Recipe.__post_init__(self)
        if sum(self.decoder_tiles) != self.architecture.decoder_layers:
            raise ValueError(
                f"decoder_tiles {list(self.decoder_tiles)} do not add up to "
                f"{self.architecture.decoder_layers} layers"
            )
        if self.buckets.draft_tokens[-1] > self.architecture.past:
            raise ValueError("the longest of draft_tokens does not fit in past")
        if not self.alignment_heads:
            raise ValueError("alignment_heads must name a head: they tell where a word is spoken")
        layers, heads = range(self.architecture.decoder_layers), range(self.architecture.heads)
        for layer, head in self.alignment_heads:
            if layer not in layers or head not in heads:
                raise ValueError(f"alignment_heads: there is no head {[layer, head]}")

    def _graph_content(self) -> dict[str, object]:
        return {
            "architecture": self.architecture,
            "decoder_tiles": self.decoder_tiles,
            "alignment_heads": self.alignment_heads,
        }


class MoonshineRecipe(EncoderDecoderRecipe, frozen=True, kw_only=True, tag="moonshine"):
    """It hears the raw wave, as much of it as there is."""

    placed: ClassVar[bool] = False

    architecture: MoonshineArchitecture


class WhisperRecipe(EncoderDecoderRecipe, frozen=True, kw_only=True, tag="whisper"):
    """It hears a spectrogram in a window of fixed length, and is told language and task."""

    placed: ClassVar[bool] = True

    architecture: WhisperArchitecture
    marks: Marks

    @property
    def fixed_frames(self) -> int | None:
        dims = self.architecture
        return dims.context if dims.context == dims.context_step else None

    def _graph_content(self) -> dict[str, object]:
        return {
            **EncoderDecoderRecipe._graph_content(self),
            "marks": self.marks,
            "languages": self.languages,
        }


class SileroRecipe(Recipe, frozen=True, kw_only=True, tag="silero"):
    """The voice detector that every model's audio passes first."""

    architecture: SileroArchitecture

    def _graph_content(self) -> dict[str, object]:
        return {"architecture": self.architecture}


class TransducerRecipe(Recipe, frozen=True, kw_only=True, tag="transducer"):
    """A streaming transducer in the ONNX form it is published in, whose files say the rest.

    At most `symbols_per_frame` tokens are taken from one encoded frame. `flush_ms` of silence
    follow the last sample, so that what the encoder holds back comes out.
    """

    decoder_tiles: ClassVar[tuple[int, ...]] = ()
    """Its graphs are not cut."""

    symbols_per_frame: Annotated[int, msgspec.Meta(ge=1, le=20)]
    flush_ms: Annotated[int, msgspec.Meta(ge=0, le=5000)]
    tokens_per_second: Annotated[float, msgspec.Meta(gt=0)]

    def _graph_content(self) -> dict[str, object]:
        return {
            "symbols_per_frame": self.symbols_per_frame,
            "flush_ms": self.flush_ms,
            "tokens_per_second": self.tokens_per_second,
        }


class MoonshineStreamingRecipe(Recipe, frozen=True, kw_only=True, tag="moonshine-streaming"):
    """A Moonshine v2 in the five programs it is published in, whose description says the rest."""

    tokens_per_second: Annotated[float, msgspec.Meta(gt=0)]

    def _graph_content(self) -> dict[str, object]:
        return {"tokens_per_second": self.tokens_per_second}


TiledRecipe = MoonshineRecipe | WhisperRecipe
"""The families whose encoder and decoder are tiles, which plans can be built of."""

StreamingRecipe = TransducerRecipe | MoonshineStreamingRecipe
"""Those that stream: they run as they are published."""

BuiltRecipe = TiledRecipe | TransducerRecipe
"""Those that plans are built of."""

SpeechRecipe = TiledRecipe | StreamingRecipe
"""Those that turn speech into text."""

AnyRecipe = SpeechRecipe | SileroRecipe


def recipes_folder() -> Path:
    """The folder of the recipes: inside the wheel, or `engines/` of a checkout."""
    package = Path(__file__).resolve().parents[1]
    shipped = package / "recipes"
    return shipped if shipped.is_dir() else package.parent / "engines"


def recipes() -> tuple[str, ...]:
    """Names of all recipes that come with the program, sorted."""
    return tuple(sorted(path.stem for path in recipes_folder().glob("*.toml")))


def load_recipe(name_or_path: str | Path) -> AnyRecipe:
    """The recipe of that name, or the one in the `.toml` file at that path.

    Raises `RecipeError` for an unknown name, a file that cannot be read, and
    for any field that is unknown, missing or out of range.
    """
    path = _find(str(name_or_path))
    try:
        recipe: AnyRecipe = msgspec.toml.decode(path.read_bytes(), type=AnyRecipe)
    except OSError as error:
        raise RecipeError(
            f"{path} cannot be read: {error.strerror}", "Give this user read permission."
        ) from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path}: {error}", "Correct the recipe.") from error
    if path.stem != recipe.name:
        raise RecipeError(f"{path} names itself {recipe.name!r}", "File and name must agree.")
    return recipe


def _find(name: str) -> Path:
    if name.endswith(".toml"):
        path = Path(name).expanduser()
        if not path.is_file():
            raise RecipeError(f"there is no recipe {path}", "Check the path.")
        return path
    known = recipes()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(known)}."
        raise RecipeError(f"there is no recipe {name!r}", hint)
    return recipes_folder() / f"{name}.toml"
