"""How long a training step takes, in both tellings, and how that grows with the model.

Prints tables of CPU time. Machines are noisy, so everything takes turns, round after round, on
the same names: times are medians over rounds, ratios compare times of one round. About a minute.
"""

from __future__ import annotations

import argparse
import platform
import random
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from statistics import median
from types import ModuleType

sys.path.append(str(Path(__file__).resolve().parent.parent))  # run from a clone, not installed

from examples.common import NAMES, Progress, whole
from micrograd_res import functional, fused
from micrograd_res.data import Tokenizer, read_documents
from micrograd_res.model import Config, Params, as_floats, init_params
from micrograd_res.optim import Adam, param_groups
from micrograd_res.train import document_loss, train

DEPTHS = (1, 2, 4, 8, 16)
WIDTHS = (16, 32, 64)
Round = Callable[[], float]  # milliseconds of CPU time for one name


def training(documents: list[list[int]], config: Config, ops: ModuleType = fused) -> Round:
    """Forward, backward and Adam, one name a step."""
    params = init_params(config, random.Random(1))
    adam = Adam(param_groups(params))

    def one_round() -> float:
        last = adam.steps + len(documents)
        start = time.process_time()
        for _ in train(documents, params, config, adam, last, lr=1e-3, ops=ops):
            pass
        return 1000 * (time.process_time() - start) / len(documents)

    return one_round


def forward(documents: list[list[int]], params: Params, config: Config) -> Round:
    """The loss alone, as a graph or, if params are plain numbers, as a number."""

    def one_round() -> float:
        start = time.process_time()
        for tokens in documents:
            document_loss(tokens, params, config)
        return 1000 * (time.process_time() - start) / len(documents)

    return one_round


def graph_size(tokens: list[int], config: Config, ops: ModuleType) -> tuple[int, int, int]:
    """Operations, Values and bytes of the graph of one name."""
    params = init_params(config, random.Random(1))
    tracemalloc.start()
    loss = document_loss(tokens, params, config, ops)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    operations, outputs = loss._operations()
    return len(operations), sum(len(set(made)) for made in outputs.values()), size


def spread(ratios: list[float]) -> str:
    return f"{median(ratios):5.2f}  ({min(ratios):.2f} to {max(ratios):.2f})"


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=whole(1), default=9, metavar="N", help="default 9")
    parser.add_argument("--names", type=whole(1), default=8, metavar="N", help="a round; default 8")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    args = parse_arguments(argv)
    names = read_documents(NAMES)
    random.Random(42).shuffle(names)
    tokenizer = Tokenizer.of(names)
    documents = [tokenizer.encode(name) for name in names[: args.names]]

    def config(n_layer: int = 1, n_embd: int = 16) -> Config:
        return Config(tokenizer.vocab_size, n_layer=n_layer, n_embd=n_embd)

    params = init_params(config(), random.Random(1))
    rounds: dict[object, Round] = {
        "fused": training(documents, config()),
        "functional": training(documents, config(), functional),
        "graph": forward(documents, params, config()),
        "numbers": forward(documents, as_floats(params), config()),
        **{("n_layer", n): training(documents, config(n_layer=n)) for n in DEPTHS},
        **{("n_embd", n): training(documents, config(n_embd=n)) for n in WIDTHS},
    }
    times: dict[object, list[float]] = {name: [] for name in rounds}
    progress = Progress(args.rounds)
    for done in range(args.rounds):
        for name, one_round in rounds.items():
            times[name].append(one_round())
        progress.show(done + 1, "rounds")

    def ratio(a: object, b: object) -> str:
        return spread([x / y for x, y in zip(times[a], times[b])])

    python = f"{platform.python_implementation()} {platform.python_version()}"
    print(f"\n{python}, {platform.machine()}, 1 layer, 16 wide, one name a step")
    print(f"{'':12s}{'ms a step':>11s}{'operations':>12s}{'Values':>9s}{'kB of graph':>13s}")
    for name, ops in (("functional", functional), ("fused", fused)):
        operations, values, size = graph_size(documents[0], config(), ops)
        print(f"{name:12s}{median(times[name]):11.1f}{operations:12,d}{values:9,d}", end="")
        print(f"{size / 1000:13,.0f}")
    print(f"functional / fused        {ratio('functional', 'fused')}")
    print(f"forward, graph / numbers  {ratio('graph', 'numbers')}")
    for axis, sizes in (("n_layer", DEPTHS), ("n_embd", WIDTHS)):
        print(f"\n{axis:>8s}{'ms a step':>11s}  times the first")
        for n in sizes:
            first = ratio((axis, n), (axis, sizes[0]))
            print(f"{n:8d}{median(times[axis, n]):11.1f}  {first}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
