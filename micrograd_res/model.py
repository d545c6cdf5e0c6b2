"""A tiny GPT whose skip connections can be dropped: `block` is what this project is about."""

from __future__ import annotations

import random
from dataclasses import dataclass
from types import ModuleType

from micrograd_res import fused
from micrograd_res.engine import Value
from micrograd_res.functional import Matrix, Sequence


@dataclass(frozen=True)
class Config:
    vocab_size: int
    block_size: int = 16  # most positions that a document may have
    n_layer: int = 1
    n_head: int = 4
    n_embd: int = 16  # numbers in the vector of one position
    residual_attn: bool = True  # add x back after attention
    residual_mlp: bool = True  # add x back after the MLP
    norm: str = "pre"  # "pre" each sublayer (GPT-2), "post" each addition (Vaswani 2017), "none"
    init: str = "plain"  # "plain" std 0.08, "scaled", "zero", "fan_in": see init_params

    def __post_init__(self) -> None:
        for name in ("vocab_size", "block_size", "n_layer", "n_head", "n_embd"):
            size = getattr(self, name)
            if type(size) is not int or size < 1:
                raise ValueError(f"{name} must be a whole number from 1, not {size!r}")
        if self.n_embd % self.n_head:
            raise ValueError(f"n_embd {self.n_embd} cannot be shared out to n_head {self.n_head}")
        for name, choices in (("norm", NORMS), ("init", INITS)):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be one of {', '.join(choices)}, not {getattr(self, name)!r}")


NORMS = ("pre", "post", "none")
INITS = ("plain", "scaled", "zero", "fan_in")

Params = dict[str, Matrix]  # "wte", "wpe", "lm_head", then "layer0.attn_wq" and so on
Cache = tuple[Sequence, Sequence]  # the keys and the values that one layer has computed so far


def init_params(config: Config, rng: random.Random) -> Params:
    c = config

    def matrix(n_out: int, n_in: int, std: float = 0.08) -> Matrix:
        return [[Value(rng.gauss(0, std)) for _ in range(n_in)] for _ in range(n_out)]

    params = {
        "wte": matrix(c.vocab_size, c.n_embd),
        "wpe": matrix(c.block_size, c.n_embd),
        "lm_head": matrix(c.vocab_size, c.n_embd),
    }
    for i in range(c.n_layer):
        for name, n_out, n_in in (
            ("attn_wq", c.n_embd, c.n_embd),
            ("attn_wk", c.n_embd, c.n_embd),
            ("attn_wv", c.n_embd, c.n_embd),
            ("attn_wo", c.n_embd, c.n_embd),
            ("mlp_fc1", 4 * c.n_embd, c.n_embd),
            ("mlp_fc2", c.n_embd, 4 * c.n_embd),
        ):
            std = n_in**-0.5 if c.init == "fan_in" else 0.08
            if name in ("attn_wo", "mlp_fc2"):  # what these two give is what the skip adds to
                std *= {"scaled": (2 * c.n_layer) ** -0.5, "zero": 0.0}.get(c.init, 1.0)
            params[f"layer{i}.{name}"] = matrix(n_out, n_in, std)
    return params


def plain(params: Params) -> Params:
    """The same parameters as plain floats: a model of floats computes the same, without a graph."""
    return {
        name: [[float(value) for value in row] for row in matrix]  # type: ignore[misc]
        for name, matrix in params.items()
    }


def new_caches(config: Config) -> list[Cache]:
    return [([], []) for _ in range(config.n_layer)]


def attention(x: Sequence, layer: Params, config: Config, ops: ModuleType, cache: Cache | None) -> Sequence:
    q = ops.linear(x, layer["attn_wq"])
    k = ops.linear(x, layer["attn_wk"])
    v = ops.linear(x, layer["attn_wv"])
    if cache:
        keys, values = cache
        keys += k
        values += v
        k, v = keys, values
    return ops.linear(ops.attend(q, k, v, config.n_head), layer["attn_wo"])


def mlp(x: Sequence, layer: Params, ops: ModuleType) -> Sequence:
    return ops.linear(ops.relu(ops.linear(x, layer["mlp_fc1"])), layer["mlp_fc2"])


def block(x: Sequence, layer: Params, config: Config, ops: ModuleType, cache: Cache | None = None) -> Sequence:
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


def embed(tokens: list[int], params: Params, config: Config, ops: ModuleType, start: int = 0) -> Sequence:
    for token in tokens:
        if not 0 <= token < config.vocab_size:
            raise ValueError(f"token {token} is outside 0 to {config.vocab_size - 1}")
    if start + len(tokens) > config.block_size:
        raise ValueError(f"{start + len(tokens)} positions do not fit a block_size of {config.block_size}")
    x = ops.add([params["wte"][token] for token in tokens], params["wpe"][start : start + len(tokens)])
    return ops.rmsnorm(x)


def gpt(tokens: list[int], params: Params, config: Config, ops: ModuleType = fused, caches: list[Cache] | None = None) -> Sequence:
    x = embed(tokens, params, config, ops, len(caches[0][0]) if caches else 0)
    for i in range(config.n_layer):
        prefix = f"layer{i}."
        layer = {n[len(prefix):]: params[n] for n in params if n.startswith(prefix)}
        x = block(x, layer, config, ops, caches[i] if caches else None)
    return ops.linear(x, params["lm_head"])
