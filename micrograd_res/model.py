"""A tiny GPT whose skip connections can be dropped: `block` is what this project is about."""

from __future__ import annotations

import random
from dataclasses import dataclass
from math import sqrt
from types import ModuleType

from micrograd_res import fused
from micrograd_res.engine import Value
from micrograd_res.functional import Matrix, Sequence

NORMS = ("pre", "post", "none")
INITS = ("plain", "scaled", "zero", "fan_in")


@dataclass(frozen=True)
class Config:
    """The shape of a GPT. The defaults are microgpt's; sizes that do not fit raise ValueError."""

    vocab_size: int
    block_size: int = 16  # positions, at most
    n_layer: int = 1
    n_head: int = 4
    n_embd: int = 16  # numbers in the vector of a position
    residual_attn: bool = True  # add x back after attention
    residual_mlp: bool = True  # add x back after the MLP
    norm: str = "pre"  # before each sublayer (GPT-2); "post": after each addition (2017); "none"
    init: str = "plain"  # see init_params

    def __post_init__(self) -> None:
        for name in ("vocab_size", "block_size", "n_layer", "n_head", "n_embd"):
            size = getattr(self, name)
            if type(size) is not int or size < 1:
                raise ValueError(f"{name} must be a whole number from 1, not {size!r}")
        if self.n_embd % self.n_head:
            raise ValueError(f"n_embd {self.n_embd} cannot be shared by n_head {self.n_head}")
        if self.norm not in NORMS:
            raise ValueError(f"norm must be one of {', '.join(NORMS)}, not {self.norm!r}")
        if self.init not in INITS:
            raise ValueError(f"init must be one of {', '.join(INITS)}, not {self.init!r}")


Params = dict[str, Matrix]  # "wte", "wpe", "lm_head", then "layer0.attn_wq" and so on
Cache = tuple[Sequence, Sequence]  # keys and values of the positions that one layer has seen


def block_shapes(n_embd: int) -> dict[str, tuple[int, int]]:
    """Rows and columns, which are outputs and inputs, of the six matrices of a block."""
    return {
        "attn_wq": (n_embd, n_embd),
        "attn_wk": (n_embd, n_embd),
        "attn_wv": (n_embd, n_embd),
        "attn_wo": (n_embd, n_embd),
        "mlp_fc1": (4 * n_embd, n_embd),
        "mlp_fc2": (n_embd, 4 * n_embd),
    }


def shapes(config: Config) -> dict[str, tuple[int, int]]:
    """Rows and columns of every matrix, in microgpt's order."""
    table = {
        "wte": (config.vocab_size, config.n_embd),
        "wpe": (config.block_size, config.n_embd),
        "lm_head": (config.vocab_size, config.n_embd),
    }
    for i in range(config.n_layer):
        for name, shape in block_shapes(config.n_embd).items():
            table[f"layer{i}.{name}"] = shape
    return table


def init_params(config: Config, rng: random.Random) -> Params:
    """Normally distributed weights, the same draws whatever the skips, the norm and the init.

    The standard deviation is 0.08 ("plain"). "fan_in" makes it 1 / sqrt(inputs) in the blocks.
    attn_wo and mlp_fc2 give F(x): "scaled" divides them by sqrt(2 n_layer), so that the sum of
    all F(x) does not grow with depth (Radford et al. 2019, section 2.3); "zero" has F(x) = 0.
    """
    outputs = ("attn_wo", "mlp_fc2")

    def std(name: str, n_in: int) -> float:
        if config.init == "fan_in" and name.startswith("layer"):
            return 1.0 / sqrt(n_in)
        if config.init == "scaled" and name.endswith(outputs):
            return 0.08 / sqrt(2 * config.n_layer)
        if config.init == "zero" and name.endswith(outputs):
            return 0.0
        return 0.08

    return {
        name: [[Value(rng.gauss(0.0, std(name, n_in))) for _ in range(n_in)] for _ in range(n_out)]
        for name, (n_out, n_in) in shapes(config).items()
    }


def plain(params: Params) -> Params:
    """The parameters as floats: with them the model computes the same numbers without a graph."""
    return {name: [[float(n) for n in row] for row in rows] for name, rows in params.items()}


def layer_of(params: Params, i: int) -> Params:
    """The six matrices of block i, under their short names."""
    return {name: params[f"layer{i}.{name}"] for name in block_shapes(1)}


def new_caches(config: Config) -> list[Cache]:
    return [([], []) for _ in range(config.n_layer)]


def embed(
    tokens: list[int], params: Params, config: Config, ops: ModuleType = fused, first: int = 0
) -> Sequence:
    """One vector for each token, which stands at the positions from `first`."""
    positions = range(first, first + len(tokens))
    if first < 0 or positions.stop > config.block_size:
        raise ValueError(
            f"positions {first} to {positions.stop - 1} do not fit block_size {config.block_size}"
        )
    for token in tokens:
        if not 0 <= token < config.vocab_size:
            raise ValueError(f"token {token} is not in a vocabulary of {config.vocab_size}")
    x: Sequence = ops.add([params["wte"][t] for t in tokens], [params["wpe"][p] for p in positions])
    x = ops.rmsnorm(x)
    return x


def attention(
    x: Sequence, layer: Params, config: Config, ops: ModuleType = fused, cache: Cache | None = None
) -> Sequence:
    q = ops.linear(x, layer["attn_wq"])
    k = ops.linear(x, layer["attn_wk"])
    v = ops.linear(x, layer["attn_wv"])
    if cache:
        keys, values = cache
        keys += k
        values += v
        k, v = keys, values
    x = ops.attend(q, k, v, config.n_head)
    x = ops.linear(x, layer["attn_wo"])
    return x


def mlp(x: Sequence, layer: Params, ops: ModuleType = fused) -> Sequence:
    x = ops.linear(x, layer["mlp_fc1"])
    x = ops.relu(x)
    x = ops.linear(x, layer["mlp_fc2"])
    return x


def block(
    x: Sequence, layer: Params, config: Config, ops: ModuleType = fused, cache: Cache | None = None
) -> Sequence:
    """One layer. Each half keeps x, transforms it, and adds x back (He et al. 2015, figure 2).

        x ──┬── norm ── attention or mlp ── + ── x
            └────────── x_residual ─────────┘

    There "residual" is the name of F(x), what is still missing from x; x_residual holds x itself.
    """
    x_residual = x
    if config.norm == "pre":
        x = ops.rmsnorm(x)
    x = attention(x, layer, config, ops, cache)  # F(x)
    if config.residual_attn:
        x = ops.add(x, x_residual)  # y = F(x) + x
    if config.norm == "post":
        x = ops.rmsnorm(x)

    x_residual = x
    if config.norm == "pre":
        x = ops.rmsnorm(x)
    x = mlp(x, layer, ops)  # F(x)
    if config.residual_mlp:
        x = ops.add(x, x_residual)  # y = F(x) + x
    if config.norm == "post":
        x = ops.rmsnorm(x)
    return x


def gpt(
    tokens: list[int],
    params: Params,
    config: Config,
    ops: ModuleType = fused,
    caches: list[Cache] | None = None,
) -> Sequence:
    """The logits of the token after each of these tokens.

    With caches (see new_caches) the tokens go on from those of the earlier calls.
    `ops` is the telling: the module functional, or fused, which gives the same numbers sooner.
    """
    x = embed(tokens, params, config, ops, first=len(caches[0][0]) if caches else 0)
    for i in range(config.n_layer):
        x = block(x, layer_of(params, i), config, ops, caches[i] if caches else None)
    logits: Sequence = ops.linear(x, params["lm_head"])
    return logits
