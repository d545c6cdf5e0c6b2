"""Deeper, yet worse on its own training data: what He et al. (2015) saw, in a tiny GPT.

You will see GPTs of 1 to 6 layers memorise the same 32 names. Nothing is held out, so more layers
could only help. Three curves: with both skips; without; and without, but with first weights and a
learning rate chosen to be kind to a stack without skips. It takes about two minutes on two cores.

--names trains on all names instead (five minutes), and measures the loss on names that were held
out too. If a deeper net loses on both, the reason is not overfitting.
"""

from __future__ import annotations

import math
import random
import sys
from pathlib import Path
from typing import NamedTuple

sys.path.append(str(Path(__file__).resolve().parent.parent))  # run from a clone, not installed

from examples import lab
from micrograd_res.model import Config, init_params
from micrograd_res.optim import Adam, param_groups
from micrograd_res.plot import Figure, svg_lines, text_lines
from micrograd_res.train import evaluate, train

KINDS = ("with skips", "no skips", "no skips, tuned")
HELD_OUT = 200  # names, and as many of those trained on


class Job(NamedTuple):
    kind: str
    n_layer: int
    seed: int
    steps: int
    all_names: bool


class Losses(NamedTuple):
    trained_on: float
    held_out: float
    letter_frequencies: float  # of a model that knows these of what it trains on, and no more


def work(job: Job) -> Losses:
    documents, tokenizer = lab.names(job.seed)
    held_out, documents = documents[:HELD_OUT], documents[HELD_OUT:]
    if not job.all_names:
        documents = documents[:32]
    skips, tuned = job.kind == "with skips", job.kind == "no skips, tuned"
    config = Config(
        vocab_size=tokenizer.vocab_size,
        n_layer=job.n_layer,
        n_head=2,
        n_embd=16 if job.all_names else 8,
        residual_attn=skips,
        residual_mlp=skips,
        init="fan_in" if tuned else "plain",
    )
    params = init_params(config, random.Random(job.seed))
    lr = 0.003 if tuned else 0.01
    for _ in train(documents, params, config, Adam(param_groups(params)), job.steps, lr):
        lab.tick(job.n_layer)
    return Losses(
        evaluate(documents[:HELD_OUT], params, config),
        evaluate(held_out, params, config) if job.all_names else math.nan,
        lab.letter_frequencies(documents),
    )


Curves = dict[str, list[lab.Stat]]  # of each kind, one Stat per depth


def curves(depths: list[int], jobs: list[Job], losses: list[float]) -> Curves:
    stats = lab.over_seeds(jobs, losses)
    return {kind: [stats[kind, n] for n in depths] for kind in KINDS}


def verdicts(depths: list[int], losses: Curves) -> list[str]:
    return [
        f"{kind}, {depths[0]} -> {depths[-1]} layers: "
        + lab.compare(stats[0], stats[-1], "deeper helped", "deeper hurt")
        for kind, stats in losses.items()
    ]


def figure(depths: list[int], seen: Curves, held_out: Curves, frequencies: float) -> Figure:
    skips, plain = seen["with skips"], seen["no skips"]
    title = (
        f"From {depths[0]} to {depths[-1]} layers, the training loss "
        f"{lab.trend(skips[0], skips[-1])} with skips and {lab.trend(plain[0], plain[-1])} "
        f"without ({lab.seeds_seen(skips[0].n)})"
    )
    lines = [
        lab.line(kind + ending, depths, stats)
        for losses, ending in ((seen, ""), (held_out, " (held out)"))
        for kind, stats in losses.items()
    ]
    references = [("letter frequencies", frequencies)]
    return Figure(title, "layers", f"loss (nats per token); {lab.BAND}", lines, references)


def report(depths: list[int], seen: Curves, held_out: Curves) -> None:
    rows: list[list[object]] = [["loss by layers", *depths]]
    rows += [[kind, *stats] for kind, stats in seen.items()]
    rows += [[f"{kind} (held out)", *stats] for kind, stats in held_out.items()]
    lab.say(lab.table(rows))
    for line in verdicts(depths, seen):
        lab.say(line)


def main(argv: list[str] | None = None) -> int:
    parser = lab.parser(__doc__)
    parser.add_argument("--names", action="store_true", help="train on all names, 16 wide")
    args = lab.parse(parser, argv, "degradation")
    if args.names and args.out == lab.PLOTS / "degradation.svg":
        args.out = lab.PLOTS / "degradation_names.svg"
    depths, steps = ([1, 2, 3, 4], 1000) if args.names else ([1, 2, 3, 4, 6], 600)
    if args.quick:
        depths, steps = [1, 2], 5
    jobs = [
        Job(kind, n_layer, seed, steps, args.names)
        for n_layer in reversed(depths)  # the longest first, so that no core idles at the end
        for kind in KINDS
        for seed in range(args.seeds)
    ]
    results = lab.run_all(work, jobs, sum(job.steps * job.n_layer for job in jobs))
    seen = curves(depths, jobs, [result.trained_on for result in results])
    held_out = curves(depths, jobs, [result.held_out for result in results]) if args.names else {}
    report(depths, seen, held_out)
    frequencies = lab.Stat.of(result.letter_frequencies for result in results).mean
    plot = figure(depths, seen, held_out, frequencies)
    lab.draw(text_lines, plot)
    lab.save(svg_lines(plot), args.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(lab.start(main))
