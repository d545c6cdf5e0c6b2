"""Let a model that `train_names.py --save MODEL.json` has trained make up names.

Without `--seed` they are the names that the training made up at its end. Takes a second.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run from a clone, not installed

from examples.common import Parser, add_sampling_flags, printable, run_main, whole
from micrograd_res.checkpoint import Checkpoint, load
from micrograd_res.model import as_floats, gpt
from micrograd_res.sample import generate, probabilities

ALTERNATIVES = 3  # likeliest letters that --show-probabilities names


def make_parser() -> Parser:
    parser = Parser(
        usage="python examples/sample_names.py MODEL.json [--flag VALUE ...]",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", type=Path, metavar="MODEL.json", help="a saved run")
    add_sampling_flags(parser)
    add = parser.add_argument
    add("--seed", type=whole(0), metavar="N", help="same seed, same names")
    add(
        "--show-probabilities",
        action="store_true",
        help="of each letter, and what else it might be",
    )
    return parser


def show_probabilities(name: str, model: Checkpoint, temperature: float, top_k: int) -> None:
    """A line for each letter, and for the end: its probability, and the likeliest letters there."""
    config, tokenizer = model.config, model.tokenizer
    letters = [*map(printable, tokenizer.alphabet), "end"]
    tokens = tokenizer.encode(name)[: config.block_size + 1]
    for logits, token in zip(gpt(tokens[:-1], as_floats(model.params), config), tokens[1:]):
        odds = probabilities(logits, temperature, top_k)
        likeliest = sorted(range(len(odds)), key=lambda other: -odds[other])[:ALTERNATIVES]
        others = ", ".join(f"{letters[other]} {odds[other]:.0%}" for other in likeliest)
        print(f"  {letters[token]:3} {odds[token]:6.1%}  ({others})")


def main(argv: list[str] | None = None) -> int:
    args = make_parser().parse_args(argv)
    model = load(args.model)
    rng = model.rng if args.seed is None else random.Random(args.seed)
    how = (args.temperature, args.top_k)
    if args.show_probabilities:
        print(f"probabilities at temperature {args.temperature:g}")
    for _ in range(args.samples):
        name = generate(model.params, model.config, model.tokenizer, rng, *how, args.prompt)
        print(printable(name), flush=True)
        if args.show_probabilities:
            show_probabilities(name, model, *how)
    return 0


if __name__ == "__main__":
    raise SystemExit(run_main(main))
