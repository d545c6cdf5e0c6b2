"""Doing nothing must be easy: how hard it is for a block to let x through unchanged.

With the skip a block does nothing when F(x) = 0: weights of zero. Without it its matrices have to
learn to be the identity. You will see that twice, in a minute:

1. towers of 1 to 8 MLP blocks learn y = x, the easiest function there is;
2. fresh blocks are put on top of a trained GPT. With skips and a zero start (the last matrix of
   each F is zero) they should not change one bit of what it says.
"""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

sys.path.append(str(Path(__file__).resolve().parent.parent))  # run from a clone, not installed

from examples import lab
from micrograd_res import fused as ops
from micrograd_res.engine import Value
from micrograd_res.functional import Sequence
from micrograd_res.model import Config, Params, as_floats, gpt, init_params, layer_of, mlp
from micrograd_res.optim import Adam, learning_rate, param_groups
from micrograd_res.plot import Figure, svg_panels, text_lines
from micrograd_res.train import train

KINDS = {  # skips, init
    "with skips": (True, "plain"),
    "no skips": (False, "plain"),
    "no skips, tuned": (False, "fan_in"),
    "with skips, zero start": (True, "zero"),
}
WIDTH, BATCH = 4, 8  # of a tower
APPENDED = (0, 1, 3, 7)


class Job(NamedTuple):
    kind: str
    n_layer: int
    seed: int
    steps: int
    held_out: int = 0  # names that the loss of a GPT is measured on


Errors = dict[str, list[lab.Stat]]  # of each kind, one Stat for each number of blocks


# ---- 1. Towers that learn y = x.


def tower(x: Sequence, params: Params, n_layer: int, skips: bool) -> Sequence:
    for i in range(n_layer):
        x_residual = x
        x = mlp(x, layer_of(params, i), ops)
        if skips:
            x = ops.add(x, x_residual)
    return x


def squared_error(y: Sequence, target: Sequence) -> Value:
    errors = [(a - b) ** 2 for ys, bs in zip(y, target) for a, b in zip(ys, bs)]
    return sum(errors[1:], errors[0]) / len(errors)


def vectors(rng: random.Random, n: int) -> list[list[float]]:
    return [[rng.gauss(0, 1) for _ in range(WIDTH)] for _ in range(n)]


def learn_identity(job: Job) -> float:
    """The mean squared error of each number after training; saying 0 to everything has 1."""
    skips, init = KINDS[job.kind]
    rng = random.Random(job.seed)
    config = Config(vocab_size=1, n_layer=job.n_layer, n_head=1, n_embd=WIDTH, init=init)
    params = init_params(config, rng)  # of which a tower uses the MLPs
    adam = Adam(param_groups(params))
    for step in range(job.steps):
        x = [[Value(number) for number in row] for row in vectors(rng, BATCH)]
        adam.zero_grad()
        squared_error(tower(x, params, job.n_layer, skips), x).backward()
        adam.step(learning_rate(step, job.steps, lr=0.01))
        lab.tick(job.n_layer)
    test = vectors(rng, 200)
    return float(squared_error(tower(test, as_floats(params), job.n_layer, skips), test))


def run_towers(depths: list[int], steps: int, seeds: range) -> Errors:
    jobs = [
        Job(kind, n_layer, seed, steps)
        for n_layer in reversed(depths)  # the longest first, so that no core idles at the end
        for kind in KINDS
        for seed in seeds
    ]
    results = lab.run_all(learn_identity, jobs, sum(steps * job.n_layer for job in jobs))
    stats = lab.over_seeds(jobs, results)
    return {kind: [stats[kind, n] for n in depths] for kind in KINDS}


def report_towers(depths: list[int], errors: Errors) -> Figure:
    rows = [[s.text(".1g") for s in stats] for stats in errors.values()]
    print("1. The mean squared error of towers that learned y = x, by the blocks they have")
    lab.say(lab.table([["", *depths], *([kind, *row] for kind, row in zip(errors, rows))]))
    plain_net, zero = errors["no skips"], errors["with skips, zero start"]
    exact = "is exactly 0" if not any(s.mean or s.std for s in zero) else "is NOT 0 throughout"
    title = (
        f"Learning y = x, {depths[0]} to {depths[-1]} blocks: the error "
        f"{lab.trend(plain_net[0], plain_net[-1], '.1g')} without skips; "
        f"with skips and a zero start it {exact} ({lab.seeds_seen(zero[0].n)})"
    )
    lines = [lab.line(kind, depths, stats) for kind, stats in errors.items()]
    y_label = f"mean squared error; 1 is to say 0; {lab.BAND}"
    return Figure(title, "MLP blocks", y_label, lines, log_y=True)


