"""The command line: which rows run, and in what order they are lost when time is short."""

from __future__ import annotations

import argparse
import logging
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from edge_runtime.errors import ConfigError, DeviceLost, EdgeRuntimeError
from gpu_bench import child, machine, reference, report
from gpu_bench.bench import Bench
from gpu_bench.options import Options
from gpu_bench.rows import ROWS, chosen

WIDE = 160


def main(arguments: Sequence[str] | None = None) -> int:
    """0 where every row ran and every target was reached, 1 where not, 2 for a wrong call."""
    given = _parser().parse_args(arguments)
    logging.basicConfig(level=given.log.upper(), format="%(levelname)s %(name)s: %(message)s")
    try:
        code: int = given.run(given)
        return code
    except ConfigError as error:
        print(error)
        return 2
    except EdgeRuntimeError as error:
        print(error)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gpu-bench", description=__doc__)
    _bench_options(parser)
    parser.set_defaults(run=_bench)
    commands = parser.add_subparsers(metavar="COMMAND")
    make = commands.add_parser("reference", help="decode the clips on the CPU, once")
    make.add_argument("manifest", type=Path)
    make.add_argument("out", type=Path)
    make.add_argument("--copy", type=Path, help="a folder for the clips' files")
    make.add_argument("--model", default=Options.model)
    make.add_argument("--quick", type=int, default=0, help="so many clips, evenly spaced")
    make.set_defaults(run=_reference)
    peer = commands.add_parser("peer", help="time transformers' Moonshine alone, as JSON lines")
    peer.add_argument("--model", default=Options.model)
    peer.add_argument("--device", default="cuda")
    peer.add_argument("--count", type=int, default=100)
    peer.set_defaults(run=_peer)
    return parser


def _bench_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--clips", type=Path, help="the folder of the clips' files")
    add("--reference", type=Path, help="what `gpu-bench reference` wrote")
    add("--json", type=Path, help="the figures, written as they come")
    add("--add", action="store_true", help="keep the figures that the JSON has")
    add("--rows", default="", help=f"only these, or all; known are {','.join(ROWS)}")
    add("--label", default="", help="said beside the figures: what they were measured with")
    add("--model", default=Options.model)
    add("--device", default=Options.device, help="tensorrt, onnx-cuda, onnx-tensorrt or cpu")
    add("--precisions", default=",".join(Options.precisions), help="in the order they are run")
    add("--quick", type=int, default=0, help="so many clips, evenly spaced")
    add("--count", type=int, default=Options.count, help="how often a call is timed")
    add("--until", type=float, default=Options.until, help="seconds after which no row begins")
    add("--silence", type=float, default=Options.silence, help="seconds, of the row silence")
    add("--ort", default="", help="a folder with onnxruntime-gpu, for the row onnx")
    add("--plain", action="store_true", help="no table at the end, and 0 whatever was missed")
    add("--log", default="warning", help="debug, info, warning or error")


def _options(given: argparse.Namespace) -> Options:
    if given.clips is None or given.reference is None:
        raise ConfigError("no clips", "Give --clips FOLDER and --reference FILE.")
    return Options(
        clips=given.clips,
        reference=given.reference,
        model=given.model,
        device=given.device,
        precisions=tuple(given.precisions.split(",")),
        label=given.label,
        json=given.json,
        rows=tuple(filter(None, given.rows.split(","))),
        quick=given.quick,
        count=given.count,
        until=given.until,
        silence=given.silence,
        ort=given.ort,
        add=given.add,
    )


def _bench(given: argparse.Namespace) -> int:
    if given.rows == "list":
        print("\n".join(f"{name:10} {(row.__doc__ or '').strip()}" for name, row in ROWS.items()))
        return 0
    options = _options(given)
    rows = chosen(options.rows, options.on_cpu)
    bench = Bench(options)
    try:
        run(bench, rows)
    except KeyboardInterrupt:
        bench.fail("run", KeyboardInterrupt("interrupted"))
    clocks = machine.clocks()
    if clocks and "gpu" in bench.hardware:
        bench.hardware["gpu"]["clocks_end"] = clocks
    bench.save()
    if not given.plain:
        title = f"gpu-bench {options.label}".strip()
        console = Console(width=WIDE)
        console.print(report.table(bench.figures, bench.failed, title))
        console.print(bench.hardware, highlight=False)
    if given.plain:
        return 0  # the file tells
    missed = any(report.verdict(figure) is False for figure in bench.figures)
    return int(bool(bench.failed) or missed)


def run(bench: Bench, rows: Sequence[str]) -> None:
    """Run the rows; after the loss of the device the rest goes on in a process of its own."""
    for place, name in enumerate(rows):
        bench.failed = {key: why for key, why in bench.failed.items() if key.split()[0] != name}
        if bench.spent > bench.options.until:
            late = f"{bench.options.until:.0f} s are over: name it with --rows"
            bench.failed[name] = f"not run, {late}"
            bench.say(f"{name} not run: {late}")
            continue
        bench.say(f"== {name}")
        began = time.perf_counter()
        try:
            ROWS[name](bench)
        except DeviceLost as error:
            bench.fail(name, error)
            _elsewhere(bench, rows[place + 1 :])
            return
        except Exception as error:  # noqa: BLE001 – a row that fails costs no other
            bench.fail(name, error)
        bench.seconds[name] = round(time.perf_counter() - began, 1)
        bench.save()


def _elsewhere(bench: Bench, rows: Sequence[str]) -> None:
    """A context that is lost stays lost in this process."""
    if not rows:
        return
    options = bench.options
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rest.json"
        report.write(out, bench.record())
        command = child.python(
            "--clips", str(options.clips), "--reference", str(options.reference),
            "--rows", ",".join(rows), "--json", str(out), "--add", "--plain",
            "--model", options.model, "--device", options.device,
            "--precisions", ",".join(options.precisions), "--quick", str(options.quick),
            "--count", str(options.count), "--ort", options.ort,
            "--until", str(max(1.0, options.until - bench.spent)),
        )  # fmt: skip
        try:
            child.lines(command, bench.say, options.until)
        except EdgeRuntimeError as error:
            bench.fail("the rest", error)
        found = child.record(out)
    for figure in report.figures_of(found):
        bench.figures.add(figure)
    bench.failed |= found["failed"]
    bench.seconds |= found["seconds"]
    bench.save()


def _reference(given: argparse.Namespace) -> int:
    made = reference.make(given.manifest, given.out, given.model, given.copy, given.quick)
    print(f"{given.out}: {len(made.clips)} clips, {sum(len(c.tokens) for c in made.clips)} tokens")
    return 0


def _peer(given: argparse.Namespace) -> int:
    from gpu_bench import moonshine

    moonshine.run(given.model, given.device, given.count)
    return 0
