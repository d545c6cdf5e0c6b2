"""Train a tiny GPT on 29,910 given names, then let it make up some of its own.

Takes about 15 seconds. `--residual none` drops both skip connections and changes nothing else.
Any other list will do: a text file, one name, city or word a line, after `--data`.
"""

from __future__ import annotations

import argparse
import math
import random
import shlex
import sys
import textwrap
from pathlib import Path
from statistics import fmean as mean

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run from a clone, not installed

from examples.common import (
    NAMES,
    Parser,
    Progress,
    add_sampling_flags,
    clipped,
    columns,
    noted_signals,
    printable,
    real,
    run_main,
    whole,
)
from micrograd_res import functional, fused
from micrograd_res.checkpoint import Checkpoint, load, save
from micrograd_res.data import Tokenizer, fingerprint, read_documents, split
from micrograd_res.model import INITS, NORMS, Config, init_params
from micrograd_res.optim import Adam, learning_rate, param_groups
from micrograd_res.plot import Figure, Line, can_show, text_lines
from micrograd_res.sample import encode_prompt, generate
from micrograd_res.train import evaluate, train

EVALUATED = 500  # documents of each part that the losses at the end are measured on
SMOOTH = 50  # steps that a smoothed loss is the mean of
SHAPING = (  # flags that a resumed run must share with the run that it continues
    *("seed", "steps", "batch_size", "lr", "warmup", "ops", "val_fraction"),
    *("n_layer", "n_embd", "n_head", "block_size", "residual", "norm", "init"),
)


