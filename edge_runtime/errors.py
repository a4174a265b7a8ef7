"""Every error that a user can meet: one tree, each with a code and the fix."""

from __future__ import annotations


class EdgeRuntimeError(Exception):
    """Base of the tree.

    `code` is a stable machine-readable word, `fix` one sentence that says what
    to do about it. `str(error)` is the message, then the fix.
    """

    code = "internal"

    def __init__(self, message: str, fix: str = "") -> None:
        self.message = message
        self.fix = fix
        super().__init__(f"{message}. {fix}" if fix else message)


class LanguageError(EdgeRuntimeError, ValueError):
    """A language, or a task, that the model does not know."""

    code = "unsupported_language"


class ConfigError(EdgeRuntimeError, ValueError):
    """A configuration file, variable or option that cannot be used."""

    code = "config"


class RecipeError(EdgeRuntimeError, ValueError):
    """A recipe that is malformed or names something unknown."""

    code = "recipe"


class ModelMissing(EdgeRuntimeError, FileNotFoundError):
    """The model, or a file of it, is not in the store."""

    code = "model_missing"


class ModelDamaged(EdgeRuntimeError, ValueError):
    """A file of a model does not hold what its recipe says."""

    code = "model_damaged"


class DownloadFailed(EdgeRuntimeError, OSError):
    """Weights could not be fetched."""

    code = "download"


class StoreUnwritable(EdgeRuntimeError, PermissionError):
    """The store cannot be written: permission, or a full disk."""

    code = "store"


class AudioError(EdgeRuntimeError, ValueError):
    """Audio that cannot be read or used."""

    code = "audio"


class CalibrationError(EdgeRuntimeError, ValueError):
    """Audio that does not do to calibrate a model by, or ranges that cannot be right."""

    code = "calibration"


class MicrophoneError(EdgeRuntimeError, OSError):
    """No such microphone, or it cannot be opened."""

    code = "microphone"


class DeviceError(EdgeRuntimeError, RuntimeError):
    """The compute device cannot be used, or failed at a call."""

    code = "device"


class DeviceLost(DeviceError):
    """The device faulted: nothing that it holds can be used again, it must be opened anew."""

    code = "device_lost"


class MemoryCapped(DeviceError):
    """What is allowed of the GPU's memory is taken: `[computing] memory_mb`."""

    code = "memory_cap"


class MemoryShort(EdgeRuntimeError, MemoryError):
    """There is no memory for one more model."""

    code = "memory_short"


class EngineMismatch(DeviceError):
    """There are engines of the model, and none is for this model, library, device and use."""

    code = "engine_mismatch"


class ServiceError(EdgeRuntimeError, RuntimeError):
    """The systemd service cannot be installed, removed or asked."""

    code = "service"


class PortTaken(EdgeRuntimeError, OSError):
    """Another process listens on the address."""

    code = "port_taken"


class ServerUnreachable(EdgeRuntimeError, ConnectionError):
    """No server answers at an address, or it hung up before the end."""

    code = "unreachable"


class MissingExtra(EdgeRuntimeError, ImportError):
    """An optional dependency is needed and not installed."""

    code = "missing_extra"


class ProtocolError(EdgeRuntimeError, ValueError):
    """A client broke the protocol; the connection closes with `close_code`."""

    def __init__(self, code: str, message: str, fix: str, close_code: int = 1008) -> None:
        self.code = code
        self.close_code = close_code
        super().__init__(message, fix)


class NotAdmitted(ProtocolError):
    """A client is turned away with this HTTP `status`, before anything that it sends is taken."""

    def __init__(
        self, code: str, message: str, fix: str, status: int, retry_after: int | None = None
    ) -> None:
        self.status = status
        self.retry_after = retry_after
        super().__init__(code, message, fix)


class ServerFull(ProtocolError):
    """No room for another session: try again in `retry_after` seconds."""

    def __init__(self, message: str, fix: str, retry_after: int = 5) -> None:
        self.retry_after = retry_after
        super().__init__("full", message, fix, close_code=1013)
