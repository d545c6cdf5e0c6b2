"""Every operation of a GPT, defined in the arithmetic of single Values: slow, short and plain."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

from micrograd_res.engine import Value

Vector = list[Any]  # of Values; in fused.py also of floats
Matrix = list[Vector]  # one row for each output
Sequence = list[Vector]  # one vector for each position


def same_length(a: Sized, b: Sized) -> None:
    if len(a) != len(b):  # zip would cut the longer one and say nothing
        raise ValueError(f"lengths do not match: {len(a)} and {len(b)}")


def add(x: Sequence, y: Sequence) -> Sequence:
    same_length(x, y)
    for a, b in zip(x, y):
        same_length(a, b)
    return [[a_i + b_i for a_i, b_i in zip(a, b)] for a, b in zip(x, y)]


def dot(a: Vector, b: Vector) -> Value:
    same_length(a, b)
    return sum((a_i * b_i for a_i, b_i in zip(a, b)), Value(0.0))


def linear(x: Sequence, weight: Matrix) -> Sequence:
    return [[dot(row, vector) for row in weight] for vector in x]


def relu(x: Sequence) -> Sequence:
    return [[number.relu() for number in vector] for vector in x]


def rmsnorm(x: Sequence) -> Sequence:
    """Divide each vector by its root mean square (Zhang and Sennrich 2019, without a gain)."""

    def norm(vector: Vector) -> Vector:
        scale = (dot(vector, vector) / len(vector) + 1e-5) ** -0.5
        return [number * scale for number in vector]

    return [norm(vector) for vector in x]


def softmax(scores: Vector) -> Vector:
    top = max(score.data for score in scores)  # a shift changes nothing, and exp cannot overflow
    exps = [(score - top).exp() for score in scores]
    total = sum(exps, Value(0.0))
    return [e / total for e in exps]


def head_slices(q: Sequence, k: Sequence, v: Sequence, n_head: int) -> list[slice]:
    """Where each head finds its part of every vector, after checking that all sizes agree."""
    same_length(k, v)
    if len(q) > len(k):
        raise ValueError(f"{len(q)} queries need as many keys, and there are {len(k)}")
    for vector in q + k + v:
        same_length(vector, k[0])
        if len(vector) % n_head:
            raise ValueError(f"{len(vector)} numbers cannot be shared out to {n_head} heads")
    size = len(k[0]) // n_head if k else 0
    return [slice(i * size, (i + 1) * size) for i in range(n_head)]


def attend(q: Sequence, k: Sequence, v: Sequence, n_head: int) -> Sequence:
    """Causal attention (Vaswani et al. 2017, section 3.2), each head on its part of the vectors.

    The last query stands at the last key: a query sees the keys up to its own position, in
    training (as many queries as keys) and in generation (one query, keys from a cache) alike.
    """
    heads = head_slices(q, k, v, n_head)
    first = len(k) - len(q)  # position of the first query

    def look(query: Vector, keys: Sequence, values: Sequence) -> Vector:
        weights = softmax([dot(query, key) / len(query) ** 0.5 for key in keys])
        return [dot(weights, list(column)) for column in zip(*values)]

    x = []
    for position, query in enumerate(q, first):
        seen = slice(position + 1)
        vector = []
        for head in heads:
            keys = [key[head] for key in k[seen]]
            values = [value[head] for value in v[seen]]
            vector += look(query[head], keys, values)
        x.append(vector)
    return x


def check_targets(logits: Sequence, targets: list[int]) -> None:
    same_length(logits, targets)
    if not targets:
        raise ValueError("there is no position to predict")
    for scores, target in zip(logits, targets):
        if not 0 <= target < len(scores):  # Python would take -1 for the last one
            raise ValueError(f"target {target} is not one of {len(scores)} logits")


def cross_entropy(logits: Sequence, targets: list[int]) -> Value:
    """log(sum(exp(logits))) - logits[target], the mean over positions, in nats.

    That is -log softmax(logits)[target], without a log(0) on the way.
    """
    check_targets(logits, targets)
    losses = []
    for scores, target in zip(logits, targets):
        top = max(score.data for score in scores)
        total = sum(((score - top).exp() for score in scores), Value(0.0))
        losses.append(total.log() + top - scores[target])
    return sum(losses, Value(0.0)) / len(losses)
