"""A recipe: where a model's weights travel, what they must hold, how its graphs are cut."""

from __future__ import annotations

import datetime
import difflib
import hashlib
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import msgspec

from edge_runtime.engines.architecture import (
    Architecture,
    Buckets,
    Marks,
    MoonshineArchitecture,
    WhisperArchitecture,
)
from edge_runtime.engines.record import Name, Positive, Record
from edge_runtime.engines.sources import Sources
from edge_runtime.errors import RecipeError


class Expected(Record, frozen=True, kw_only=True):
    """A word error rate (%) seen for this model, and where the figure comes from."""

    set: str
    wer: float
    source: str


class Verified(Record, frozen=True, kw_only=True):
    """What of this model was run by those who wrote the recipe, on which `device`, and when.

    `what` is short, for a list: "130 clips". A recipe without one was not run here.
    """

    what: Annotated[str, msgspec.Meta(min_length=1, max_length=60)]
    device: Annotated[str, msgspec.Meta(min_length=1, max_length=40)]
    date: datetime.date

    def __str__(self) -> str:
        return f"{self.what}, {self.device}, {self.date.isoformat()}"


class SileroArchitecture(Record, frozen=True, kw_only=True):
    """What the voice detector hears at once: `context` samples before a `frame` of them."""

    rate: Positive
    frame: Positive
    context: Positive
    hidden: Positive


class Recipe(Record, frozen=True, kw_only=True, tag_field="family"):
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
