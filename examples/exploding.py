"""Vanishing and exploding on one dial: the size of the weights, in a tower of 20 MLP blocks.

You will see how much larger the gradient is at the first layer than at the last, at the start of
training: that a plain tower vanishes or explodes, with one narrow place between; that the skip
keeps the gradient from vanishing, but not from exploding; and what a norm before each MLP, or a
branch scaled by 1/sqrt(2 n_layer), makes of it. Takes about fifteen seconds.
"""

from __future__ import annotations

import math
import random
import sys
from pathlib import Path
from typing import NamedTuple

sys.path.append(str(Path(__file__).resolve().parent.parent))  # run from a clone, not installed

from examples import lab
from micrograd_res import fused as ops
from micrograd_res.engine import Value
from micrograd_res.model import Config, init_params, layer_of, mlp
from micrograd_res.plot import Figure, Line, svg_lines, text_lines
from micrograd_res.probe import gradient_size

KINDS = {  # skips, norm before each MLP, F(x) scaled by 1 / sqrt(2 n_layer)
    "with skips": (True, False, False),
    "no skips": (False, False, False),
    "skips and scaling": (True, False, True),
    "skips and norm": (True, True, False),
}
GAINS = (0.5, 0.7, 1.0, 1.41, 2.0, 3.0)
POSITIONS = 8
FAR = 1.0  # powers of ten: a gradient explodes if it grows by more, vanishes if it shrinks by more


class Job(NamedTuple):
    kind: str
    gain: float
    n_layer: int
    n_embd: int
    seed: int


def work(job: Job) -> float:
    """log10 of |dL/dx_0| / |dL/dx_L|, for a loss that pulls x_L in a random direction."""
    rng = random.Random(job.seed)
    skips, norm, scaled = KINDS[job.kind]
    config = Config(1, n_layer=job.n_layer, n_head=1, n_embd=job.n_embd, init="fan_in")
    params = init_params(config, rng)
    first = x = [[Value(rng.gauss(0, 1)) for _ in range(job.n_embd)] for _ in range(POSITIONS)]
    for i in range(job.n_layer):
        layer = layer_of(params, i)
        for name, scale in (("mlp_fc1", 1.0), ("mlp_fc2", (2 * job.n_layer) ** -0.5)):
            for value in (value for row in layer[name] for value in row):
                value.data *= job.gain * (scale if scaled else 1.0)
        x_residual = x
        if norm:
            x = ops.rmsnorm(x)
        x = mlp(x, layer)
        if skips:
            x = ops.add(x, x_residual)
    sum(value * rng.gauss(0, 1) for vector in x for value in vector).backward()
    return math.log10(gradient_size(first) / gradient_size(x))


Growth = dict[str, list[lab.Stat]]  # of each kind, for each gain: log10 of the gradient's growth


def gains_where(stats: list[lab.Stat], sign: int) -> str:
    """The gains at which the gradient explodes (sign 1) or vanishes (-1), beyond the spread."""
    found = [gain for gain, s in zip(GAINS, stats) if sign * s.mean - 2 * s.std > FAR]
    return " ".join(f"{gain:g}" for gain in found) or "none"


def verdict(growth: Growth) -> str:
    """What the skip by itself did to a gradient that vanishes or explodes without it."""
    if growth["no skips"][0].n == 1:
        return "No verdict from one seed"
    words = {(True, True): "do not stop", (True, False): "stop", (False, True): "cause"}
    said = []
    for sign, what in ((-1, "vanishing"), (1, "explosion")):
        lost = [gains_where(growth[kind], sign) != "none" for kind in ("no skips", "with skips")]
        if any(lost):
            said.append(f"{words[lost[0], lost[1]]} the {what}")
    return f"Skips alone {' and '.join(said)}" if said else "Nothing vanishes or explodes here"


def report(growth: Growth, n_layer: int) -> None:
    seeds = lab.seeds_seen(growth["no skips"][0].n)
    lab.say(f"log10 of |dL/dx_0| / |dL/dx_{n_layer}|, mean ± standard deviation, {seeds}")
    rows: list[list[object]] = [["gain", *GAINS]]
    rows += [[kind, *(f"{s.mean:.1f}±{s.std:.1f}" for s in growth[kind])] for kind in KINDS]
    lab.say(lab.table(rows) + "\n")
    print(f"Gains at which the gradient vanishes (shrinks over {10**FAR:g} times) or explodes:")
    rows = [["", "vanishes", "explodes"]]
    rows += [[kind, gains_where(growth[kind], -1), gains_where(growth[kind], 1)] for kind in KINDS]
    lab.say(lab.table(rows) + "\n")
    print(f"Powers of ten by which it grows at gain {GAINS[-1]:g}:")
    for kind in ("skips and scaling", "skips and norm"):
        word = lab.compare(growth["with skips"][-1], growth[kind][-1], "smaller", "larger")
        lab.say(f"with skips -> {kind}: {word}")


def curve(kind: str, stats: list[lab.Stat]) -> Line:
    band = [(10**s.low, 10**s.high) for s in stats]
    return Line(kind, GAINS, [10**s.mean for s in stats], band)


def figure(growth: Growth, n_layer: int) -> Figure:
    at_1 = [f"{kind} {10 ** growth[kind][GAINS.index(1.0)].mean:.2g}" for kind in KINDS]
    seeds = lab.seeds_seen(growth["no skips"][0].n)
    return Figure(
        f"{verdict(growth)}. Growth of the gradient at gain 1: {', '.join(at_1)} ({seeds})",
        "gain: weights of std gain / sqrt(fan_in)",
        f"|dL/dx_0| / |dL/dx_{n_layer}| at the start; geometric mean; {lab.BAND}",
        [curve(kind, growth[kind]) for kind in KINDS],
        references=[("unchanged", 1.0)],
        log_y=True,
    )


def main(argv: list[str] | None = None) -> int:
    args = lab.parse(lab.parser(__doc__, seeds=5), argv, "exploding")
    n_layer, n_embd = (4, 4) if args.quick else (20, 16)
    jobs = [
        Job(kind, gain, n_layer, n_embd, seed)
        for kind in KINDS
        for gain in GAINS
        for seed in range(args.seeds)
    ]
    found = dict(zip(jobs, lab.run_all(work, jobs)))
    growth = {
        kind: [
            lab.Stat.of(found[Job(kind, gain, n_layer, n_embd, s)] for s in range(args.seeds))
            for gain in GAINS
        ]
        for kind in KINDS
    }
    report(growth, n_layer)
    plot = figure(growth, n_layer)
    lab.draw(text_lines, plot)
    lab.save(svg_lines(plot), args.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(lab.start(main))
