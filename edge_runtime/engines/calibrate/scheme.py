"""How every product of a model is computed: one set of scales for all devices, kept as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from edge_runtime.errors import CalibrationError, ModelDamaged, ModelMissing

FILE = "scheme.json"

LARGEST = 127
"""Symmetric 8-bit integers go from minus this to this."""

TABLE = "table"
"""The name of the product with the embedding table, which is also looked up in."""

_LEAST, _MOST = float(np.finfo(np.float16).tiny), float(np.finfo(np.float16).max)

Precision = Literal["int8", "fp16", "fp32"]


class Product(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True,
              omit_defaults=True):  # fmt: skip
    """How one matrix product or convolution is computed.

    `scale` is what one step of the 8-bit activation means, zero being zero; without it only
    the weights are rounded. `smooth` has a factor for each input channel: activations are
    divided by it, weights multiplied, which changes nothing but what is rounded (Xiao et al.
    2023, SmoothQuant).
    """

    precision: Precision = "int8"
    scale: float | None = None
    smooth: tuple[Annotated[float, msgspec.Meta(gt=0)], ...] = ()

    def __post_init__(self) -> None:
        if self.scale is not None and not _normal(self.scale):
            raise ValueError(f"scale {self.scale} is no normal float16")
        if not all(map(math.isfinite, self.smooth)):
            raise ValueError("smooth holds numbers that are not finite")


class Scheme(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The products by the name of their weight; those that are not there stay as they are."""

    products: Mapping[str, Product]

    def rounded(self, name: str) -> Product | None:
        """The product of that weight where it is one of 8-bit integers."""
        product = self.products.get(name)
        return product if product is not None and product.precision == "int8" else None


def _normal(scale: float) -> bool:
    return _LEAST <= scale <= _MOST and float(np.float16(scale)) == scale


def steps(largest: ArrayLike) -> NDArray[np.float32]:
    """The scales with which ±`largest` become ±127: float16, rounded up, never subnormal.

    So a graph in float16 has the very scales and integers that one in float32 has. Raises
    `CalibrationError` for what no float16 reaches.
    """
    exact = np.maximum(np.asarray(largest, np.float64) / LARGEST, _LEAST)
    if not (exact <= _MOST).all():
        raise CalibrationError(
            f"values of up to {exact.max() * LARGEST:g} are more than 8 bits can hold",
            "Keep that tensor in float32.",
        )
    scales = exact.astype(np.float16)
    scales = np.where(scales < exact, np.nextafter(scales, np.float16(np.inf)), scales)
    return scales.astype(np.float32)


def step(largest: float) -> float:
    """`steps` of one number."""
    return float(steps(largest))


def encode(scheme: Scheme) -> bytes:
    """The scheme as JSON; equal ones give equal bytes."""
    return msgspec.json.format(msgspec.json.encode(scheme, order="sorted"), indent=1) + b"\n"


def load(folder: Path) -> Scheme:
    """The scheme in `folder`; raises `ModelMissing` or `ModelDamaged`."""
    path = folder / FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Scheme)
    except FileNotFoundError:
        raise ModelMissing(
            f"{path} does not exist", "Run: edge-runtime calibrate MODEL --audio DIR"
        ) from None
    except msgspec.MsgspecError as error:
        raise ModelDamaged(
            f"{path}: {error}", "Run: edge-runtime calibrate MODEL --audio DIR"
        ) from None
