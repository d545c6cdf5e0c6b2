"""Where does the norm go, and does it need the skip? Pre, post and none, with skips and without.

Pre (GPT-2): x + F(norm(x)). Post (Vaswani et al. 2017): norm(x + F(x)). None: x + F(x). You will
see GPTs of 1, 3 and 8 layers, 8 wide, trained on names in all six ways; then nets of 12 layers, 16
wide: pre-norm at a high learning rate, and post-norm at that one and at a lower one. The loss is
measured on names held out. It takes two to three minutes on two slow cores.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

sys.path.append(str(Path(__file__).resolve().parent.parent))  # run from a clone, not installed

from examples import lab
from examples.common import whole
from micrograd_res.model import Config, init_params
from micrograd_res.optim import Adam, param_groups
from micrograd_res.plot import Figure, svg_panels, text_lines
from micrograd_res.train import evaluate, train


class Kind(NamedTuple):
    norm: str
    skips: bool
    lr: float

    def __str__(self) -> str:
        norm = {"pre": "pre-norm", "post": "post-norm", "none": "no norm"}[self.norm]
        return f"{norm}, {'skips' if self.skips else 'no skips'}"


KINDS = (
    Kind("pre", True, 0.01),
    Kind("post", True, 0.01),
    Kind("none", True, 0.01),
    Kind("pre", False, 0.01),
    Kind("post", False, 0.01),
    Kind("none", False, 0.01),
)
DEEP = (Kind("pre", True, 0.02), Kind("post", True, 0.02), Kind("post", True, 0.003))
DEEP_N_EMBD = 16
WINDOW = 50  # steps whose mean loss a point of the curves is


class Job(NamedTuple):
    kind: Kind
    n_layer: int
    seed: int
    steps: int
    held_out: int  # names that the loss is measured on
    n_embd: int = 8


class Run(NamedTuple):
    losses: list[float]  # of every step, before its update
    held_out: float


def work(job: Job) -> Run:
    documents, tokenizer = lab.names(job.seed)
    held_out, documents = documents[: job.held_out], documents[job.held_out :]
    config = Config(
        vocab_size=tokenizer.vocab_size,
        n_layer=job.n_layer,
        n_head=job.n_embd // 4,
        n_embd=job.n_embd,
        residual_attn=job.kind.skips,
        residual_mlp=job.kind.skips,
        norm=job.kind.norm,
    )
    params = init_params(config, random.Random(job.seed))
    adam = Adam(param_groups(params))
    losses = []
    for step in train(documents, params, config, adam, job.steps, job.kind.lr):
        losses.append(step.loss)
        lab.tick(ticks(job))
    return Run(losses, evaluate(held_out, params, config))


def ticks(job: Job) -> int:
    """Roughly what a step costs."""
    return job.n_layer * job.n_embd


Losses = dict[Kind, list[lab.Stat]]  # of each kind, one Stat per depth

PRE, POST, NONE, *_ = KINDS
# Is the skip needed with each norm, and does the norm's place matter?
PAIRS = [(kind._replace(skips=False), kind) for kind in (PRE, POST, NONE)]
PAIRS += [(PRE, POST), (PRE, NONE)]
DEEP_PAIRS = [(DEEP[0], DEEP[1]), (DEEP[1], DEEP[2])]


def with_rate(kind: Kind) -> str:
    return f"{kind.norm}-norm, lr {kind.lr:g}"


def verdicts(
    pairs: Iterable[tuple[Kind, Kind]], loss: dict[Job, float], name: Callable[[Kind], str] = str
) -> list[str]:
    lines = []
    for first, second in pairs:
        jobs = [job for job in loss if job.kind == first]
        more = lab.Stat.of(loss[job._replace(kind=second)] - loss[job] for job in jobs)
        lines.append(f"{name(first)} -> {name(second)}: {lab.change(more, 'better', 'worse')}")
    return lines


def figure(depths: list[int], losses: Losses, frequencies: float) -> Figure:
    def last(skips: bool) -> str:
        kinds = [Kind(norm, skips, 0.01) for norm in ("pre", "post", "none")]
        return ", ".join(f"{losses[kind][-1].mean:.2f}" for kind in kinds)

    title = (
        f"{depths[-1]} layers with pre-norm, post-norm, no norm: loss {last(True)} with skips, "
        f"{last(False)} without ({lab.seeds_seen(losses[PRE][0].n)})"
    )
    lines = [lab.line(str(kind), depths, stats) for kind, stats in losses.items()]
    y_label = f"loss on held-out names (nats per token); {lab.BAND}"
    return Figure(title, "layers", y_label, lines, [("letter frequencies", frequencies)])


def deep_figure(n_layer: int, runs: dict[Kind, list[Run]], frequencies: float) -> Figure:
    """The loss of the deep nets while they train."""
    ends = {kind: lab.Stat.of(run.held_out for run in runs[kind]) for kind in DEEP}
    told = ", ".join(f"{stat} ({with_rate(kind)})" for kind, stat in ends.items())
    title = (
        f"{n_layer} layers, {DEEP_N_EMBD} wide, with skips: loss on held-out names in the end "
        f"{told}; {lab.seeds_seen(ends[DEEP[0]].n)}"
    )
    losses = {with_rate(kind): [run.losses for run in runs[kind]] for kind in DEEP}
    return lab.training_figure(title, losses, WINDOW, frequencies)


def main(argv: list[str] | None = None) -> int:
    parser = lab.parser(__doc__)
    add = parser.add_argument
    add("--layers", type=whole(1), default=12, metavar="N", help="of the deep nets (12)")
    args = lab.parse(parser, argv, "norm_placement")
    depths, deep, steps, held_out = [1, 3, 8], args.layers, 250, 100
    if args.quick:
        depths, deep, steps, held_out = [1, 2], 2, WINDOW, 10
    seeds = range(args.seeds)
    # The longest first, so that no core idles at the end.
    deep_jobs = [
        Job(kind, deep, seed, steps, held_out, DEEP_N_EMBD) for kind in DEEP for seed in seeds
    ]
    grid = [
        Job(kind, n_layer, seed, steps, held_out)
        for n_layer in reversed(depths)
        for kind in KINDS
        for seed in seeds
    ]
    jobs = deep_jobs + grid
    runs = dict(zip(jobs, lab.run_all(work, jobs, sum(steps * ticks(job) for job in jobs))))
    loss = {job: run.held_out for job, run in runs.items()}

    stats = lab.over_seeds(grid, [loss[job] for job in grid])
    losses = {kind: [stats[kind, n] for n in depths] for kind in KINDS}
    rows = [[kind, *stats] for kind, stats in losses.items()]
    lab.say(lab.table([["loss by layers", *depths], *rows]))
    print(f"\nChange of the loss at {depths[-1]} layers, seed by seed:")
    deepest = {job: loss[job] for job in grid if job.n_layer == depths[-1]}
    for line in verdicts(PAIRS, deepest):
        lab.say(line)
    print(f"\nAnd at {deep} layers, {DEEP_N_EMBD} wide, with skips:")
    for line in verdicts(DEEP_PAIRS, {job: loss[job] for job in deep_jobs}, with_rate):
        lab.say(line)

    of_kind = {kind: [runs[job] for job in deep_jobs if job.kind == kind] for kind in DEEP}
    frequencies = lab.letter_frequencies(lab.names(0)[0])
    figures = [figure(depths, losses, frequencies), deep_figure(deep, of_kind, frequencies)]
    for plot in figures:
        lab.draw(text_lines, plot)
    lab.save(svg_panels("Where the norm goes, with and without the skip", figures), args.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(lab.start(main))
