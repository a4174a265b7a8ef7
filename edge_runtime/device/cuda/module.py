"""Machine code on the GPU, and the kernels in it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from edge_runtime.device.cuda.base import Driver
from edge_runtime.device.cuda.status import check
from edge_runtime.errors import DeviceError, DeviceLost


class Module:
    """What NVRTC gave, loaded: `kernels` by name, as `cuLaunchKernel` takes them."""

    def __init__(self, driver: Driver, code: bytes, names: Sequence[str]) -> None:
        """Raises `DeviceError` where the code is not for this GPU or has no such kernel."""
        from cuda.bindings import driver as cuda

        self._cuda = cuda
        self._driver = driver
        driver.current()
        self._handle: Any = check("cuModuleLoadData", cuda.cuModuleLoadData(code))
        try:
            self.kernels: dict[str, Any] = {name: self._find(name) for name in names}
        except DeviceError:
            self.close()
            raise

    def close(self) -> None:
        """Unload it, when nothing that launches its kernels is replayed any more."""
        if self._handle is None:
            return
        handle, self._handle = self._handle, None
        with contextlib.suppress(DeviceLost):
            self._driver.current()
            check("cuModuleUnload", self._cuda.cuModuleUnload(handle))

    def _find(self, name: str) -> Any:
        return check(
            "cuModuleGetFunction", self._cuda.cuModuleGetFunction(self._handle, name.encode())
        )
