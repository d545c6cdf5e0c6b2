"""Where does the norm go, and does it need the skip? Pre, post and none, with skips and without.

Pre (GPT-2): x + F(norm(x)). Post (Vaswani et al. 2017): norm(x + F(x)). None: x + F(x). You will
see GPTs of 1, 3 and 8 layers trained on names in all six ways, and pre and post with skips at
twice the learning rate too. The loss is measured on names held out. It takes two to three minutes.
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
from micrograd_res.plot import Figure, Line, svg_lines, text_lines
from micrograd_res.train import evaluate, train


class Kind(NamedTuple):
    norm: str
    skips: bool
    lr: float

    def __str__(self) -> str:
        norm = {"pre": "pre-norm", "post": "post-norm", "none": "no norm"}[self.norm]
        lr = "" if self.lr == 0.01 else f", lr {self.lr:g}"
        return f"{norm}, {'skips' if self.skips else 'no skips'}{lr}"


KINDS = (
    Kind("pre", True, 0.01),
    Kind("post", True, 0.01),
    Kind("none", True, 0.01),
    Kind("pre", True, 0.02),
    Kind("post", True, 0.02),
    Kind("pre", False, 0.01),
    Kind("post", False, 0.01),
    Kind("none", False, 0.01),
)


class Job(NamedTuple):
    kind: Kind
    n_layer: int
    seed: int
    steps: int
    held_out: int  # names that the loss is measured on


def work(job: Job) -> float:
    documents, tokenizer = lab.names(job.seed)
    held_out, documents = documents[: job.held_out], documents[job.held_out :]
    config = Config(
        vocab_size=tokenizer.vocab_size,
        n_layer=job.n_layer,
        n_head=2,
        n_embd=8,
        residual_attn=job.kind.skips,
        residual_mlp=job.kind.skips,
        norm=job.kind.norm,
    )
    params = init_params(config, random.Random(job.seed))
    adam = Adam(param_groups(params))
    for _ in train(documents, params, config, adam, job.steps, job.kind.lr):
        lab.tick(job.n_layer)
    return evaluate(held_out, params, config)


Losses = dict[Kind, list[lab.Stat]]  # of each kind, one Stat per depth

PRE, POST, NONE, PRE_FAST, POST_FAST, *_ = KINDS


def verdicts(n_layer: int, loss: dict[Job, float]) -> list[str]:
    """Of the deepest nets: is the skip needed with each norm, and does the norm's place matter?"""
    pairs = [(kind._replace(skips=False), kind) for kind in (PRE, POST, NONE)]
    pairs += [(PRE, POST), (PRE, NONE), (PRE, PRE_FAST), (POST, POST_FAST)]
    lines = []
    for first, second in pairs:
        jobs = [job for job in loss if (job.kind, job.n_layer) == (first, n_layer)]
        more = lab.Stat.of(loss[job._replace(kind=second)] - loss[job] for job in jobs)
        lines.append(f"{first} -> {second}: {lab.change(more, 'better', 'worse')}")
    return lines


def figure(depths: list[int], losses: Losses) -> Figure:
    def last(skips: bool) -> str:
        kinds = [Kind(norm, skips, 0.01) for norm in ("pre", "post", "none")]
        return ", ".join(f"{losses[kind][-1].mean:.2f}" for kind in kinds)

    title = (
        f"{depths[-1]} layers with pre-norm, post-norm, no norm: loss {last(True)} with skips, "
        f"{last(False)} without ({lab.seeds_seen(losses[PRE][0].n)})"
    )
    lines = [
        Line(str(kind), depths, [s.mean for s in stats], [s.std for s in stats])
        for kind, stats in losses.items()
    ]
    frequencies = lab.letter_frequencies(lab.names(0)[0])
    references = [("letter frequencies", frequencies)]
    return Figure(title, "layers", "loss (nats per token)", lines, references)


def main(argv: list[str] | None = None) -> int:
    parser = lab.parser(__doc__)
    parser.add_argument(
        "--layers", type=whole(4), default=8, metavar="N", help="of the deepest (8)"
    )
    args = lab.parse(parser, argv, "norm_placement")
    depths, steps, held_out = ([1, 2], 5, 10) if args.quick else ([1, 3, args.layers], 300, 400)
    jobs = [
        Job(kind, n_layer, seed, steps, held_out)
        for n_layer in reversed(depths)  # the longest first, so that no core idles at the end
        for kind in KINDS
        for seed in range(args.seeds)
    ]
    results = lab.run_all(work, jobs, sum(steps * job.n_layer for job in jobs))
    stats = lab.over_seeds(jobs, results)
    losses = {kind: [stats[kind, n] for n in depths] for kind in KINDS}
    rows = [[kind, *stats] for kind, stats in losses.items()]
    lab.say(lab.table([["loss by layers", *depths], *rows]))
    print(f"\nChange of the loss at {depths[-1]} layers, seed by seed:")
    for line in verdicts(depths[-1], dict(zip(jobs, results))):
        lab.say(line)
    plot = figure(depths, losses)
    lab.draw(text_lines, plot)
    lab.save(svg_lines(plot), args.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(lab.start(main))
