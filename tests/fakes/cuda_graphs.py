"""The functions of `cuda.bindings.driver` that capture and replay, on a fake GPU."""

# ruff: noqa: N802, N803 - the names are CUDA's

from __future__ import annotations

import threading
from typing import Any

from tests.fakes.cuda_names import (
    OK,
    CUgraph,
    CUgraphExec,
    CUgraphNode,
    CUgraphNodeType,
    CUresult,
    CUstreamCaptureMode,
)
from tests.fakes.gpu import Capture, FakeGpu


class GraphFunctions:
    def __init__(self, gpu: FakeGpu) -> None:
        self._gpu = gpu

    def cuStreamBeginCapture(self, hStream: int, mode: CUstreamCaptureMode) -> tuple[CUresult]:
        with self._gpu.lock:
            status = self._gpu._enter("cuStreamBeginCapture")
            if status:
                return (status,)
            stream = self._gpu.streams[int(hStream)]
            if stream.capture is not None:
                return (CUresult.CUDA_ERROR_INVALID_VALUE,)
            stream.capture = Capture(mode, threading.get_ident())
            return (OK,)

    def cuStreamEndCapture(self, hStream: int) -> tuple[Any, ...]:
        with self._gpu.lock:
            status = self._gpu._enter("cuStreamEndCapture")
            stream = self._gpu.streams[int(hStream)]
            capture, stream.capture = stream.capture, None
            if status:
                return status, None
            if capture is None:
                return CUresult.CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, None
            if not capture.valid:
                return CUresult.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, None
            handle = self._gpu._handle()
            self._gpu.graphs[handle] = capture.nodes
            return OK, CUgraph(handle)

    def cuGraphGetNodes(self, hGraph: int, numNodes: int = 0) -> tuple[Any, ...]:
        status = self._gpu._enter("cuGraphGetNodes")
        if status:
            return status, None, None
        nodes = self._gpu.graphs[int(hGraph)]
        if not numNodes:
            return OK, [], len(nodes)
        return OK, [CUgraphNode(node.kind) for node in nodes][:numNodes], len(nodes)

    def cuGraphNodeGetType(self, hNode: CUgraphNode) -> tuple[Any, ...]:
        status = self._gpu._enter("cuGraphNodeGetType")
        return (status, None) if status else (OK, CUgraphNodeType(int(hNode)))

    def cuGraphInstantiate(self, hGraph: int, flags: int) -> tuple[Any, ...]:
        with self._gpu.lock:
            status = self._gpu._enter("cuGraphInstantiate")
            if status:
                return status, None
            handle = self._gpu._handle()
            self._gpu.executables[handle] = list(self._gpu.graphs[int(hGraph)])
            self._gpu.used += self._gpu.overhead["graph"]
            return OK, CUgraphExec(handle)

    def cuGraphUpload(self, hGraphExec: int, hStream: int) -> tuple[CUresult]:
        return (self._gpu._enter("cuGraphUpload"),)

    def cuGraphLaunch(self, hGraphExec: int, hStream: int) -> tuple[CUresult]:
        gpu = self._gpu
        with gpu.lock:
            status = gpu._enter("cuGraphLaunch")
            if status:
                return (status,)
            for node in gpu.executables[int(hGraphExec)]:
                status = status or gpu._enqueue(int(hStream), node)
            return (status,)

    def cuGraphExecUpdate(self, hGraphExec: int, hGraph: int) -> tuple[Any, ...]:
        gpu = self._gpu
        with gpu.lock:
            status = gpu._enter("cuGraphExecUpdate")
            if status:
                return status, None
            there, new = gpu.executables[int(hGraphExec)], gpu.graphs[int(hGraph)]
            if [(node.kind, node.name) for node in there] != [
                (node.kind, node.name) for node in new
            ]:
                return CUresult.CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, None
            there[:] = new
            return OK, object()

    def cuGraphExecDestroy(self, hGraphExec: int) -> tuple[CUresult]:
        with self._gpu.lock:
            status = self._gpu._enter("cuGraphExecDestroy")
            if not status:
                del self._gpu.executables[int(hGraphExec)]
                self._gpu.used -= self._gpu.overhead["graph"]
            return (status,)

    def cuGraphDestroy(self, hGraph: int) -> tuple[CUresult]:
        # Also after a loss: it is memory of the host.
        with self._gpu.lock:
            status = self._gpu._enter("cuGraphDestroy")
            self._gpu.graphs.pop(int(hGraph), None)
            return (status,)
