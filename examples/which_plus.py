"""Which plus sign matters? A block has two: x + attention(x) and x + mlp(x).

You will see GPTs of 1, 2 and 4 layers trained on names with both skips, with one of them, and with
neither, from the same first weights. The loss is measured on names held out, and told as how much
lower it is than with neither and the same seed. It takes about a minute on two cores.
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
from micrograd_res.plot import Bar, svg_bars, text_bars
from micrograd_res.train import evaluate, train

KINDS = {  # residual_attn, residual_mlp
    "both": (True, True),
    "attention only": (True, False),
    "MLP only": (False, True),
    "neither": (False, False),
}
SOME = tuple(KINDS)[:3]  # the kinds that have a skip
UNIT = "how much lower the loss is than with neither skip (nats per token)"


class Job(NamedTuple):
    kind: str
    n_layer: int
    seed: int
    steps: int
    held_out: int  # names that the loss is measured on


def work(job: Job) -> float:
    documents, tokenizer = lab.names(job.seed)
    held_out, documents = documents[: job.held_out], documents[job.held_out :]
    residual_attn, residual_mlp = KINDS[job.kind]
    config = Config(
        vocab_size=tokenizer.vocab_size,
        n_layer=job.n_layer,
        n_head=2,
        n_embd=8,
        residual_attn=residual_attn,
        residual_mlp=residual_mlp,
    )
    params = init_params(config, random.Random(job.seed))
    for _ in train(documents, params, config, Adam(param_groups(params)), job.steps):
        lab.tick(job.n_layer)
    return evaluate(held_out, params, config)


Losses = dict[tuple[str, int], lab.Stat]  # of each kind and depth


def gains(jobs: list[Job], results: list[float]) -> Losses:
    """By how much each kind beats the net with neither skip and the same seed."""
    loss = dict(zip(jobs, results))
    return lab.over_seeds(jobs, [loss[job._replace(kind="neither")] - loss[job] for job in jobs])


def verdicts(depths: list[int], gain: Losses) -> list[str]:
    return [
        f"layers {n}, {kind}: {lab.change(gain[kind, n], 'hurt', 'helped')}"
        for n in depths
        for kind in SOME
    ]


def title(depths: list[int], gain: Losses) -> str:
    first, last = depths[0], depths[-1]
    return (
        f"Skips at {last} layers lower the loss by {gain['both', last]} nats (both), "
        f"{gain['attention only', last]} (attention's), {gain['MLP only', last]} (the MLP's); "
        f"both at {first}: {gain['both', first]}; {lab.seeds_seen(gain['both', last].n)}"
    )


def bars(depths: list[int], gain: Losses) -> list[Bar]:
    return [
        Bar(kind, gain[kind, n].mean, gain[kind, n].std, f"layers: {n}")
        for n in depths
        for kind in SOME
    ]


def main(argv: list[str] | None = None) -> int:
    parser = lab.parser(__doc__)
    add = parser.add_argument
    add("--steps", type=whole(1), default=500, metavar="N", help="of each training run (500)")
    args = lab.parse(parser, argv, "which_plus")
    depths, steps, held_out = ([1, 2], 5, 10) if args.quick else ([1, 2, 4], args.steps, 400)
    jobs = [
        Job(kind, n_layer, seed, steps, held_out)
        for n_layer in reversed(depths)  # the longest first, so that no core idles at the end
        for kind in KINDS
        for seed in range(args.seeds)
    ]
    results = lab.run_all(work, jobs, sum(steps * job.n_layer for job in jobs))
    losses = lab.over_seeds(jobs, results)
    rows = [[kind, *(losses[kind, n] for n in depths)] for kind in KINDS]
    lab.say(lab.table([["loss by layers", *depths], *rows]))
    gain = gains(jobs, results)
    print("\nBetter than neither by, seed by seed:")
    for line in verdicts(depths, gain):
        lab.say(line)
    plot = (title(depths, gain), bars(depths, gain), UNIT)
    lab.draw(text_bars, *plot)
    lab.save(svg_bars(*plot), args.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(lab.start(main))
