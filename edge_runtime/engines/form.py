"""The form in which a model is computed: full precision, or the variant that is active."""

from __future__ import annotations

from dataclasses import dataclass

from edge_runtime.engines import variants
from edge_runtime.engines.plans import Wanted
from edge_runtime.engines.recipe import TiledRecipe
from edge_runtime.engines.store import Store
from edge_runtime.engines.variant import INT8, Variant
from edge_runtime.errors import EdgeRuntimeError

AUTO = "auto"


@dataclass(frozen=True)
class Form:
    """`variant` is the one that integers are made by; without it, any engine of integers will do.

    `full` is the precision to fall back on where there is nothing to run, None where that is no
    answer. `unused` says why the active variant is not used, and what helps.
    """

    precision: str
    variant: Variant | None = None
    full: str | None = None
    unused: str | None = None

    def wanted(
        self, flavour: str, version: str, capability: tuple[int, int] | None, *, named: bool = False
    ) -> Wanted:
        """The engine to look for; with `named` the line that builds it names the variant."""
        variant = self.variant
        return Wanted(
            self.precision,
            flavour,
            version,
            capability,
            scheme=None if variant is None else variant.info.scheme,
            variant=variant.info.fingerprint if variant is not None and named else "",
        )

    def fallen(self, error: EdgeRuntimeError) -> Form:
        """Full precision instead, because of `error`; raises it where that is no answer."""
        if self.full is None:
            raise error
        return Form(self.full, unused=str(error))


def form(store: Store, recipe: TiledRecipe, precision: str, full: str) -> Form:
    """What a precision of the configuration comes to for a model of the store.

    "auto" is the active variant where there is one that fits, else `full`, told why. "int8" is
    that variant or none: raises as `variants.active`.
    """
    if precision not in (AUTO, INT8):
        return Form(precision)
    try:
        variant = variants.active(store, recipe)
    except EdgeRuntimeError as error:
        return Form(INT8, full=full if precision == AUTO else None).fallen(error)
    if precision == INT8:
        return Form(INT8, variant)
    return Form(full) if variant is None else Form(INT8, variant, full)
