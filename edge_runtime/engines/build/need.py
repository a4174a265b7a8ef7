"""Whether a server of this machine needs an engine built: what a unit asks before it builds."""

from __future__ import annotations

from dataclasses import replace

from edge_runtime.device import candidates
from edge_runtime.device.cuda import present
from edge_runtime.device.tensorrt.module import FLAVOURS, find_tensorrt, installed
from edge_runtime.engines.board import board
from edge_runtime.engines.form import Form
from edge_runtime.engines.plans import find
from edge_runtime.engines.recipe import BuiltRecipe
from edge_runtime.engines.store import Store
from edge_runtime.errors import EngineMismatch, ModelDamaged, ModelMissing


def needless(
    recipe: BuiltRecipe,
    store: Store,
    *,
    device: str,
    form: Form,
    tensorrt: str,
    index: int,
    samples: int,
) -> str | None:
    """Why nothing need be built here; None where a build is due.

    `form` is what the model is to be computed in, `index` the number of the GPU, `samples` the
    longest row. It is what the server looks for
    that counts, so an engine that was imported, or built for larger batches, will do. Raises
    `ConfigError` for an unknown device, `MissingExtra` where TensorRT is installed and does not
    load.
    """
    if device != "auto" and candidates(device) != ("tensorrt",):
        return f"no engine is needed: the settings name the device {device}"
    if not present():
        return "no engine is needed: there is no NVIDIA GPU here, or its driver is not loaded"
    flavours = FLAVOURS if tensorrt == "auto" else (tensorrt,)
    if not set(flavours) & set(installed()):
        return f"no engine can be used: {' or '.join(flavours)} is not installed"
    library, here = find_tensorrt(tensorrt), board(index)
    wanted = form.wanted(library.flavour, library.version, here.capability)
    try:
        engine = find(store, recipe, replace(wanted, samples=samples))
    except (EngineMismatch, ModelDamaged, ModelMissing):
        return None
    return f"there is an engine that serves here, {engine.folder}"
