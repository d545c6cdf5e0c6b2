"""Rebuild a model that `train_names.py --save MODEL.json` has trained in PyTorch: the way on.

Checks that PyTorch gives the same logits and the same gradients, to 1e-9, then writes MODEL.pt, a
state_dict. `GPT(config)` below loads it, on a GPU as well, and trains as any nn.Module does.
Needs PyTorch; nothing else in this project does.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run from a clone, not installed

from examples.common import Parser, run_main
from micrograd_res.checkpoint import Checkpoint, load
from micrograd_res.functional import Matrix
from micrograd_res.model import Config, gpt
from micrograd_res.train import batch_loss

try:
    import torch
    from torch import Tensor, nn
    from torch.nn import functional as F
except ImportError:
    print("error: this example needs PyTorch, see https://pytorch.org/get-started", file=sys.stderr)
    raise SystemExit(2) from None


def rmsnorm(x: Tensor) -> Tensor:
    return x * (x.square().mean(-1, keepdim=True) + 1e-5) ** -0.5


def weight(n_out: int, n_in: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(n_out, n_in, dtype=torch.float64) * 0.08)


class Block(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        n_embd = config.n_embd
        self.config = config
        self.attn_wq = weight(n_embd, n_embd)
        self.attn_wk = weight(n_embd, n_embd)
        self.attn_wv = weight(n_embd, n_embd)
        self.attn_wo = weight(n_embd, n_embd)
        self.mlp_fc1 = weight(4 * n_embd, n_embd)
        self.mlp_fc2 = weight(n_embd, 4 * n_embd)

    def attention(self, x: Tensor) -> Tensor:
        def heads(
            w: Tensor,
        ) -> Tensor:  # (batch, position, n_embd) to (batch, head, position, size)
            return F.linear(x, w).unflatten(-1, (self.config.n_head, -1)).transpose(1, 2)

        q, k, v = heads(self.attn_wq), heads(self.attn_wk), heads(self.attn_wv)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return F.linear(y.transpose(1, 2).flatten(2), self.attn_wo)

    def mlp(self, x: Tensor) -> Tensor:
        return F.linear(F.relu(F.linear(x, self.mlp_fc1)), self.mlp_fc2)

    def forward(self, x: Tensor) -> Tensor:
        config = self.config
        x_residual = x
        x = rmsnorm(x) if config.norm == "pre" else x
        x = self.attention(x)
        x = x + x_residual if config.residual_attn else x
        x = rmsnorm(x) if config.norm == "post" else x

        x_residual = x
        x = rmsnorm(x) if config.norm == "pre" else x
        x = self.mlp(x)
        x = x + x_residual if config.residual_mlp else x
        return rmsnorm(x) if config.norm == "post" else x


class GPT(nn.Module):
    """Its state_dict has the names of our params: "wte", "layer0.attn_wq" and so on."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.wte = weight(config.vocab_size, config.n_embd)
        self.wpe = weight(config.block_size, config.n_embd)
        self.lm_head = weight(config.vocab_size, config.n_embd)
        self.blocks = [f"layer{i}" for i in range(config.n_layer)]
        for name in self.blocks:
            self.add_module(name, Block(config))

    def forward(self, tokens: Tensor) -> Tensor:
        """(batch, position) to logits (batch, position, vocab_size)."""
        x = rmsnorm(self.wte[tokens] + self.wpe[: tokens.shape[1]])
        for name in self.blocks:
            x = self.get_submodule(name)(x)
        return F.linear(x, self.lm_head)


def rebuild(model: Checkpoint) -> GPT:
    twin = GPT(model.config)
    numbers = {
        name: torch.tensor([[value.data for value in row] for row in matrix], dtype=torch.float64)
        for name, matrix in model.params.items()
    }
    twin.load_state_dict(numbers)
    return twin


def difference(ours: Matrix, theirs: Tensor, number: str) -> float:
    """The largest between data or grad of our Values and the tensor, relative to its largest."""
    rows = [[getattr(value, number) for value in row] for row in ours]
    gap = theirs - torch.tensor(rows, dtype=torch.float64)
    return (gap.abs().max() / (1.0 + theirs.abs().max())).item()


def differences(model: Checkpoint, twin: GPT, tokens: list[int]) -> tuple[float, float]:
    """Between the logits, and between the gradients, of both on these tokens."""
    logits = gpt(tokens[:-1], model.params, model.config)
    batch_loss([tokens], model.params, model.config).backward()
    twin_logits = twin(torch.tensor([tokens[:-1]]))[0]
    F.cross_entropy(twin_logits, torch.tensor(tokens[1:])).backward()
    between_grads = [
        difference(model.params[name], parameter.grad, "grad")
        for name, parameter in twin.named_parameters()
    ]
    return difference(logits, twin_logits, "data"), max(between_grads)


def main(argv: list[str] | None = None) -> int:
    parser = Parser(
        usage="python examples/to_pytorch.py MODEL.json [--out MODEL.pt]",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", type=Path, metavar="MODEL.json", help="a saved run")
    parser.add_argument("--out", type=Path, metavar="FILE.pt", help="the state_dict (MODEL.pt)")
    args = parser.parse_args(argv)
    out = args.out or args.model.with_suffix(".pt")
    model = load(args.model)
    twin = rebuild(model)
    rng = random.Random(0)
    tokens = [rng.randrange(model.config.vocab_size) for _ in range(model.config.block_size + 1)]
    logits, grads = differences(model, twin, tokens)
    print(f"largest difference: {logits:.1e} in the logits, {grads:.1e} in the gradients")
    if not max(logits, grads) < 1e-9:
        raise ArithmeticError("PyTorch computes something else: nothing was saved")
    with out.open("wb") as file:
        torch.save(twin.state_dict(), file)
    print(f"saved {out}, {sum(p.numel() for p in twin.parameters()):,} numbers, with")
    print(f"{dataclasses.asdict(model.config)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(run_main(main))
