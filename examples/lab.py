"""What the experiments share: runs on every core, the spread over seeds, verdicts that follow it.

An experiment is `main(argv)`: it reads its flags (`parser`, `parse`), lists its jobs, one for each
setting and seed, has `run_all` do them, and reports (`Stat`, `compare`, `say`, `draw`, `save`).
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import random
import signal
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from examples.common import NAMES, Parser, duration, run_main, whole
from micrograd_res.data import Tokenizer, read_documents
from micrograd_res.plot import Figure, Line, can_show

PLOTS = Path(__file__).parent / "plots"

# ---- Flags.


def parser(doc: str | None, seeds: int = 3) -> argparse.ArgumentParser:
    """The flags of every experiment; `doc`, the docstring of its file, is its --help."""
    new = Parser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = new.add_argument
    add("--seeds", type=whole(1), default=seeds, metavar="N", help=f"runs of each ({seeds})")
    add("--quick", action="store_true", help="a smoke run: it shows nothing true, writes no SVG")
    add("--out", type=Path, metavar="FILE.svg", help="write the SVG here, not to examples/plots")
    return new


def parse(new: argparse.ArgumentParser, argv: list[str] | None, name: str) -> argparse.Namespace:
    """The flags; --out is examples/plots/NAME.svg by default, but None for a smoke run."""
    args = new.parse_args(argv)
    if args.quick:
        args.seeds = min(args.seeds, 2)
        print("--quick: a few steps, to see that it runs. What follows means nothing.\n")
    elif args.out is None:
        args.out = PLOTS / f"{name}.svg"
    if args.out and (args.out.is_dir() or not args.out.parent.is_dir()):
        new.error(f"argument --out: cannot write {str(args.out)!r}")
    return args


@cache
def names(seed: int) -> tuple[list[list[int]], Tokenizer]:
    """examples/names.txt as tokens, shuffled by the seed. Not to be changed: calls share them."""
    documents = read_documents(NAMES)
    tokenizer = Tokenizer.of(documents)
    random.Random(seed).shuffle(documents)
    return [tokenizer.encode(document) for document in documents], tokenizer


def letter_frequencies(
    documents: list[list[int]], held_out: list[list[int]] | None = None
) -> float:
    """The loss of a model that knows nothing but how frequent each letter of the documents is.

    On the names held out, or if there are none on the documents; as in training, the mean over
    names of each name's mean.
    """
    counts = Counter(token for document in documents for token in document[1:])
    total = sum(counts.values())
    means = [
        sum(math.log(total / counts[token]) for token in document[1:]) / (len(document) - 1)
        for document in (documents if held_out is None else held_out)
    ]
    return sum(means) / len(means)


# ---- Runs.

_ticks: Any = None  # in a worker: the counter that all of them share


def tick(units: int = 1) -> None:
    """A job says that it has done so much more of its work."""
    if _ticks:
        with _ticks.get_lock():
            _ticks.value += units


def _start_worker(ticks: Any) -> None:
    global _ticks
    _ticks = ticks
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its workers


def run_all(work: Callable[[Any], Any], jobs: Sequence[Any], units: int = 0) -> list[Any]:
    """[work(job) for job in jobs] on all cores, with one progress line.

    `work` is a top-level function, for processes are spawned as on Windows. `units` is what all
    jobs together will `tick`; without it each job that ends is one unit.
    """
    context = multiprocessing.get_context("spawn")
    ticks = context.Value("q", 0)
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    pool = ProcessPoolExecutor(min(cores, len(jobs), 61), context, _start_worker, (ticks,))
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # inherited by workers as they start
    try:
        futures = [pool.submit(work, job) for job in jobs]
        signal.signal(signal.SIGINT, handler)
        _watch(futures, units, ticks)
        return [future.result() for future in futures]
    except BaseException:
        for process in multiprocessing.active_children():
            process.kill()
        raise
    finally:
        signal.signal(signal.SIGINT, handler)
        pool.shutdown(cancel_futures=True)


def _watch(futures: list[Future[Any]], units: int, ticks: Any) -> None:
    """Until all are done: one line that renews itself on a terminal, else a line for each tenth."""
    start, tenth, pending = time.monotonic(), 0, set(futures)
    live = sys.stderr.isatty()
    while pending:
        ended, pending = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
        for future in ended:
            future.result()  # raises what the job raised
        done = ticks.value / units if units else 1 - len(pending) / len(futures)
        left = f"{duration((time.monotonic() - start) * (1 / done - 1))} left" if done else ""
        line = f"{len(futures) - len(pending)} of {len(futures)} runs, {done:.0%}  {left}"
        if live:
            print(f"\r{line:<50}", end="" if pending else "\n", file=sys.stderr, flush=True)
        elif int(10 * done) > tenth or not pending:
            print(line, file=sys.stderr, flush=True)
        tenth = max(tenth, int(10 * done))


def start(main: Callable[[], int]) -> int:
    """The exit status of main. Ctrl-C ends it with one line."""
    status = run_main(main)
    if status == 128 + signal.SIGINT:
        print("\nstopped", file=sys.stderr)
    return status


# ---- Results.


class Stat(NamedTuple):
    mean: float
    std: float  # of the sample over seeds; 0 for one seed
    n: int
    low: float = math.nan
    high: float = math.nan

    @classmethod
    def of(cls, values: Iterable[float]) -> Stat:
        values = list(values)
        mean = sum(values) / len(values)
        finite = len(values) > 1 and math.isfinite(mean)
        std = statistics.stdev(values) if finite else 0.0
        return cls(mean, std, len(values), min(values), max(values))

    def text(self, spec: str = ".2f") -> str:
        return f"{self.mean:{spec}}" + (f" ± {self.std:{spec}}" if self.n > 1 else "")

    __str__ = text

    def signed(self) -> str:
        return "+" * (self.mean >= 0) + self.text()


def over_seeds(jobs: Sequence[Any], values: Iterable[float]) -> dict[tuple[Any, int], Stat]:
    """One Stat for each (kind, n_layer) of the jobs."""
    groups: dict[tuple[Any, int], list[float]] = {}
    for job, value in zip(jobs, values):
        groups.setdefault((job.kind, job.n_layer), []).append(value)
    return {key: Stat.of(group) for key, group in groups.items()}


def differ(a: Stat, b: Stat) -> bool:
    """Far outside the spread: bands of two standard deviations around the means do not touch."""
    gap = abs(a.mean - b.mean)
    return min(a.n, b.n) > 1 and math.isfinite(gap) and gap > 2 * (a.std + b.std)


def verdict(a: Stat, b: Stat, fell: str, rose: str) -> str:
    """The word for going from a to b, which is `fell` or `rose` only if they differ."""
    if not (math.isfinite(a.mean) and math.isfinite(b.mean)):
        return "no verdict: a run diverged"
    if min(a.n, b.n) == 1:
        return "no verdict from one seed"
    if not differ(a, b):
        return "no difference seen"
    return rose if b.mean > a.mean else fell


def compare(a: Stat, b: Stat, fell: str, rose: str) -> str:
    word = verdict(a, b, fell, rose)
    return f"{a.mean:.2f} -> {b.mean:.2f}: {word}{', far outside the spread' * differ(a, b)}"


def change(differences: Stat, fell: str, rose: str) -> str:
    """'-0.33 ± 0.05: ' and the word for it. Of two runs with one seed, the difference spreads less
    than either; it must be four standard deviations from 0, as if 0 had the same spread."""
    word = verdict(Stat(0.0, differences.std, differences.n), differences, fell, rose)
    return f"{differences.signed()}: {word}"


def trend(a: Stat, b: Stat, spec: str = ".2f") -> str:
    """'falls from 2.01 to 1.40', for a title; 'goes from' if a and b do not clearly differ."""
    if a == b:
        return f"stays at {a.mean:{spec}}"
    word = ("rises" if b.mean > a.mean else "falls") if differ(a, b) else "goes"
    return f"{word} from {a.mean:{spec}} to {b.mean:{spec}}"


def line(label: str, x: Sequence[float], stats: Sequence[Stat]) -> Line:
    """The means, in a band from the lowest to the highest seed."""
    return Line(label, x, [s.mean for s in stats], [(s.low, s.high) for s in stats])


def running_mean(label: str, losses: list[list[float]], window: int) -> Line:
    """The losses of each seed as means of `window` steps, each standing at the last of them."""
    ends = range(window, len(losses[0]) + 1)
    stats = [Stat.of(sum(seed[end - window : end]) / window for seed in losses) for end in ends]
    return line(label, ends, stats)


BAND = "band: all seeds"  # for the axis of a figure with such lines


def training_figure(
    title: str, losses: dict[str, list[list[float]]], window: int, frequencies: float
) -> Figure:
    """While they train: for each label the losses of its seeds, as means of `window` steps."""
    lines = [running_mean(label, of_seeds, window) for label, of_seeds in losses.items()]
    y_label = f"training loss (nats per token), mean of {window} steps; {BAND}"
    return Figure(title, "training step", y_label, lines, [("letter frequencies", frequencies)])


def seeds_seen(n: int) -> str:
    return f"{n} seed{'s' if n > 1 else ''}"


# ---- Output.


def say(text: str = "") -> None:
    print(text if can_show(sys.stdout, text) else text.replace("±", "+-"))


def table(rows: Sequence[Sequence[object]]) -> str:
    """Rows of cells, the first row their names, in columns."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells)]
    lines = []
    for first, *rest in cells:
        columns = [f"{cell:>{width}}" for cell, width in zip(rest, widths[1:])]
        lines.append("  ".join([f"{first:<{widths[0]}}", *columns]))
    return "\n".join(lines)


def draw(text_plot: Callable[..., str], *figure: Any) -> None:
    """Print text_plot(*figure), in ASCII where the terminal cannot show more."""
    text = text_plot(*figure)
    print("\n" + (text if can_show(sys.stdout, text) else text_plot(*figure, ascii_only=True)))


def save(svg: str, out: Path | None) -> None:
    if out:
        out.write_text(svg, encoding="utf-8", newline="\n")
        print(f"wrote {out}")
