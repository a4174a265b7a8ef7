"""How the device computes, and how much of it we take."""

from __future__ import annotations

import msgspec

from edge_runtime.config.bounds import among, within


class Computing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a GPU is asked for; a CPU takes `lanes` and `precision` of it. 0 is its own choice.

    `precision` "auto" is the calibrated model that is active, else full precision: float16 on a
    GPU, float32 on a CPU.
    `chained` is decoder steps that run before the host looks at what they gave, `memory_mb` a
    cap on all memory that the process takes of the GPU, `keep_warm_ms` how long the GPU idles
    before it is given a little work, `batch` the most updates that a lane decodes together,
    `page_kb` the unit in which their memory is accounted. For `memory_mb` and `keep_warm_ms`, 0
    is none and never.
    """

    index: int = 0
    tensorrt: str = "auto"
    precision: str = "auto"
    lanes: int = 0
    graphs: bool = True
    chained: int = 0
    gather: str = "copy"
    priority: int = 0
    memory_mb: int = 0
    keep_warm_ms: int = 0
    batch: int = 0
    page_kb: int = 256

    def __post_init__(self) -> None:
        among(
            self,
            "computing",
            tensorrt=("auto", "tensorrt", "tensorrt_rtx"),
            precision=("auto", "fp32", "fp16", "int8"),
            gather=("copy", "kernel"),
        )
        within(
            self,
            "computing",
            index=(0, 63),
            lanes=(0, 64),
            chained=(0, 32),
            priority=(-5, 0),
            memory_mb=(0, 1 << 20),
            keep_warm_ms=(0, 600_000),
            batch=(0, 64),
            page_kb=(1, 1 << 16),
        )