def make_parser() -> Parser:
    parser = Parser(
        usage="python examples/train_names.py [--flag VALUE ...]",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument_group("what to read").add_argument
    add("--data", type=Path, default=NAMES, metavar="FILE", help="a name a line (names.txt)")
    add("--encoding", default="utf-8", metavar="NAME", help="of that file (utf-8)")
    add("--val-fraction", type=real(0, 1), default=0.1, metavar="X", help="part to hold out (0.1)")
    add = parser.add_argument_group("the network").add_argument
    add("--n-layer", type=whole(1), default=1, metavar="N", help="blocks, one upon the other (1)")
    add("--n-embd", type=whole(1), default=16, metavar="N", help="numbers per position (16)")
    add("--n-head", type=whole(1), default=4, metavar="N", help="attention heads per block (4)")
    add("--block-size", type=whole(1), default=16, metavar="N", help="longest name (16)")
    skips = ("both", "attn", "mlp", "none")
    add(
        "--residual",
        choices=skips,
        default="both",
        help="which skips to keep: around attention, around the MLP (both)",
    )
    add("--norm", choices=NORMS, default="pre", help="normalise before or after each part (pre)")
    add("--init", choices=INITS, default="plain", help="how large the first weights are (plain)")
    add = parser.add_argument_group("training").add_argument
    add("--steps", type=whole(0), default=1000, metavar="N", help="0 leaves it untrained (1000)")
    add("--batch-size", type=whole(1), default=1, metavar="N", help="names per step (1)")
    add("--lr", type=real(0, above=True), default=0.01, metavar="X", help="learning rate (0.01)")
    add("--warmup", type=whole(0), default=0, metavar="N", help="steps until it is reached (0)")
    add("--seed", type=whole(0), default=42, metavar="N", help="same seed, same run (42)")
    add("--ops", choices=("fused", "functional"), default="fused", help="fast, or by definition")
    add_sampling_flags(parser)
    add = parser.add_argument_group("files to write, and to go on from").add_argument
    add("--losses", type=Path, metavar="FILE.csv", help="the loss of every step")
    add("--save", type=Path, metavar="FILE.json", help="the run, to resume it or sample from it")
    add("--save-every", type=whole(1), default=100, metavar="N", help="steps (100)")
    add(
        "--resume",
        type=Path,
        metavar="FILE.json",
        help="a saved run to continue, and to save again",
    )
    return parser


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def parse_resumed(parser: Parser, argv: list[str], saved: Checkpoint) -> argparse.Namespace:
    """The flags in argv and, where it names none, those of the saved run."""
    if set(saved.flags) != set(SHAPING):
        raise ValueError(f"flags must be {', '.join(SHAPING)}")
    stored = [f"{flag(name)}={value}" for name, value in saved.flags.items()]
    before, after = vars(parser.parse_args(stored)), vars(parser.parse_args(stored + argv))
    for name in SHAPING:
        if before[name] != after[name]:
            old, new = (f"{flag(name)} {flags[name]}" for flags in (before, after))
            raise ValueError(f"a run with {old} cannot go on with {new}")
    return argparse.Namespace(**after)


def parse(argv: list[str]) -> tuple[argparse.Namespace, Checkpoint | None]:
    """The flags, and the run to resume if they name one."""
    parser = make_parser()
    args = parser.parse_args(argv)
    if args.resume is None:
        return args, None
    saved = load(args.resume)
    try:
        args = parse_resumed(parser, argv, saved)
    except ValueError as error:
        raise ValueError(f"{args.resume}: {error}") from None
    args.save = args.save or args.resume
    return args, saved


def make_config(args: argparse.Namespace, vocab_size: int) -> Config:
    return Config(
        vocab_size=vocab_size,
        block_size=args.block_size,
        n_layer=args.n_layer,
        n_head=args.n_head,
        n_embd=args.n_embd,
        residual_attn=args.residual in ("both", "attn"),
        residual_mlp=args.residual in ("both", "mlp"),
        norm=args.norm,
        init=args.init,
    )


def prepare(args: argparse.Namespace, documents: list[str], saved: Checkpoint | None) -> Checkpoint:
    """A fresh run, or the saved one. Shuffles the documents as both of them need it."""
    data = fingerprint(documents)
    rng = random.Random(args.seed)
    rng.shuffle(documents)
    tokenizer = Tokenizer.of(documents)
    config = make_config(args, tokenizer.vocab_size)
    encode_prompt(args.prompt, tokenizer, config.block_size)  # an error now, not after training
    if saved is None:
        flags = {name: vars(args)[name] for name in SHAPING}
        params = init_params(config, rng)
        adam = Adam(param_groups(params))
        return Checkpoint(flags, data, tokenizer, config, [], rng, params, adam)
    if (saved.data, saved.tokenizer) != (data, tokenizer):
        raise ValueError(f"{args.resume}: a run on other data than {args.data} (--data)")
    if saved.config != config:
        raise ValueError(f"{args.resume}: its flags and its config contradict each other")
    return saved


def say(name: str, text: str) -> None:
    print(textwrap.fill(f"{name:15}{text}", columns(), subsequent_indent=" " * 15))


def describe(run: Checkpoint, documents: list[str], held_out: list[str]) -> None:
    block_size, vocab_size = run.config.block_size, run.config.vocab_size
    longest = max(documents, key=len)
    cut = sum(len(document) > block_size for document in documents)
    size = sum(len(row) for matrix in run.params.values() for row in matrix)
    say(
        "documents", f"{len(documents):,}, {len(documents) - len(set(documents)):,} of them repeats"
    )
    say("held out", f"{len(held_out):,}" if held_out else "none: too few, or --val-fraction 0")
    say("longest", f"{printable(longest[:40])} ({len(longest):,})")
    say("cut", f"{cut:,} longer than the block of {block_size}")
    if cut:
        say("", "their ends are never learned; a larger --block-size would do that")
    alphabet = f"{'alphabet':15}{vocab_size - 1:,}: {printable(run.tokenizer.alphabet)}"
    print(clipped(alphabet, columns()))
    say("parameters", f"{size:,}")
    say("knows nothing", f"loss ln {vocab_size} = {math.log(vocab_size):.2f}")
    if run.losses:
        say("resumed", f"after step {len(run.losses):,}")
    sys.stdout.flush()  # in a pipe, too, before the wait


def write_losses(path: Path, losses: list[float]) -> None:
    rows = [f"{step},{loss!r}\n" for step, loss in enumerate(losses)]
    path.write_text("step,loss\n" + "".join(rows), encoding="ascii")


def learn(run: Checkpoint, training: list[str], args: argparse.Namespace) -> None:
    """Train and save, to the last step or until a signal comes: then leave the program."""
    needed = training[: args.steps * args.batch_size]
    tokens = [run.tokenizer.encode(document) for document in needed]
    ops = functional if args.ops == "functional" else fused
    how = (args.steps, args.lr, args.warmup, args.batch_size, ops)
    progress = Progress(args.steps, len(run.losses))
    with noted_signals() as signals:
        for step in train(tokens, run.params, run.config, run.adam, *how):
            if not math.isfinite(step.loss):
                raise ArithmeticError(f"the loss is {step.loss}")
            run.losses.append(step.loss)
            if signals:
                break  # before a print, which fails if Ctrl-C has ended `| tee` as well
            progress.show(len(run.losses), f"loss {mean(run.losses[-SMOOTH:]):.3f}")
            if args.save and len(run.losses) % args.save_every == 0:
                save(args.save, run)
        if args.save:
            save(args.save, run)
    if signals:
        progress.stop()
        raise SystemExit(128 + signals[0])


def draw_losses(losses: list[float], vocab_size: int) -> None:
    smooth = [mean(losses[max(0, i - SMOOTH) : i]) for i in range(1, len(losses) + 1)]
    figure = Figure(
        title=f"loss: {smooth[0]:.2f} at first, {smooth[-1]:.2f} at last",
        x_label="step",
        y_label=f"nats per token, mean of {SMOOTH} steps",
        lines=[Line("loss", range(1, len(losses) + 1), smooth)],
        references=[("knows nothing", math.log(vocab_size))],
    )
    width = min(columns(), 80)
    text = text_lines(figure, width, height=12)
    if not can_show(sys.stdout, text):
        text = text_lines(figure, width, height=12, ascii_only=True)
    print(f"\n{text}")


def measure(name: str, part: list[str], run: Checkpoint) -> None:
    tokens = [run.tokenizer.encode(document) for document in part[:EVALUATED]]
    loss = evaluate(tokens, run.params, run.config)
    if not math.isfinite(loss):
        raise ArithmeticError(f"the loss is {loss}")
    say(f"{name} loss", f"{loss:.3f}, of {len(tokens):,} documents")


def make_up_names(run: Checkpoint, documents: list[str], args: argparse.Namespace) -> None:
    how = (args.temperature, args.top_k, args.prompt)
    names = []
    for _ in range(args.samples):
        names.append(generate(run.params, run.config, run.tokenizer, run.rng, *how))
        print(printable(names[-1]), flush=True)
    known = set(names).intersection(documents)
    print(f"{sum(name not in known for name in names)} of {len(names)} are new")


def how_to_resume(run: Checkpoint, args: argparse.Namespace) -> str:
    if not args.save:
        return f"stopped after step {len(run.losses)}; without --save FILE.json nothing is kept"
    words = ["python", "examples/train_names.py", "--resume", str(args.save)]
    for name, value in vars(args).items():
        if name not in (*SHAPING, "resume") and value != make_parser().get_default(name):
            words += [flag(name), str(value)]
    return f"stopped after step {len(run.losses)}; to go on: {shlex.join(words)}"


def advice(run: Checkpoint, args: argparse.Namespace) -> str:
    step = min(len(run.losses), args.steps - 1)
    lr = learning_rate(step, max(1, args.steps), args.lr, args.warmup)
    return f"at step {step}, learning rate {lr:g}; try a smaller --lr, --warmup or another --init"


def main(argv: list[str] | None = None) -> int:
    args, saved = parse(sys.argv[1:] if argv is None else argv)
    documents = read_documents(args.data, args.encoding)
    run = prepare(args, documents, saved)
    training, held_out = split(documents, args.val_fraction)
    describe(run, documents, held_out)
    try:
        if args.save:
            save(args.save, run)  # an error now, not after training
        if args.losses:
            write_losses(args.losses, run.losses)
        learn(run, training, args)
        if run.losses:
            draw_losses(run.losses, run.config.vocab_size)
        measure("training", training, run)
        if held_out:
            measure("held out", held_out, run)
        make_up_names(run, documents, args)
    except SystemExit:
        print(how_to_resume(run, args), file=sys.stderr)
        raise
    except ArithmeticError as error:
        raise ArithmeticError(f"{error} {advice(run, args)}") from None
    finally:
        if args.losses:
            write_losses(args.losses, run.losses)
    return 0


if __name__ == "__main__":
    raise SystemExit(run_main(main))