# ---- 2. Fresh blocks on a trained GPT.


def append_blocks(params: Params, fresh: Params, n_layer: int) -> Params:
    """The params of a model with one block, and after it the blocks 1 to n_layer of `fresh`."""
    blocks = tuple(f"layer{i}." for i in range(1, n_layer + 1))
    return params | {name: matrix for name, matrix in fresh.items() if name.startswith(blocks)}


def append(job: Job) -> list[tuple[float, bool]]:
    """For 0, 1, 3, 7 fresh blocks: the loss, and whether a logit has changed."""
    skips, init = KINDS[job.kind]
    documents, tokenizer = lab.names(job.seed)
    config = Config(tokenizer.vocab_size, residual_attn=skips, residual_mlp=skips)
    rng = random.Random(job.seed)
    params = init_params(config, rng)
    held_out, documents = documents[: job.held_out], documents[job.held_out :]
    for _ in train(documents, params, config, Adam(param_groups(params)), job.steps):
        lab.tick()
    fresh = init_params(replace(config, n_layer=1 + max(APPENDED), init=init), rng)
    results, first_logits = [], None
    for n in APPENDED:
        longer, more = replace(config, n_layer=1 + n), append_blocks(params, fresh, n)
        logits = [gpt(tokens[:-1], as_floats(more), longer) for tokens in held_out]
        pairs = zip(logits, held_out)
        losses = [float(ops.cross_entropy(row, tokens[1:])) for row, tokens in pairs]
        first_logits = first_logits or logits
        results.append((sum(losses) / len(losses), logits != first_logits))
    return results


def run_appended(steps: int, seeds: range, held_out: int) -> tuple[Errors, dict[str, bool]]:
    """For each kind the losses, and whether a logit changed in any run."""
    kinds = [kind for kind in KINDS if kind != "no skips, tuned"]
    jobs = [Job(kind, 1, seed, steps, held_out) for kind in kinds for seed in seeds]
    results = lab.run_all(append, jobs, steps * len(jobs))
    losses, changed = {}, {}
    for kind in kinds:
        runs = [result for job, result in zip(jobs, results) if job.kind == kind]
        losses[kind] = [lab.Stat.of(loss for loss, _ in column) for column in zip(*runs)]
        changed[kind] = any(change for run in runs for _, change in run)
    return losses, changed


def report_appended(losses: Errors, changed: dict[str, bool]) -> Figure:
    print("\n2. The loss of a trained GPT, by the fresh blocks put on top of it")
    rows = [[kind, *stats] for kind, stats in losses.items()]
    lab.say(lab.table([["", *APPENDED], *rows]))
    for kind, stats in losses.items():
        print(f"{kind}: {lab.compare(stats[0], stats[-1], 'they helped', 'they hurt')}")
    same = [kind for kind in losses if not changed[kind]]
    print(f"not one bit of a logit changed: {'; '.join(same) or 'in none of them'}")
    zero, no_skips = losses["with skips, zero start"], losses["no skips"]
    title = (
        f"{APPENDED[-1]} fresh blocks on a trained GPT: its loss "
        f"{lab.trend(no_skips[0], no_skips[-1])} without skips and "
        f"{lab.trend(zero[0], zero[-1])} with skips and a zero start"
    )
    lines = [lab.line(kind, APPENDED, stats) for kind, stats in losses.items()]
    return Figure(title, "fresh blocks", f"loss (nats per token); {lab.BAND}", lines)


def main(argv: list[str] | None = None) -> int:
    args = lab.parse(lab.parser(__doc__), argv, "identity")
    depths, steps, held_out = ([1, 2], 5, 5) if args.quick else ([1, 2, 4, 8], 400, 100)
    seeds = range(args.seeds)
    errors = run_towers(depths, steps, seeds)
    losses, changed = run_appended(steps, seeds, held_out)
    figures = [report_towers(depths, errors), report_appended(losses, changed)]
    for figure in figures:
        lab.draw(text_lines, figure)
    title = "Doing nothing: learning y = x, and blocks that a trained GPT did not need"
    lab.save(svg_panels(title, figures), args.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(lab.start(main))
