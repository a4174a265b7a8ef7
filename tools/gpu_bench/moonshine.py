"""The peer's process: times `transformers`' Moonshine, one JSON line a figure.

Its weights are random: what a pass costs does not depend on them.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable
from typing import Any

from edge_runtime.engines.recipe import MoonshineRecipe, load_recipe
from gpu_bench import timing
from gpu_bench.segment import DRAFT, SAMPLES

COUNT = 100


def run(model: str, device: str = "cuda", count: int = COUNT) -> None:
    """Print what each way of running it takes; one that fails is told, the next is tried."""
    import torch

    warnings.filterwarnings("ignore")
    # As ours is float32 where it says so; in float16 nothing is left of TF32.
    torch.set_grad_enabled(False)
    peer = Peer(model, device, count)
    for name, measure in (
        ("peer.eager", peer.eager),
        ("peer.graph", peer.graph),
        ("peer.compiled", peer.compiled),
        ("peer.captured", peer.captured),
        ("peer.generate", peer.generate),
        ("peer.static", peer.static),
    ):
        began = time.perf_counter()
        try:
            taken, label = measure()
        except Exception as error:  # noqa: BLE001 – each way may fail by itself
            _print({"failed": name, "why": f"{type(error).__name__}: {str(error)[:400]}"})
            continue
        _print({
            "name": name, "label": f"{label}, PyTorch {torch.__version__} {peer.precision}",
            "value": taken.ms, "unit": "ms",
            "note": f"{taken.note()}; ready in {time.perf_counter() - began:.0f} s",
        })  # fmt: skip


def config(recipe: MoonshineRecipe) -> Any:
    """Moonshine as `transformers` has it, in the recipe's dimensions."""
    from transformers import MoonshineConfig

    shape = recipe.architecture
    return MoonshineConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.width,
        intermediate_size=shape.encoder_mlp,
        encoder_num_hidden_layers=shape.encoder_layers,
        decoder_num_hidden_layers=shape.decoder_layers,
        encoder_num_attention_heads=shape.heads,
        decoder_num_attention_heads=shape.heads,
        rope_parameters={
            "rope_type": "default",
            "rope_theta": shape.theta,
            "partial_rotary_factor": shape.rotary / shape.head_dim + 1e-6,
        },
        bos_token_id=shape.bos,
        eos_token_id=shape.eos,
        decoder_start_token_id=shape.bos,
        attn_implementation="sdpa",
    )


class Peer:
    """The model on its device, eight seconds of audio, and 26 decoder tokens."""

    def __init__(self, model: str, device: str, count: int) -> None:
        import torch
        from transformers import MoonshineForConditionalGeneration

        recipe = load_recipe(model)
        assert isinstance(recipe, MoonshineRecipe)
        self.torch: Any = torch
        self.device, self.count = device, count
        self._kept: list[object] = []
        self.precision = "fp32" if device == "cpu" else "fp16"
        dtype = torch.float32 if device == "cpu" else torch.float16
        torch.manual_seed(0)
        made: Any = MoonshineForConditionalGeneration(config(recipe))
        self.model = made.eval().to(device, dtype)
        self.audio = (torch.randn(1, SAMPLES) * 0.1).to(device, dtype)
        begin = torch.full((1, 1), recipe.architecture.bos)
        rest = torch.randint(3, recipe.architecture.vocabulary, (1, DRAFT))
        self.tokens = torch.cat([begin, rest], 1).to(device)

    def work(self) -> Any:
        """The work that is compared: encoder, decoder over the draft, its best tokens."""
        said = self.model.model(
            input_values=self.audio, decoder_input_ids=self.tokens, use_cache=False
        )
        return self.model.proj_out(said.last_hidden_state).argmax(-1)

    def eager(self) -> tuple[timing.Times, str]:
        return self._timed(self.work), f"encoder and {DRAFT} draft tokens, eager"

    def graph(self) -> tuple[timing.Times, str]:
        """Captured by hand: every eager kernel, launched as one graph."""
        return (
            self._timed(self._captured(self.work)),
            f"encoder and {DRAFT} draft tokens, not compiled, one CUDA graph by hand",
        )

    def compiled(self) -> tuple[timing.Times, str]:
        """Compiled, its graphs captured and replayed by PyTorch itself."""
        work = self.torch.compile(self.work, mode="reduce-overhead", dynamic=False)
        return (
            self._timed(work),
            f"encoder and {DRAFT} draft tokens, torch.compile(reduce-overhead)",
        )

    def captured(self) -> tuple[timing.Times, str]:
        """Compiled, and the compiled kernels captured by hand: PyTorch's least overhead."""
        self.torch._dynamo.reset()
        work = self.torch.compile(self.work, dynamic=False)
        return (
            self._timed(self._captured(work)),
            f"encoder and {DRAFT} draft tokens, torch.compile, one CUDA graph by hand",
        )

    def _captured(self, work: Callable[[], object]) -> Callable[[], object]:
        torch = self.torch
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(3):
                work()
        side.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            kept = work()
        self._kept.append((graph, kept))
        replay: Callable[[], object] = graph.replay
        return replay

    def generate(self) -> tuple[timing.Times, str]:
        return self._timed(self._generate(), 3), f"eager generate of {DRAFT} tokens"

    def static(self) -> tuple[timing.Times, str]:
        """A static cache: on a GPU `transformers` compiles the decoder for it by itself."""
        call = self._generate(cache_implementation="static")
        return self._timed(call, 10), f"compiled static-cache generate of {DRAFT} tokens"

    def _generate(self, **options: Any) -> Callable[[], object]:
        return lambda: self.model.generate(
            input_values=self.audio,
            attention_mask=None,
            do_sample=False,
            min_new_tokens=DRAFT,
            max_new_tokens=DRAFT,
            **options,
        )

    def _timed(self, call: Callable[[], object], warm: int = timing.WARM) -> timing.Times:
        count = self.count if warm == timing.WARM else max(1, self.count // 5)

        def waited() -> None:
            call()
            if self.device != "cpu":
                self.torch.cuda.synchronize()

        return timing.times(waited, count, warm)


def _print(told: dict[str, Any]) -> None:
    print(json.dumps(told), flush=True)
