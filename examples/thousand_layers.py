"""One thousand blocks, 2,000 plus signs: a net that deep trains, in pure Python.

You will see a thousand-layer GPT learn names with skips. Each block adds a little to one stream,
and that many must start small (init "scaled") and, if they are over 20, move slowly (they learn at
20 / n_layer of the rate of the embeddings). A second net has skips but one rate for all: is the
plus sign enough? A third has no skips, and a start and rate chosen for it (init "plain", one rate
for all). All are judged on names held out, beside a guess by the frequencies of letters. It takes
twelve minutes on two slow cores; --layers 200 takes a fifth of that.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import NamedTuple

sys.path.append(str(Path(__file__).resolve().parent.parent))  # run from a clone, not installed

from examples import lab
from examples.common import whole
from micrograd_res.model import Config, init_params
from micrograd_res.optim import Adam, param_groups
from micrograd_res.plot import Figure, svg_lines, text_lines
from micrograd_res.train import evaluate, train

KINDS = ("with skips", "with skips, one rate for all", "no skips")
WINDOW = 25  # steps whose mean loss a point of the curves is
HELD_OUT = 40  # names: a thousand layers are slow


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


class Run(NamedTuple):
    losses: list[float]  # of every step, before its update, on a name not seen before
    held_out: float
    frequencies: float  # the loss of guessing by the frequencies of letters, on the same names


def work(job: Job) -> Run:
    documents, _ = lab.names(job.seed)
    held_out, documents = documents[:HELD_OUT], documents[HELD_OUT:]
    config = configure(job)
    params = init_params(config, random.Random(job.seed))
    block_rate = min(1.0, 20 / job.n_layer) if job.kind == "with skips" else 1.0
    adam = Adam(param_groups(params, block_rate))
    losses = []
    for step in train(documents, params, config, adam, job.steps, lr=0.02):
        losses.append(step.loss)
        lab.tick()
    frequencies = lab.letter_frequencies(documents, held_out)
    return Run(losses, evaluate(held_out, params, config), frequencies)


Runs = dict[str, list[Run]]  # of each kind, one for each seed


def beyond_frequencies(runs: list[Run]) -> lab.Stat:
    """The loss minus that of letter frequencies on the same names."""
    return lab.Stat.of(run.held_out - run.frequencies for run in runs)


def verdicts(runs: Runs) -> list[str]:
    """Differences seed by seed, on the same names."""
    lines = []
    for kind in KINDS:
        more = beyond_frequencies(runs[kind])
        lines.append(f"frequencies -> {kind}: {lab.change(more, 'better', 'worse')}")
    for kind in KINDS[1:]:
        pairs = zip(runs["with skips"], runs[kind])
        more = lab.Stat.of(run.held_out - skips.held_out for skips, run in pairs)
        lines.append(f"with skips -> {kind}: {lab.change(more, 'better', 'worse')}")
    return lines


def figure(n_layer: int, runs: Runs, frequencies: float) -> Figure:
    skips, no_skips = (beyond_frequencies(runs[kind]) for kind in ("with skips", "no skips"))
    title = (
        f"{n_layer:,} layers, {2 * n_layer:,} plus signs. Held-out loss minus that of letter "
        f"frequencies: {skips.signed()} with skips, {no_skips.signed()} without "
        f"({lab.seeds_seen(skips.n)})"
    )
    losses = {kind: [run.losses for run in runs[kind]] for kind in KINDS}
    return lab.training_figure(title, losses, WINDOW, frequencies)


def main(argv: list[str] | None = None) -> int:
    parser = lab.parser(__doc__)
    add = parser.add_argument
    add("--layers", type=whole(1), default=1000, metavar="N", help="blocks (1000)")
    add("--steps", type=whole(WINDOW), default=100, metavar="N", help="of each training run (100)")
    args = lab.parse(parser, argv, "thousand_layers")
    n_layer, steps = (21, WINDOW) if args.quick else (args.layers, args.steps)
    jobs = [Job(kind, n_layer, seed, steps) for kind in KINDS for seed in range(args.seeds)]
    params = init_params(configure(jobs[0]), random.Random(0))
    count = sum(len(row) for matrix in params.values() for row in matrix)
    print(f"{n_layer:,} layers, {2 * n_layer:,} plus signs, {count:,} parameters, {steps} steps")
    found = dict(zip(jobs, lab.run_all(work, jobs, len(jobs) * steps)))

    runs = {kind: [found[job] for job in jobs if job.kind == kind] for kind in KINDS}
    losses = {kind: lab.Stat.of(run.held_out for run in runs[kind]) for kind in KINDS}
    losses["letter frequencies"] = lab.Stat.of(run.frequencies for run in runs["no skips"])
    header = ["loss on held-out names", lab.seeds_seen(args.seeds)]
    lab.say(lab.table([header, *losses.items()]))
    print("\nChange of that loss, seed by seed, on the same names:")
    for line in verdicts(runs):
        lab.say(line)
    plot = figure(n_layer, runs, lab.letter_frequencies(lab.names(0)[0]))
    lab.draw(text_lines, plot)
    lab.save(svg_lines(plot), args.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(lab.start(main))
