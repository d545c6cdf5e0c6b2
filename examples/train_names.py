"""Train a tiny GPT on 29,910 given names, then let it make up some of its own.

Takes about half a minute. `--residual none` drops both skip connections and changes nothing else.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))  # run from a clone, not installed

from examples.common import NAMES, Progress, real, whole
from micrograd_res import functional, fused
from micrograd_res.data import Tokenizer, read_documents, split
from micrograd_res.model import INITS, NORMS, Config, init_params
from micrograd_res.optim import Adam, param_groups
from micrograd_res.plot import Figure, Line, can_show, text_lines
from micrograd_res.sample import generate
from micrograd_res.train import evaluate, train

EVALUATED = 500  # documents of each part that the losses at the end are measured on


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add = parser.add_argument
    add("--data", type=Path, default=NAMES, metavar="FILE", help="text file, one name a line")
    add("--steps", type=whole(0), default=1000, metavar="N", help="training steps")
    add("--seed", type=int, default=42, metavar="N", help="same seed, same run")
    add("--n-layer", type=whole(1), default=1, metavar="N", help="blocks, one after the other")
    add("--n-embd", type=whole(1), default=16, metavar="N", help="numbers per position")
    add("--n-head", type=whole(1), default=4, metavar="N", help="attention heads per block")
    add("--block-size", type=whole(1), default=16, metavar="N", help="longest name, in characters")
    add("--batch-size", type=whole(1), default=1, metavar="N", help="names per step")
    add("--lr", type=real(0, above=True), default=0.01, metavar="X", help="learning rate at first")
    add("--warmup", type=whole(0), default=0, metavar="N", help="steps in which lr rises from 0")
    add("--init", choices=INITS, default="plain", help="size of the first weights")
    add("--norm", choices=NORMS, default="pre", help="where vectors are normalised")
    add("--residual", choices=("both", "attn", "mlp", "none"), default="both", help="skips to keep")
    add("--ops", choices=("fused", "functional"), default="fused", help="fast, or by definition")
    add("--val-fraction", type=real(0, 1), default=0.1, metavar="X", help="part of names held out")
    add("--samples", type=whole(0), default=20, metavar="N", help="names to make up")
    add("--temperature", type=real(0), default=0.5, metavar="X", help="0 is sure, 1 as learned")
    add("--top-k", type=whole(0), default=0, metavar="N", help="only the N likeliest; 0 is off")
    add("--prompt", default="", metavar="TEXT", help="how the made-up names begin")
    add("--losses", type=Path, metavar="FILE.csv", help="write the loss of every step here")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    args = parse_arguments(argv)
    rng = random.Random(args.seed)
    documents = read_documents(args.data)
    rng.shuffle(documents)
    tokenizer = Tokenizer.of(documents)
    training, held_out = split(documents, args.val_fraction)
    config = Config(
        vocab_size=tokenizer.vocab_size,
        block_size=args.block_size,
        n_layer=args.n_layer,
        n_head=args.n_head,
        n_embd=args.n_embd,
        residual_attn=args.residual in ("both", "attn"),
        residual_mlp=args.residual in ("both", "mlp"),
        norm=args.norm,
        init=args.init,
    )
    params = init_params(config, rng)

    longest = max(documents, key=len)
    cut = sum(len(document) > config.block_size for document in documents)
    print(f"{len(documents):,} names, {len(held_out):,} of them held out")
    print(f"alphabet of {len(tokenizer.alphabet)}: {tokenizer.alphabet}")
    print(f"longest: {longest} ({len(longest)}); longer than the block and cut: {cut}")
    print(f"{sum(len(row) for m in params.values() for row in m):,} parameters")
    print(f"a model that knows nothing has a loss of ln {config.vocab_size} = ", end="")
    print(f"{math.log(config.vocab_size):.2f}")

    tokens = [tokenizer.encode(document) for document in training]
    progress = Progress(args.steps)
    losses: list[float] = []
    smooth: list[float] = []
    steps = train(
        tokens,
        params,
        config,
        Adam(param_groups(params)),
        args.steps,
        lr=args.lr,
        warmup=args.warmup,
        batch_size=args.batch_size,
        ops={"fused": fused, "functional": functional}[args.ops],
    )
    for step in steps:
        losses.append(step.loss)
        smooth.append(sum(losses[-50:]) / len(losses[-50:]))
        progress.show(step.step + 1, f"loss {smooth[-1]:.3f}")
    if args.losses:
        rows = [f"{step},{loss!r}\n" for step, loss in enumerate(losses)]
        args.losses.write_text("step,loss\n" + "".join(rows), encoding="utf-8")

    for name, part in (("training", tokens), ("held out", map(tokenizer.encode, held_out))):
        part = list(part)[:EVALUATED]
        if part:
            print(f"loss on {len(part)} names, {name}: {evaluate(part, params, config):.3f}")

    known = set(documents)
    names = [
        generate(params, config, tokenizer, rng, args.temperature, args.top_k, args.prompt)
        for _ in range(args.samples)
    ]
    for name in names:
        print(name)
    print(f"{sum(name not in known for name in names)} of {len(names)} are new")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
