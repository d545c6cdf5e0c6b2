"""What reaches the first layer: gradients in a GPT of 12 blocks, with and without skips.

You will see that without skips and without norms the gradient of the stream vanishes at the start,
and that with a norm before each sublayer it does NOT, skips or no skips: it may shrink, but not by
a factor at each layer. What goes wrong there without skips is that all positions become alike:
attention, whose work is to tell them apart, is left with next to nothing to learn from in the later
blocks. After some training the gradient has vanished as well.
Takes about a minute.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from functools import partial
from math import isfinite, nan
from pathlib import Path
from statistics import median
from typing import NamedTuple

sys.path.append(str(Path(__file__).resolve().parent.parent))  # run from a clone, not installed

from examples import lab
from examples.common import whole
from micrograd_res.model import Config, init_params
from micrograd_res.optim import Adam, param_groups
from micrograd_res.plot import Figure, Line, svg_panels, text_lines
from micrograd_res.probe import Flow, measure
from micrograd_res.train import train

KINDS = {  # skips, norm
    "with skips": (True, "pre"),
    "no skips": (False, "pre"),
    "with skips, no norm": (True, "none"),
    "no skips, no norm": (False, "none"),
}
MEASURED = 8  # names: each measurement is the mean over them
FAR = 1000.0  # a gradient that changes by more, from the last layer to the first, does not arrive
ALIKE = 0.9  # cosine above which positions count as alike
EPS = 1e-8  # Adam's: it hardly moves a weight whose gradient is smaller
STREAM = "x_0 is the embedding, x_l leaves block l"


class Job(NamedTuple):
    kind: str
    n_layer: int
    n_embd: int
    steps: int
    seed: int


def work(job: Job) -> tuple[Flow, Flow]:
    """Measured at the start, and again after training."""
    documents, tokenizer = lab.names(job.seed)
    measured, documents = documents[:MEASURED], documents[MEASURED:]
    skips, norm = KINDS[job.kind]
    config = Config(
        vocab_size=tokenizer.vocab_size,
        n_layer=job.n_layer,
        n_embd=job.n_embd,
        residual_attn=skips,
        residual_mlp=skips,
        norm=norm,
    )
    params = init_params(config, random.Random(job.seed))

    def mean_flow() -> Flow:
        flows = [measure(document, params, config) for document in measured]
        return Flow(*([sum(v) / MEASURED for v in zip(*lists)] for lists in zip(*flows)))

    first = mean_flow()
    for _ in train(documents, params, config, Adam(param_groups(params)), job.steps):
        lab.tick()
    return first, mean_flow()


Rows = list[list[float]]  # one row a seed, one number a layer


def agreed(rows: Rows, word: Callable[[list[float]], str]) -> str:
    words = {word(row) if all(map(isfinite, row)) else "diverged" for row in rows}
    return words.pop() if len(words) == 1 else "differs by seed"


def arrival(rows: Rows) -> str:
    """What becomes of a gradient on its way from the last layer to the first."""

    def word(first: float, last: float) -> str:
        return "vanishes" if first * FAR < last else "explodes" if first > last * FAR else "arrives"

    return agreed(rows, lambda row: word(row[0], row[-1]))


def likeness(rows: Rows) -> str:
    return agreed(rows, lambda row: "alike" if row[-1] > ALIKE else "different")


def lesson(rows: Rows) -> str:
    return agreed(rows, lambda row: ("too small" if row[-1] < EPS else "enough") + " for Adam")


def told(judge: Callable[[Rows], str], curves: dict[str, Rows]) -> str:
    """What the judge says of which curves: 'vanishes (a), arrives (b; c)'."""
    said: dict[str, list[str]] = {}
    for kind, rows in curves.items():
        said.setdefault(judge(rows), []).append(kind)
    return ", ".join(f"{word} ({'; '.join(kinds)})" for word, kinds in said.items())


def line(kind: str, rows: Rows) -> Line:
    """The median over seeds, for a mean would show the largest; in a band of all of them."""
    columns = [column if all(map(isfinite, column)) else (nan,) for column in zip(*rows)]
    band = [(min(column), max(column)) for column in columns]
    return Line(kind, range(len(columns)), [median(column) for column in columns], band)


def lines(curves: dict[str, Rows]) -> list[Line]:
    return [line(kind, rows) for kind, rows in curves.items()]


def spread(curves: dict[str, Rows]) -> str:
    cells = [["median (lowest to highest)", "first layer", "last layer"]]
    for kind, rows in curves.items():
        ends = [row[0] for row in rows], [row[-1] for row in rows]
        cells.append([kind, *(f"{median(v):.1g} ({min(v):.1g} to {max(v):.1g})" for v in ends)])
    return lab.table(cells)


Panel = tuple[dict[str, Rows], Figure]


def gradients(curves: dict[str, Rows], when: str) -> Panel:
    title = f"{when}, the gradient of the stream {told(arrival, curves)}"
    return curves, Figure(title, STREAM, "|dL/dx_l|", lines(curves), log_y=True)


def positions(curves: dict[str, Rows], when: str) -> Panel:
    title = f"{when}, the positions that leave the last block are {told(likeness, curves)}"
    return curves, Figure(title, STREAM, "mean cosine between two positions", lines(curves))


def queries(curves: dict[str, Rows], when: str) -> Panel:
    title = f"{when}, in the last block the gradient of the query weights is {told(lesson, curves)}"
    adam = [("Adam's eps", EPS)]
    return curves, Figure(title, "block", "|dL/d attn_wq|", lines(curves), adam, log_y=True)


def main(argv: list[str] | None = None) -> int:
    parser = lab.parser(__doc__)
    parser.add_argument("--layers", type=whole(2), default=12, metavar="N", help="blocks (12)")
    parser.add_argument("--steps", type=whole(1), default=200, metavar="N", help="training (200)")
    args = lab.parse(parser, argv, "gradient_flow")
    n_layer, n_embd, steps = (3, 4, 2) if args.quick else (args.layers, 16, args.steps)
    jobs = [
        Job(kind, n_layer, n_embd, steps if norm == "pre" else 0, seed)
        for kind, (_, norm) in KINDS.items()
        for seed in range(args.seeds)
    ]
    flows = lab.run_all(work, jobs, sum(job.steps for job in jobs))

    def curves(field: str, kinds: Sequence[str], trained: bool = False) -> dict[str, Rows]:
        rows: dict[str, Rows] = {kind: [] for kind in kinds}
        for job, flow in zip(jobs, flows):
            if job.kind in kinds:
                rows[job.kind].append(getattr(flow[trained], field))
        return rows

    normed = ("with skips", "no skips")
    panels = [
        gradients(curves("gradient", list(KINDS)), "At the start"),
        positions(curves("similarity", normed), "At the start"),
        queries(curves("query_gradient", normed), "At the start"),
        gradients(curves("gradient", normed, trained=True), f"After {steps} steps"),
    ]
    for shown, figure in panels:
        lab.draw(partial(text_lines, height=10), figure)
        lab.say(spread(shown))
    seen = f"median of {lab.seeds_seen(args.seeds)}; {lab.BAND}"
    title = f"What reaches the first of {n_layer} blocks ({seen})"
    lab.save(svg_panels(title, [figure for _, figure in panels]), args.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(lab.start(main))
