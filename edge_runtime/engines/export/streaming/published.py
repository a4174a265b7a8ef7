"""Streaming transducers as they are published in ONNX: told by what their tensors and notes say."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import onnx

from edge_runtime.errors import ModelDamaged

_TURN = re.compile(r"(?:^|_)(?:new|next|out)(?=_|$)")
_FLOATS = {onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16}
_INTEGERS = {onnx.TensorProto.INT64, onnx.TensorProto.INT32}


@dataclass(frozen=True)
class Tensor:
    """An input or output; None are dimensions that a call decides."""

    name: str
    dtype: int
    shape: tuple[int | None, ...]

    @property
    def floating(self) -> bool:
        return self.dtype in _FLOATS


@dataclass(frozen=True)
class State:
    """What one call hands to the next: its sizes for one stream, and the axis of streams."""

    given: str
    taken: str
    dtype: int
    shape: tuple[int, ...]
    axis: int


@dataclass(frozen=True)
class Published:
    """A file of such a model: the graph without its weights' bytes, and the notes in it."""

    path: Path
    model: Any
    notes: dict[str, str]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]

    def damaged(self, what: str) -> ModelDamaged:
        return ModelDamaged(
            f"{self.path.name}: {what}", "Take the files of a streaming transducer in ONNX form."
        )

    def number(self, note: str) -> int:
        """A number that the notes must hold."""
        try:
            return int(self.notes[note])
        except (KeyError, ValueError):
            raise self.damaged(f"its notes do not say {note!r}") from None


@dataclass(frozen=True)
class Encoder:
    """The encoder: `window` frames of `bins` features in, `frames` vectors of `width` out.

    The window moves by `shift` frames; `lead` of its frames lie before those that a call is
    about. `bands_first` and `width_first` tell which of two axes comes first. `length` is the
    input that wants the number of frames, if one does; `single` encoders take one stream a call.
    """

    file: Published
    features: str
    length: Tensor | None
    encoded: str
    states: tuple[State, ...]
    window: int
    shift: int
    lead: int
    bins: int
    frames: int
    width: int
    bands_first: bool
    width_first: bool
    nemo: bool
    single: bool


@dataclass(frozen=True)
class Predictor:
    """The predictor: the last `context` tokens and recurrent `states` in, one vector out."""

    file: Published
    tokens: Tensor
    lengths: tuple[Tensor, ...]
    predicted: str
    states: tuple[State, ...] = field(default=())

    @property
    def context(self) -> int:
        return self.tokens.shape[1] or 1


@dataclass(frozen=True)
class Joiner:
    """The joiner: one vector of the encoder, one of the predictor in, logits out.

    `ranks` are the dimensions that its two inputs have.
    """

    file: Published
    encoded: Tensor
    predicted: Tensor
    logits: str


@dataclass(frozen=True)
class Transducer:
    """The three files of a model."""

    encoder: Encoder
    predictor: Predictor
    joiner: Joiner


def find(folder: Path, names: Iterable[str] | None = None) -> Transducer:
    """The transducer in a folder, whatever its files are called.

    Of several forms of a part (float and 8-bit) the recipe's `names` say which one is meant.
    Raises `ModelDamaged` saying which part is missing, or what a part does not say.
    """
    wanted = sorted(folder.glob("*.onnx")) if names is None else [folder / name for name in names]
    encoder = predictor = joiner = None
    files = [read(path) for path in wanted if path.suffix == ".onnx"]
    # One part may say what another one leaves open.
    notes = {name: note for file in files for name, note in file.notes.items()}
    for file in (replace(each, notes=notes | each.notes) for each in files):
        if any(tensor.dtype in _INTEGERS and len(tensor.shape) == 2 for tensor in file.inputs):
            predictor = _predictor(file)
        elif len(file.inputs) == 2 and len(file.outputs) == 1:
            joiner = _joiner(file)
        else:
            encoder = _encoder(file)
    parts = {"encoder": encoder, "predictor": predictor, "joiner": joiner}
    missing = [name for name, part in parts.items() if part is None]
    if missing:
        raise ModelDamaged(
            f"{folder} holds no {' and no '.join(missing)} of a streaming transducer",
            "It needs three ONNX files (encoder, decoder, joiner) and tokens.txt.",
        )
    assert encoder is not None
    assert predictor is not None
    assert joiner is not None
    return Transducer(encoder, predictor, joiner)


def read(path: Path) -> Published:
    """A file without the bytes of its weights, where these lie beside it. Raises `ModelDamaged`."""
    try:
        model = onnx.load(str(path), load_external_data=False)
    except Exception as error:  # protobuf's and the system's errors share no base but Exception
        raise ModelDamaged(
            f"{path} cannot be read: {error}", "Run: edge-runtime pull MODEL --again"
        ) from error
    weights = {tensor.name for tensor in model.graph.initializer}
    return Published(
        path,
        model,
        {note.key: note.value for note in model.metadata_props},
        tuple(_tensor(each) for each in model.graph.input if each.name not in weights),
        tuple(_tensor(each) for each in model.graph.output),
    )


