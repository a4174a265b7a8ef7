"""The types of `cuda.bindings.driver` that edge_runtime uses, with CUDA's values."""

from __future__ import annotations

import enum


class CUresult(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NOT_INITIALIZED = 3
    CUDA_ERROR_DEINITIALIZED = 4
    CUDA_ERROR_STUB_LIBRARY = 34
    CUDA_ERROR_DEVICE_UNAVAILABLE = 46
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_INVALID_DEVICE = 101
    CUDA_ERROR_INVALID_CONTEXT = 201
    CUDA_ERROR_ECC_UNCORRECTABLE = 214
    CUDA_ERROR_INVALID_HANDLE = 400
    CUDA_ERROR_NOT_FOUND = 500
    CUDA_ERROR_NOT_READY = 600
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_LAUNCH_TIMEOUT = 702
    CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE = 708
    CUDA_ERROR_CONTEXT_IS_DESTROYED = 709
    CUDA_ERROR_LAUNCH_FAILED = 719
    CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901
    CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903
    CUDA_ERROR_CAPTURED_EVENT = 907
    CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD = 908
    CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE = 910
    CUDA_ERROR_UNKNOWN = 999


OK = CUresult.CUDA_SUCCESS
TEXTS = {
    CUresult.CUDA_ERROR_INVALID_VALUE: "invalid argument",
    CUresult.CUDA_ERROR_OUT_OF_MEMORY: "out of memory",
    CUresult.CUDA_ERROR_INVALID_CONTEXT: "invalid device context",
    CUresult.CUDA_ERROR_NOT_READY: "device not ready",
    CUresult.CUDA_ERROR_ILLEGAL_ADDRESS: "an illegal memory access was encountered",
    CUresult.CUDA_ERROR_LAUNCH_FAILED: "unspecified launch failure",
    CUresult.CUDA_ERROR_CONTEXT_IS_DESTROYED: "context is destroyed",
}


class CUdevice_attribute(enum.IntEnum):  # noqa: N801 - cuda-bindings' name
    CU_DEVICE_ATTRIBUTE_INTEGRATED = 18
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76


class CUstream_flags(enum.IntEnum):  # noqa: N801
    CU_STREAM_DEFAULT = 0
    CU_STREAM_NON_BLOCKING = 1


class CUctx_flags(enum.IntEnum):  # noqa: N801
    CU_CTX_SCHED_AUTO = 0
    CU_CTX_SCHED_BLOCKING_SYNC = 4


class CUevent_flags(enum.IntEnum):  # noqa: N801
    CU_EVENT_DEFAULT = 0


class CUstreamCaptureMode(enum.IntEnum):
    CU_STREAM_CAPTURE_MODE_GLOBAL = 0
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1
    CU_STREAM_CAPTURE_MODE_RELAXED = 2


class CUgraphNodeType(enum.IntEnum):
    CU_GRAPH_NODE_TYPE_KERNEL = 0
    CU_GRAPH_NODE_TYPE_MEMCPY = 1
    CU_GRAPH_NODE_TYPE_MEMSET = 2


KERNEL = CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL
MEMCPY = CUgraphNodeType.CU_GRAPH_NODE_TYPE_MEMCPY
MEMSET = CUgraphNodeType.CU_GRAPH_NODE_TYPE_MEMSET


class Handle:
    """As cuda-bindings wraps handles: not an integer, but one can be had of it."""

    def __init__(self, init_value: int = 0) -> None:
        self._value = int(init_value)

    def __int__(self) -> int:
        return self._value


class CUdeviceptr(Handle): ...


class CUcontext(Handle): ...


class CUstream(Handle): ...


class CUevent(Handle): ...


class CUmodule(Handle): ...


class CUfunction(Handle): ...


class CUgraph(Handle): ...


class CUgraphExec(Handle): ...


class CUgraphNode(Handle): ...


class CUlaunchAttributeID(enum.IntEnum):
    CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6


class CUlaunchAttributeValue:
    def __init__(self) -> None:
        self.programmaticStreamSerializationAllowed = 0


class CUlaunchAttribute:
    def __init__(self) -> None:
        self.id: CUlaunchAttributeID | None = None
        self.value = CUlaunchAttributeValue()


class CUlaunchConfig:
    def __init__(self) -> None:
        self.gridDimX = self.gridDimY = self.gridDimZ = 0
        self.blockDimX = self.blockDimY = self.blockDimZ = 0
        self.sharedMemBytes = self.numAttrs = 0
        self.hStream = CUstream()
        self.attrs: list[CUlaunchAttribute] = []


RECORDS = (CUlaunchAttributeValue, CUlaunchAttribute, CUlaunchConfig)
"""Structures, with the fields that are used."""

ENUMS = (
    CUresult,
    CUlaunchAttributeID,
    CUdevice_attribute,
    CUstream_flags,
    CUctx_flags,
    CUevent_flags,
    CUstreamCaptureMode,
    CUgraphNodeType,
)
HANDLES = (
    CUdeviceptr,
    CUcontext,
    CUstream,
    CUevent,
    CUmodule,
    CUfunction,
    CUgraph,
    CUgraphExec,
    CUgraphNode,
)
CONSTANTS = {"CU_MEMHOSTALLOC_PORTABLE": 1, "CU_MEMHOSTALLOC_DEVICEMAP": 2}
