"""What happens inside a network: how large its numbers and gradients are, what a layer is worth."""

from __future__ import annotations

import math
from collections.abc import Collection
from itertools import combinations
from typing import NamedTuple

from micrograd_res import fused
from micrograd_res.engine import Value
from micrograd_res.functional import Sequence, Vector, same_length
from micrograd_res.model import Config, Params, as_floats, block, embed, layer_of


def forward(
    tokens: list[int], params: Params, config: Config, removed: Collection[int] = ()
) -> tuple[list[Sequence], Sequence]:
    """`gpt` again, but with all of the stream (what enters each block, what leaves the last one)
    beside the logits, and as if the blocks in `removed` were not there.
    """
    unknown = [i for i in removed if not 0 <= i < config.n_layer]
    if unknown:
        raise ValueError(f"no block {unknown[0]} among {config.n_layer}")
    x = embed(tokens, params, config)
    stream = [x]
    for i in range(config.n_layer):
        if i not in removed:
            x = block(x, layer_of(params, i), config)
        stream.append(x)
    return stream, fused.linear(x, params["lm_head"])


def lesion(
    documents: list[list[int]], params: Params, config: Config, removed: Collection[int] = ()
) -> float:
    """The mean loss over documents (nats per token) of the model without some of its blocks."""
    if not documents:
        raise ValueError("no documents to measure the loss on")
    numbers = as_floats(params)
    total = 0.0
    for document in documents:
        tokens = document[: config.block_size + 1]
        _, logits = forward(tokens[:-1], numbers, config, removed)
        total += float(fused.cross_entropy(logits, tokens[1:]))
    return total / len(documents)


class Flow(NamedTuple):
    """Sizes are Euclidean norms over all positions. The first three have n_layer + 1 entries:
    entry l is about the stream x_l that enters block l, the last about what leaves the last."""

    activation: list[float]  # |x_l|
    gradient: list[float]  # |dL/dx_l|
    similarity: list[float]  # between the positions of x_l
    query_gradient: list[float]  # |dL/d attn_wq|, one entry a layer


def measure(document: list[int], params: Params, config: Config) -> Flow:
    """One document forwards and backwards. The gradients in `params` stay as they are."""
    copy = {n: [[Value(v.data) for v in row] for row in params[n]] for n in params}
    tokens = document[: config.block_size + 1]
    stream, logits = forward(tokens[:-1], copy, config)
    fused.cross_entropy(logits, tokens[1:]).backward()
    queries = [copy[f"layer{i}.attn_wq"] for i in range(config.n_layer)]
    return Flow(
        activation=[size(x) for x in stream],
        gradient=[gradient_size(x) for x in stream],
        similarity=[similarity(x) for x in stream],
        query_gradient=[gradient_size(weight) for weight in queries],
    )


def size(x: Sequence) -> float:
    return math.hypot(*(value.data for vector in x for value in vector))


def gradient_size(x: Sequence) -> float:
    """hypot, because the square of a gradient of 1e-200 would be 0."""
    return math.hypot(*(value.grad for vector in x for value in vector))


def similarity(x: Sequence) -> float:
    """The mean cosine between two positions: 1 if all vectors point the same way.

    NaN with fewer than two positions, or if a vector is zero and points nowhere.
    """

    def cosine(a: Vector, b: Vector) -> float:
        same_length(a, b)
        lengths = size([a]), size([b])
        if 0.0 in lengths:
            return math.nan
        return math.fsum(p.data / lengths[0] * (q.data / lengths[1]) for p, q in zip(a, b))

    cosines = [cosine(a, b) for a, b in combinations(x, 2)]
    return sum(cosines) / len(cosines) if cosines else math.nan