def _tensor(value: Any) -> Tensor:
    kind = value.type.tensor_type
    shape = tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in kind.shape.dim)
    return Tensor(value.name, kind.elem_type, shape)


def _encoder(file: Published) -> Encoder:
    pairs = _paired(file)
    free = [tensor for tensor in file.inputs if tensor.name not in pairs]
    features = [tensor for tensor in free if tensor.floating and len(tensor.shape) == 3]
    lengths = [tensor for tensor in free if tensor.dtype in _INTEGERS and len(tensor.shape) == 1]
    if len(features) != 1 or len(lengths) > 1 or len(features) + len(lengths) != len(free):
        raise file.damaged(f"cannot tell what its inputs {[each.name for each in free]} are")
    (x,) = features
    encoded = next(each for each in file.outputs if each.name not in pairs.values())
    nemo = "chunk_shift" in file.notes
    window = file.number("window_size" if nemo else "T")
    shift = file.number("chunk_shift" if nemo else "decode_chunk_len")
    bins_first = x.shape[1] is not None and x.shape[1] != window
    bins = x.shape[1] if bins_first else x.shape[2]
    if bins is None:
        bins = file.number("feat_dim")
    taken = set(pairs.values())
    outputs = {tensor.name: tensor for tensor in file.outputs if tensor.name in taken}
    states = tuple(
        _state(file, tensor, outputs[pairs[tensor.name]].name)
        for tensor in file.inputs
        if tensor.name in pairs
    )
    frames, width, width_first = _encoded(file, encoded, shift, nemo=nemo)
    return Encoder(
        file, x.name, lengths[0] if lengths else None, encoded.name, states,
        window, shift, window - shift if nemo else 0, bins, frames, width,
        bins_first, width_first, nemo, x.shape[0] is not None,
    )  # fmt: skip


def _encoded(file: Published, encoded: Tensor, shift: int, *, nemo: bool) -> tuple[int, int, bool]:
    """Frames that come out of a call, how wide each is, and whether the width comes first."""
    first, second = encoded.shape[1:]
    if not nemo:
        if first is None or second is None:
            raise file.damaged(f"the shape of {encoded.name!r} is not fixed")
        return first, second, False
    frames = shift // file.number("subsampling_factor")
    width = first or file.number("cache_last_channel_dim3")
    return frames, width, True


def _paired(file: Published) -> dict[str, str]:
    """Which output each input comes from in the next call: names agree but for one word."""
    inputs = {tensor.name for tensor in file.inputs}
    return {
        bare: tensor.name
        for tensor in file.outputs
        if (bare := _TURN.sub("", tensor.name).strip("_")) in inputs and bare != tensor.name
    }


def _state(file: Published, tensor: Tensor, taken: str) -> State:
    """Sizes that the graph leaves open stand in the notes, but that of the axis of streams."""
    shape = list(tensor.shape)
    for place, size in enumerate(shape):
        note = file.notes.get(f"{tensor.name}_dim{place}")
        if size is None and note is not None:
            shape[place] = int(note)
    open_axes = [place for place, size in enumerate(shape) if size is None]
    if len(open_axes) > 1:
        raise file.damaged(f"cannot tell the size of {tensor.name!r}, {list(tensor.shape)}")
    axis = open_axes[0] if open_axes else 0
    return State(
        tensor.name, taken, tensor.dtype, tuple(1 if size is None else size for size in shape), axis
    )


def _predictor(file: Published) -> Predictor:
    tokens = next(each for each in file.inputs if each.dtype in _INTEGERS and len(each.shape) == 2)
    lengths = tuple(
        each for each in file.inputs if each.dtype in _INTEGERS and len(each.shape) == 1
    )
    given = [each for each in file.inputs if each.floating]
    predicted, *taken = [each for each in file.outputs if each.floating]
    if len(given) != len(taken):
        raise file.damaged(f"has {len(given)} states, and gives {len(taken)}")
    states = []
    for one, other in zip(given, taken, strict=True):
        layers, width = one.shape[0], one.shape[2]
        states.append(
            State(
                one.name,
                other.name,
                one.dtype,
                (layers or file.number("pred_rnn_layers"), 1, width or file.number("pred_hidden")),
                1,
            )
        )
    return Predictor(file, tokens, lengths, predicted.name, tuple(states))


def _joiner(file: Published) -> Joiner:
    encoded, predicted = file.inputs
    return Joiner(file, encoded, predicted, file.outputs[0].name)
