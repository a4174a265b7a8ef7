"""What Python source uses of TensorRT: followed from the few places where it comes in."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from pathlib import Path

MODULE = "tensorrt"

# What untyped names hold. mypy makes us write `Any` for whatever comes of TensorRT, and every
# parameter or result that is `Any` must be here: None for what is not TensorRT's.
PARAMETERS: dict[str, str | None] = {
    "builder": "Builder",
    "config": "IRuntimeConfig",
    "engine": "ICudaEngine",
    "logger": "ILogger",
    "network": "INetworkDefinition",
    "record": None,
    "severity": "Severity",
    "strategy": "ExecutionContextAllocationStrategy",
    "tensor": "ITensor",
    "trt": MODULE,
    "api": MODULE,
}
PARAMETERS_OF = {("tile.py", "config"): "IBuilderConfig"}
RESULTS: dict[str, str | None] = {
    "_build": "IHostMemory",
    "_monitor": "IProgressMonitor",
    "_profile": "IOptimizationProfile",
    "_runtime_config": "IRuntimeConfig",
    "_stoppable": "IHostMemory",
    "build_tile": "IHostMemory",
    "context": "IExecutionContext",
    "make_allocator": "IGpuAllocator",
    "make_logger": "ILogger",
    "parse": "INetworkDefinition",
    "serialised": "IHostMemory",
}
ATTRIBUTES = {
    "api": MODULE,
    "raw": "ICudaEngine",
    "_allocator": "IGpuAllocator",
    "_cache": "IRuntimeCache",
    "_context": "IExecutionContext",
    "_logger": "ILogger",
    "_runtime": "Runtime",
}
# What calls and properties of TensorRT give.
GIVES = {
    "Builder.create_builder_config": "IBuilderConfig",
    "Builder.create_network": "INetworkDefinition",
    "Builder.create_optimization_profile": "IOptimizationProfile",
    "Builder.build_serialized_network": "IHostMemory",
    "IBuilderConfig.create_timing_cache": "ITimingCache",
    "IBuilderConfig.get_timing_cache": "ITimingCache",
    "ICudaEngine.create_execution_context": "IExecutionContext",
    "ICudaEngine.create_runtime_config": "IRuntimeConfig",
    "ICudaEngine.get_tensor_dtype": "DataType",
    "ICudaEngine.get_tensor_location": "TensorLocation",
    "ICudaEngine.get_tensor_mode": "TensorIOMode",
    "INetworkDefinition.get_input": "ITensor",
    "INetworkDefinition.get_output": "ITensor",
    "IRuntimeConfig.create_runtime_cache": "IRuntimeCache",
    "IRuntimeCache.serialize": "IHostMemory",
    "ITensor.dtype": "DataType",
    "Runtime.deserialize_cuda_engine": "ICudaEngine",
}
OWN = {"said"}
"""What our classes add to those of TensorRT that they extend."""
ENUMS = {"DataType", "Severity", "TensorIOMode", "TensorLocation"}
"""Of these the name of a value is read, too."""


@dataclass
class Uses:
    """What a file uses of TensorRT, by the line where it does so first."""

    file: str
    found: dict[str, int] = field(default_factory=dict)

    def note(self, owner: str, name: str, line: int) -> str | None:
        """The class of `owner.name`, which is used there."""
        if name.startswith("__") or name in OWN or (owner in ENUMS and name == "name"):
            return None
        if owner == MODULE:
            return name
        self.found.setdefault(f"{owner}.{name}", line)
        return GIVES.get(f"{owner}.{name}")

    def walk(self, body: list[ast.stmt], scope: dict[str, str | None]) -> None:
        for statement in body:
            self._statement(statement, scope)

    def _statement(self, node: ast.AST, scope: dict[str, str | None]) -> None:
        if isinstance(node, ast.FunctionDef):
            inner = dict(scope)
            for each in arguments(node):
                inner[each.arg] = self._parameter(each)
            self.walk(node.body, inner)
        elif isinstance(node, ast.ClassDef):
            self._class(node, scope)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                self._assign(target, node.value, scope)
        else:
            if isinstance(node, ast.For) and isinstance(node.target, ast.Name):
                scope[node.target.id] = self.kind(node.iter, scope)
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.stmt | ast.excepthandler | ast.withitem):
                    self._statement(child, scope)
                else:
                    self.kind(child, scope)

    def _assign(
        self, target: ast.expr, value: ast.expr | None, scope: dict[str, str | None]
    ) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for one, other in zip(target.elts, value.elts, strict=True):
                self._assign(one, other, scope)
            return
        kind = self.kind(value, scope) if value is not None else None
        if isinstance(target, ast.Name):
            scope[target.id] = kind
        else:
            self.kind(target, scope)

    def _class(self, node: ast.ClassDef, scope: dict[str, str | None]) -> None:
        """What a class of ours overrides is what the library calls."""
        bases = [kind for base in node.bases if (kind := self.kind(base, scope)) is not None]
        for each in node.body:
            if isinstance(each, ast.FunctionDef) and bases and not each.name.startswith("_"):
                self.note(bases[0], each.name, each.lineno)
        self.walk(node.body, dict(scope))

    def _parameter(self, node: ast.arg) -> str | None:
        if node.annotation is None or ast.unparse(node.annotation) != "Any":
            return None
        return PARAMETERS_OF.get((self.file, node.arg), PARAMETERS.get(node.arg))

    def kind(self, node: ast.AST, scope: dict[str, str | None]) -> str | None:
        """The class of TensorRT that an expression gives, of a list that of its elements."""
        if isinstance(node, ast.Name):
            return scope.get(node.id)
        if isinstance(node, ast.Attribute):
            owner = self.kind(node.value, scope)
            if owner is None:
                return ATTRIBUTES.get(node.attr)
            return self.note(owner, node.attr, node.lineno)
        if isinstance(node, ast.Call):
            return self._call(node, scope)
        if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp):
            return self._comprehension(node, scope)
        if isinstance(node, ast.IfExp):
            kinds = [self.kind(each, scope) for each in (node.test, node.body, node.orelse)]
            return kinds[1] or kinds[2]
        for child in ast.iter_child_nodes(node):
            self.kind(child, scope)
        return None

    def _call(self, node: ast.Call, scope: dict[str, str | None]) -> str | None:
        given = [self.kind(each, scope) for each in node.args]
        for keyword in node.keywords:
            self.kind(keyword.value, scope)
        function = node.func
        if isinstance(function, ast.Name) and function.id in ("getattr", "hasattr"):
            name = node.args[1]
            if given[0] is not None and isinstance(name, ast.Constant):
                return self.note(given[0], name.value, node.lineno)
            return None
        found = self.kind(function, scope)
        if found is not None:
            return found
        name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
        return RESULTS.get(name)

    def _comprehension(
        self,
        node: ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp,
        scope: dict[str, str | None],
    ) -> str | None:
        inner = dict(scope)
        for each in node.generators:
            kind = self.kind(each.iter, inner)
            if isinstance(each.target, ast.Name):
                inner[each.target.id] = kind
            for condition in each.ifs:
                self.kind(condition, inner)
        if isinstance(node, ast.DictComp):
            self.kind(node.key, inner)
            return self.kind(node.value, inner)
        return self.kind(node.elt, inner)


def arguments(node: ast.FunctionDef) -> list[ast.arg]:
    return [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]


def uses(path: Path) -> dict[str, int]:
    found = Uses(path.name)
    found.walk(ast.parse(path.read_text(encoding="utf-8")).body, {})
    return found.found
