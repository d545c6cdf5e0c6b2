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
    norm: str = "pre"  # before each sublayer (GPT-2); "post": after each half (2017); "none"
    init: str = "plain"  # see init_params

    def __post_init__(self) -> None:
        for name in ("vocab_size", "block_size", "n_layer", "n_head", "n_embd"):
            size = getattr(self, name)
            if type(size) is not int or size < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, not {size!r}")
        if self.n_embd % self.n_head:
            raise ValueError(f"n_embd {self.n_embd} cannot be shared by n_head {self.n_head}")
        if self.norm not in NORMS:
            raise ValueError(f"norm must be one of {', '.join(NORMS)}, not {self.norm!r}")
        if self.init not in INITS:
            raise ValueError(f"init must be one of {', '.join(INITS)}, not {self.init!r}")


Params = dict[str, Matrix]  # "wte", "wpe", "lm_head", then "layer0.attn_wq" and so on
Cache = tuple[Sequence, Sequence]  # keys and values of the positions that one layer has seen


BLOCK = {  # outputs (rows) and inputs (columns) of each matrix, in units of n_embd
    "attn_wq": (1, 1),
    "attn_wk": (1, 1),
    "attn_wv": (1, 1),
    "attn_wo": (1, 1),
    "mlp_fc1": (4, 1),
    "mlp_fc2": (1, 4),
}


def shapes(config: Config) -> dict[str, tuple[int, int]]:
    """Rows and columns of every matrix, in microgpt's order."""
    table = {
        "wte": (config.vocab_size, config.n_embd),
        "wpe": (config.block_size, config.n_embd),
        "lm_head": (config.vocab_size, config.n_embd),
    }
    for i in range(config.n_layer):
        for name, (n_out, n_in) in BLOCK.items():
            table[f"layer{i}.{name}"] = (n_out * config.n_embd, n_in * config.n_embd)
    return table


def init_params(config: Config, rng: random.Random) -> Params:
    """Normally distributed weights, the same draws whatever the skips, the norm and the init.

    The standard deviation is 0.08 ("plain"). "fan_in" makes it 1 / sqrt(inputs) in the blocks.
    attn_wo and mlp_fc2 give F(x): "scaled" divides them by sqrt(2 n_layer), as many as there are
    F(x) to be summed (Radford et al. 2019, section 2.3); "zero" makes every F(x) zero.
    """
    last = ("attn_wo", "mlp_fc2")

    def std(name: str, n_in: int) -> float:
        if config.init == "fan_in" and name.startswith("layer"):
            return 1.0 / sqrt(n_in)
        if config.init == "scaled" and name.endswith(last):
            return 0.08 / sqrt(2 * config.n_layer)
        if config.init == "zero" and name.endswith(last):
            return 0.0
        return 0.08

    return {
        name: [[Value(rng.gauss(0.0, std(name, n_in))) for _ in range(n_in)] for _ in range(n_out)]
        for name, (n_out, n_in) in shapes(config).items()
    }


def as_floats(params: Params) -> Params:
    """The parameters as floats: from these `fused` computes the same numbers, and no graph."""
    return {name: [[float(n) for n in row] for row in rows] for name, rows in params.items()}


def layer_of(params: Params, i: int) -> Params:
    """The six matrices of block i, under their short names."""
    return {name: params[f"layer{i}.{name}"] for name in BLOCK}


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
    x = ops.rmsnorm(x)  # as microgpt, whatever config.norm
    return x


def attention(
    x: Sequence, layer: Params, config: Config, ops: ModuleType = fused, cache: Cache | None = None
) -> Sequence:
    q = ops.linear(x, layer["attn_wq"])
    k = ops.linear(x, layer["attn_wk"])
    v = ops.linear(x, layer["attn_wv"])
    if cache is not None:
        keys, values = cache
        keys += k  # in place: the caller's cache grows
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

    The picture has norm "pre"; "post" stands behind the plus. He et al. call F(x) the residual,
    what x still lacks; x_residual holds x itself.
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
    if caches is not None and len(caches) != config.n_layer:
        raise ValueError(f"{len(caches)} caches do not fit n_layer {config.n_layer}")
    first = len(caches[0][0]) if caches else 0
    x = embed(tokens, params, config, ops, first)
    for i in range(config.n_layer):
        x = block(x, layer_of(params, i), config, ops, caches[i] if caches else None)
    # No final norm, as microgpt.
    logits: Sequence = ops.linear(x, params["lm_head"])
    return logits
