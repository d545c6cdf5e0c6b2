"""Remove a block from a trained GPT: what is it worth, and can the rest do without it?

You will see that a net with skips hardly notices most of its blocks gone, while a net without them
falls apart whichever one goes (Veit et al. 2016). Then blocks are removed one after the other, the
last first, until only the embedding is left: with skips, what the skip path alone has carried.
Takes two to three minutes on two slow cores.
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
from micrograd_res.plot import Figure, svg_panels, text_lines
from micrograd_res.probe import lesion
from micrograd_res.train import train

KINDS = {  # skips, init, learning rate: without skips what serves such a net best
    "with skips": (True, "plain", 0.01),
    "no skips, tuned": (False, "fan_in", 0.003),
}


class Job(NamedTuple):
    kind: str
    n_layer: int
    steps: int
    held_out: int  # names, on which every loss is measured
    seed: int


class Losses(NamedTuple):
    whole: float
    without: list[float]  # block i
    without_last: list[float]  # i blocks, from 0 to all


def work(job: Job) -> Losses:
    documents, tokenizer = lab.names(job.seed)
    held_out, documents = documents[: job.held_out], documents[job.held_out :]
    skips, init, lr = KINDS[job.kind]
    config = Config(
        tokenizer.vocab_size,
        n_layer=job.n_layer,
        residual_attn=skips,
        residual_mlp=skips,
        init=init,
    )
    params = init_params(config, random.Random(job.seed))
    for _ in train(documents, params, config, Adam(param_groups(params)), job.steps, lr):
        lab.tick(job.n_layer)
    n = job.n_layer
    return Losses(
        lesion(held_out, params, config),
        [lesion(held_out, params, config, {i}) for i in range(n)],
        [lesion(held_out, params, config, range(n - k, n)) for k in range(n + 1)],
    )


Rises = list[list[float]]  # of the loss: one row a seed, in it one number for each block removed


def rises(runs: list[Losses]) -> Rises:
    return [[loss - run.whole for loss in run.without] for run in runs]


Panel = tuple[list[list[lab.Stat]], Figure]  # of each line, one Stat for each of its points


def over_seeds(rows: list[list[float]]) -> list[lab.Stat]:
    return [lab.Stat.of(column) for column in zip(*rows)]


def one_removed(skips: Rises, plain: Rises) -> Panel:
    cases = [(a, b) for rows in zip(skips, plain) for a, b in zip(*rows)]
    less = sum(a < b for a, b in cases)
    stats = [over_seeds(rows) for rows in (skips, plain)]
    means = [[s.mean for s in of_kind] for of_kind in stats]
    spans = [f"{min(of_kind):.2g} to {max(of_kind):.2g}" for of_kind in means]
    blocks = range(1, len(skips[0]) + 1)
    return stats, Figure(
        f"Remove one block: the loss rises by {spans[0]} with skips, by {spans[1]} without "
        f"(it rose less with skips in {less} of {len(cases)} cases: {len(skips[0])} blocks, "
        f"{lab.seeds_seen(len(skips))})",
        "block removed",
        f"rise of the loss (nats per token); {lab.BAND}",
        [lab.line(kind, blocks, of_kind) for kind, of_kind in zip(KINDS, stats)],
    )


def last_removed(nets: dict[str, list[Losses]], frequencies: float) -> Panel:
    stats = [over_seeds([run.without_last for run in runs]) for runs in nets.values()]
    y = [s.mean for s in stats[0]]
    n_layer = len(y) - 1
    half = n_layer // 2
    return stats, Figure(
        f"Remove the last blocks: with skips the loss goes from {y[0]:.2f} to {y[half]:.2f} "
        f"without {half} of {n_layer}, to {y[-1]:.2f} with only the skip path left",
        "blocks removed, from the last one down",
        f"loss (nats per token); {lab.BAND}",
        [lab.line(name, range(len(s)), s) for name, s in zip(nets, stats)],
        references=[("letter frequencies", frequencies)],
    )


def table(stats: list[list[lab.Stat]], figure: Figure) -> str:
    rows: list[list[object]] = [["removed", *(line.label for line in figure.lines)]]
    first = figure.lines[0].x[0]
    for i in range(max(map(len, stats))):
        rows.append([first + i, *(s[i].text(".3f") if i < len(s) else "" for s in stats)])
    return lab.table(rows)


def main(argv: list[str] | None = None) -> int:
    parser = lab.parser(__doc__)
    parser.add_argument("--steps", type=whole(1), default=1000, metavar="N", help="training (1000)")
    args = lab.parse(parser, argv, "lesion")
    shallow, deep, steps, held_out = (2, 3, 5, 5) if args.quick else (4, 8, args.steps, 50)
    with_skips, no_skips = KINDS
    jobs = [
        Job(kind, n_layer, steps, held_out, seed)
        for kind, n_layer in ((with_skips, deep), (with_skips, shallow), (no_skips, shallow))
        for seed in range(args.seeds)
    ]
    found = dict(zip(jobs, lab.run_all(work, jobs, sum(job.steps * job.n_layer for job in jobs))))

    def runs(kind: str, n_layer: int) -> list[Losses]:
        return [found[Job(kind, n_layer, steps, held_out, seed)] for seed in range(args.seeds)]

    one = one_removed(rises(runs(with_skips, shallow)), rises(runs(no_skips, shallow)))
    nets = {
        f"{with_skips}, {deep} blocks": runs(with_skips, deep),
        f"{no_skips}, {shallow} blocks": runs(no_skips, shallow),
    }
    last = last_removed(nets, lab.letter_frequencies(lab.names(0)[0]))
    for stats, figure in (one, last):
        lab.draw(text_lines, figure)
        lab.say(table(stats, figure))
    figures = [figure for _, figure in (one, last)]
    lab.save(svg_panels("A trained GPT without some of its blocks", figures), args.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(lab.start(main))
