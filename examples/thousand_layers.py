"""One thousand blocks, 2,000 plus signs: a net that deep trains, in pure Python.

You will see a thousand-layer GPT learn names with skips. Each block adds a little to one stream,
and that many must start small (init "scaled") and move slowly (they learn at 20 / n_layer of the
rate of the embeddings). A second net has skips but one rate for all: is the plus sign enough? A
third has no skips, and the start and rate that suit it better (init "plain", one rate for all).
It takes ten minutes on two slow cores; --layers 200 takes a fifth of that.
"""

from __future__ import annotations

import math
import random
import sys
from pathlib import Path
from typing import NamedTuple

sys.path.append(str(Path(__file__).resolve().parent.parent))  # run from a clone, not installed

from examples import lab
from examples.common import whole
from micrograd_res.model import Config, init_params
from micrograd_res.optim import Adam, param_groups
from micrograd_res.plot import Figure, Line, svg_lines, text_lines
from micrograd_res.train import train

KINDS = ("with skips", "with skips, one rate for all", "no skips")
LAST = 50  # steps whose mean loss is the result


class Job(NamedTuple):
    kind: str
    n_layer: int
    seed: int
    steps: int


def configure(job: Job) -> Config:
    skips = job.kind != "no skips"
    return Config(
        vocab_size=27,
        n_layer=job.n_layer,
        n_head=2,
        n_embd=4,
        residual_attn=skips,
        residual_mlp=skips,
        init="scaled" if skips else "plain",
    )


def work(job: Job) -> list[float]:
    """The loss of every step, before its update, on a name not seen before."""
    documents, _ = lab.names(job.seed)
    config = configure(job)
    params = init_params(config, random.Random(job.seed))
    block_rate = min(1.0, 20 / job.n_layer) if job.kind == "with skips" else 1.0
    adam = Adam(param_groups(params, block_rate))
    losses = []
    for step in train(documents, params, config, adam, job.steps, lr=0.02):
        losses.append(step.loss)
        lab.tick()
    return losses


def smooth(losses: list[list[float]]) -> list[float]:
    """The mean over seeds of each step, and of the LAST steps before it."""
    means = [sum(step) / len(step) for step in zip(*losses)]
    windows = [means[max(0, i + 1 - LAST) : i + 1] for i in range(len(means))]
    return [sum(window) / len(window) for window in windows]


Results = dict[str, list[float]]  # of each kind, the losses of the LAST steps of every seed


def average(losses: list[float]) -> lab.Stat:
    """The mean, and its standard error in the place of a spread."""
    mean, std, n = lab.Stat.of(losses)
    return lab.Stat(mean, std / math.sqrt(n), n)


def verdicts(results: Results, frequencies: float) -> list[str]:
    lines = []
    for kind, losses in results.items():
        stat = average(losses)
        word = lab.verdict(lab.Stat(frequencies, 0.0, stat.n), stat, "better", "worse")
        lines.append(f"{kind}: {stat}; against letter frequencies, {frequencies:.2f}: {word}")
    for kind in KINDS[1:]:
        pairs = zip(results[kind], results["with skips"])
        more = average([loss - with_skips for loss, with_skips in pairs])
        word = lab.verdict(lab.Stat(0.0, 0.0, more.n), more, "better", "worse")
        lines.append(f"{kind}, minus with skips, name by name: {more}: {word}")
    return lines


def figure(
    n_layer: int, curves: dict[str, list[float]], results: Results, frequencies: float, seeds: int
) -> Figure:
    skips, no_skips = average(results["with skips"]), average(results["no skips"])
    title = (
        f"{n_layer:,} layers, {2 * n_layer:,} plus signs: loss {skips.mean:.2f} with skips, "
        f"{no_skips.mean:.2f} without; letter frequencies alone give {frequencies:.2f} "
        f"({lab.seeds_seen(seeds)})"
    )
    lines = [Line(kind, range(1, len(curve) + 1), curve) for kind, curve in curves.items()]
    y_label = f"loss (nats per token), mean of {LAST} steps"
    return Figure(title, "training step", y_label, lines, [("letter frequencies", frequencies)])


def main(argv: list[str] | None = None) -> int:
    parser = lab.parser(__doc__, seeds=1)
    add = parser.add_argument
    add("--layers", type=whole(1), default=1000, metavar="N", help="blocks (1000)")
    add("--steps", type=whole(1), default=150, metavar="N", help="of each training run (150)")
    args = lab.parse(parser, argv, "thousand_layers")
    n_layer, steps = (20, 5) if args.quick else (args.layers, args.steps)
    jobs = [Job(kind, n_layer, seed, steps) for seed in range(args.seeds) for kind in KINDS]
    params = init_params(configure(jobs[0]), random.Random(0))
    count = sum(len(row) for matrix in params.values() for row in matrix)
    print(f"{n_layer:,} layers, {2 * n_layer:,} plus signs, {count:,} parameters, {steps} steps")
    losses = dict(zip(jobs, lab.run_all(work, jobs, len(jobs) * steps)))

    frequencies = lab.letter_frequencies(lab.names(0)[0])
    curves, results = {}, {}
    for kind in KINDS:
        runs = [losses[job] for job in jobs if job.kind == kind]
        curves[kind] = smooth(runs)
        results[kind] = [loss for run in runs for loss in run[-LAST:]]
    lab.say(f"Mean of the last {LAST} steps, ± its standard error, {lab.seeds_seen(args.seeds)}:")
    for line in verdicts(results, frequencies):
        lab.say(line)
    plot = figure(n_layer, curves, results, frequencies, args.seeds)
    lab.draw(text_lines, plot)
    lab.save(svg_lines(plot), args.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(lab.start(main))
