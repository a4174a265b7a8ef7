"""Work of a stream captured once as a CUDA graph, and replayed, through cuda-bindings.

PyCUDA has no graphs; cuda-bindings works on the same primary context and the same streams.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from edge_runtime.device.base import Call
from edge_runtime.device.cuda.status import check, failure
from edge_runtime.device.cuda.stream import CudaStream, Tape
from edge_runtime.errors import DeviceError, DeviceLost, EdgeRuntimeError


class CallGraph:
    """No graph: replaying makes the call."""

    def __init__(self, call: Call) -> None:
        self.replay = call
        self.nodes: dict[str, int] = {}
        self.kernels = 0
        self.copies = 0

    def close(self) -> None:
        return None


class CudaGraph:
    """What `call` enqueues on `stream`, captured, instantiated and uploaded; it is not run.

    `nodes` counts what it holds by type (`kernel`, `memcpy`, `memset`, …), `kernels` and
    `copies` two of them. In errors it goes by the call's `name`, else its qualified name.
    `returned` is entered while its memory is given back. Raises `DeviceError` where the call or
    the capture fails; the stream can be used then.
    """

    def __init__(
        self,
        stream: CudaStream,
        call: Call,
        returned: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        from cuda.bindings import driver as cuda

        self.name: str = getattr(call, "name", "") or getattr(call, "__qualname__", repr(call))
        self.nodes: dict[str, int] = {}
        self._cuda = cuda
        self._stream = stream
        self._returned = returned
        self._handle = cuda.CUstream(stream.handle)
        self._call: Call | None = None
        self._copied: dict[str, int] = {}
        self._kept: list[object] = []
        self._executable: Any = None
        self._launched = 0
        graph, tape = self._capture(call)
        try:
            nodes = self._count(graph)
            self._instantiate(graph)
        finally:
            cuda.cuGraphDestroy(graph)
        self._adopt(call, tape, nodes)

    @property
    def kernels(self) -> int:
        return self.nodes.get("kernel", 0)

    @property
    def copies(self) -> int:
        return self.nodes.get("memcpy", 0)

    def replay(self) -> None:
        """Enqueue it all; raises `DeviceError`, `DeviceLost` where the device is gone."""
        if self._executable is None:
            raise DeviceError(f"the graph of {self.name} is replayed after it was closed")
        self._stream.driver.launch(self._launched, self._stream.handle, self.name)
        copy = self._stream.counters.copy
        for kind, size in self._copied.items():
            copy(kind, size)

    def update(self, call: Call) -> bool:
        """Capture `call` in place of what is here; False where that took a new instantiation.

        Only what the calls are given may differ for it to be done in place: not their number,
        order or kind. Where it raises, the graph is what it was.
        """
        if self._executable is None:
            raise DeviceError(f"the graph of {self.name} is updated after it was closed")
        cuda = self._cuda
        graph, tape = self._capture(call)
        try:
            nodes = self._count(graph)
            status = cuda.cuGraphExecUpdate(self._executable, graph)[0]
            in_place = not status
            if status == cuda.CUresult.CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE:
                self._instantiate(graph)
            elif status:
                raise failure("cuGraphExecUpdate", status, f"the graph of {self.name} is as it was")
        finally:
            cuda.cuGraphDestroy(graph)
        self._adopt(call, tape, nodes)
        return in_place

    def close(self) -> None:
        """Release it; work that was replayed and is not over yet ends as it would."""
        if self._executable is None:
            return
        executable, self._executable = self._executable, None
        self._call = None
        self._kept = []
        self._stream.graphs.discard(self)
        with contextlib.suppress(DeviceLost), self._returned():
            self._stream.driver.current()
            check("cuGraphExecDestroy", self._cuda.cuGraphExecDestroy(executable))

    def _capture(self, call: Call) -> tuple[Any, Tape]:
        """The graph of what `call` enqueues, and what else is to know of it."""
        cuda, stream = self._cuda, self._stream
        if stream.tape is not None:
            raise DeviceError(f"{self.name} is captured within another capture of its stream")
        stream.driver.current()
        # Thread-local: what this thread must not do within a capture (allocate, wait) fails
        # instead of being left out of the graph, as it would be with a relaxed capture; and
        # what other threads do, as the second lane or a library of theirs, does not end it,
        # as it would with a global one. TensorRT enqueues from the calling thread.
        mode = cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        begun = cuda.cuStreamBeginCapture(self._handle, mode)
        if begun[0]:
            raise failure("cuStreamBeginCapture", begun[0], f"{self.name} could not be captured")
        stream.tape = tape = Tape()
        try:
            call()
        except EdgeRuntimeError as error:
            self._abandon()
            kind = DeviceLost if isinstance(error, DeviceLost) else DeviceError
            raise kind(f"{self.name} could not be captured: {error.message}", error.fix) from error
        except Exception as error:  # whatever a library raises
            self._abandon()
            raise DeviceError(f"{self.name} could not be captured: {error}") from error
        except BaseException:
            self._abandon()
            raise
        stream.tape = None
        status, graph = cuda.cuStreamEndCapture(self._handle)
        if status:
            raise failure("cuStreamEndCapture", status, f"{self.name} could not be captured")
        return graph, tape

    def _abandon(self) -> None:
        """End a capture that failed, so that the stream can be used again."""
        self._stream.tape = None
        # Its status says again what was already raised: that the capture is not valid.
        status, graph = self._cuda.cuStreamEndCapture(self._handle)
        if not status:
            self._cuda.cuGraphDestroy(graph)

    def _count(self, graph: Any) -> dict[str, int]:
        cuda = self._cuda
        _, count = check("cuGraphGetNodes", cuda.cuGraphGetNodes(graph))
        nodes, _ = check("cuGraphGetNodes", cuda.cuGraphGetNodes(graph, count))
        found: dict[str, int] = {}
        for node in nodes[:count]:
            kind = check("cuGraphNodeGetType", cuda.cuGraphNodeGetType(node))
            name = kind.name.removeprefix("CU_GRAPH_NODE_TYPE_").lower()
            found[name] = found.get(name, 0) + 1
        return found

    def _instantiate(self, graph: Any) -> None:
        cuda = self._cuda
        status, executable = cuda.cuGraphInstantiate(graph, 0)
        if status:
            raise self._unmade("cuGraphInstantiate", status)
        # Else the first replay would carry it to the device.
        status = cuda.cuGraphUpload(executable, self._handle)[0]
        if status:
            cuda.cuGraphExecDestroy(executable)
            raise self._unmade("cuGraphUpload", status)
        if self._executable is not None:
            cuda.cuGraphExecDestroy(self._executable)
        self._executable = executable
        self._launched = int(executable)

    def _unmade(self, call: str, status: Any) -> DeviceError:
        what = f"the graph of {self.name} could not be made"
        if status == self._cuda.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            free, total = self._stream.driver.free()
            what += f", {free} of {total} are free"
        return failure(call, status, what)

    def _adopt(self, call: Call, tape: Tape, nodes: dict[str, int]) -> None:
        # The call holds the buffers whose addresses are in the graph.
        self._call = call
        self._copied = tape.copied
        self._kept = tape.kept
        self.nodes = nodes
        self._stream.graphs.add(self)
