"""The operations of functional.py again, derivatives by hand: everything else is just efficiency.

One node for an operation, not one for each multiplication in it. Each docstring has the formula
and its derivative, where dy stands for dL/dy, the gradient of the loss L, and `pull` computes it.
An output that does not reach the loss counts with gradient 0.

An argument may consist of plain floats: then it is a constant (leave it as it is until backward).
If all do, so does the result, and there is no graph.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import accumulate, chain, pairwise
from math import exp, log
from operator import mul
from typing import Any

from micrograd_res.engine import Fused, Value
from micrograd_res.functional import (
    Matrix,
    Sequence,
    Vector,
    check_targets,
    head_slices,
    same_length,
)

Floats = list[list[float]]
Pull = Callable[[Floats], tuple[Floats, ...]]  # from dy to the gradient of each input
flatten = chain.from_iterable


def has_values(x: Sequence) -> bool:
    return isinstance(next(flatten(x), None), Value)


def data_of(x: Sequence) -> Floats:
    return [[value.data for value in row] for row in x] if has_values(x) else x


def as_value(n: Value | float) -> Value:
    return n if isinstance(n, Value) else Value(n)


def fuse(y: Floats, pull: Pull, *inputs: Sequence) -> Sequence:
    """The numbers y as Values that one operation made from the inputs."""
    differentiated = list(map(has_values, inputs))
    if not any(differentiated):
        return y
    ends = [0, *accumulate(map(len, y))]

    def rows(flat: list[Any]) -> list[list[Any]]:
        return [flat[start:end] for start, end in pairwise(ends)]

    if not all(differentiated):
        inputs = tuple([[as_value(n) for n in row] for row in x] for x in inputs)
    operation = Fused(
        list(flatten(flatten(inputs))),
        pull=lambda dy: flatten(flatten(pull(rows(dy)))),
        n_output=ends[-1],
    )
    return rows(operation.make_outputs(flatten(y)))


def transpose(a: Floats) -> Any:  # rows as tuples, which are as good
    return list(zip(*a))


if sys.version_info >= (3, 12):
    from math import sumprod as dot

    WRITTEN_OUT = 8  # products longer than this are faster in C
else:  # before Python 3.12
    WRITTEN_OUT = 16

    def dot(u: list[float], w: list[float]) -> float:
        return sum(map(mul, u, w), 0.0)


def padded(a: Floats, width: int) -> list[Any]:
    zeros = (0.0,) * (width - len(a[0]))
    return [(*row, *zeros) for row in a] if zeros else a


# fmt: off
def matmul(a: Floats, b: Floats) -> Floats:
    """a bᵀ: each row of a times each row of b. Short products are faster written out."""
    width = len(a[0]) if a and b else 0
    if 0 < width <= 4:  # the part of a vector that one head sees
        b = padded(b, 4)
        return [
            [a0*b0 + a1*b1 + a2*b2 + a3*b3 for b0, b1, b2, b3 in b]
            for a0, a1, a2, a3 in padded(a, 4)
        ]
    if 4 < width <= 8:  # the positions of a name of up to seven letters
        b = padded(b, 8)
        return [
            [a0*b0 + a1*b1 + a2*b2 + a3*b3 + a4*b4 + a5*b5 + a6*b6 + a7*b7
             for b0, b1, b2, b3, b4, b5, b6, b7 in b]
            for a0, a1, a2, a3, a4, a5, a6, a7 in padded(a, 8)
        ]
    if 8 < width <= WRITTEN_OUT:  # n_embd
        b = padded(b, 16)
        return [
            [a0*b0 + a1*b1 + a2*b2 + a3*b3 + a4*b4 + a5*b5 + a6*b6 + a7*b7
             + a8*b8 + a9*b9 + aa*ba + ab*bb + ac*bc + ad*bd + ae*be + af*bf
             for b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, ba, bb, bc, bd, be, bf in b]
            for a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, aa, ab, ac, ad, ae, af in padded(a, 16)
        ]
    return [[dot(u, w) for w in b] for u in a]
# fmt: on


def add(x: Sequence, y: Sequence) -> Sequence:
    """z = x + y;  dx = dz, dy = dz: a sum hands its gradient on to both, whole."""
    same_length(x, y)
    for a, b in zip(x, y):
        same_length(a, b)
    z = [[a_i + b_i for a_i, b_i in zip(a, b)] for a, b in zip(data_of(x), data_of(y))]
    return fuse(z, lambda dz: (dz, dz), x, y)


def linear(x: Sequence, weight: Matrix) -> Sequence:
    """y = x Wᵀ;  dx = dy W, dW = dyᵀ x"""
    for row in chain(x if weight else (), weight):
        same_length(row, weight[0])
    X, W = data_of(x), data_of(weight)

    def pull(dy: Floats) -> tuple[Floats, Floats]:
        return matmul(dy, transpose(W)), matmul(transpose(dy), transpose(X))

    return fuse(matmul(X, W), pull, x, weight)


def relu(x: Sequence) -> Sequence:
    """y = x where x > 0, else 0;  dx = dy where x > 0, else 0"""
    X = data_of(x)

    def pull(dy: Floats) -> tuple[Floats]:
        # 0 times d, because the 0 of an infinite or NaN gradient is NaN.
        return ([[0.0 * d if n <= 0.0 else d for n, d in zip(*rows)] for rows in zip(X, dy)],)

    return fuse([[0.0 if n <= 0.0 else n for n in row] for row in X], pull, x)


def rmsnorm(x: Sequence) -> Sequence:
    """y = s x with s = (mean(x²) + ε)^(-1/2);  ds/dx = -s³ x / n, so dx = s dy - x (dy·x) s³ / n"""
    X = data_of(x)
    scales = [(dot(row, row) / len(row) + 1e-5) ** -0.5 for row in X]

    def pull(dy: Floats) -> tuple[Floats]:
        dx = []
        for d_row, row, s in zip(dy, X, scales):
            c = dot(d_row, row) * s**3 / len(row)
            dx.append([s * d - c * n for d, n in zip(d_row, row)])
        return (dx,)

    return fuse([[n * s for n in row] for row, s in zip(X, scales)], pull, x)


def softmax_pull(y: list[float], dy: list[float]) -> list[float]:
    """dy_i/dx_j = y_i (1 if i = j, else 0) - y_i y_j, so dx = y (dy - dy·y)"""
    mean = dot(dy, y)
    return [y_i * (dy_i - mean) for y_i, dy_i in zip(y, dy)]


def shares(x: list[float]) -> list[float]:
    top = max(x)
    exps = [exp(n - top) for n in x]
    total = sum(exps)
    return [e / total for e in exps]


def softmax(scores: Vector) -> Vector:
    """y = exp(x) / sum(exp(x));  dx: see softmax_pull"""
    y = shares(*data_of([scores]))
    return fuse([y], lambda dy: ([softmax_pull(y, dy[0])],), [scores])[0]


def ragged_matmul(a: Floats, b: Floats) -> Floats:
    """a bᵀ where the rows of a may be short: each meets the rows of b as far as it reaches."""
    return [[dot(u, w[: len(u)]) for w in b] for u in a]


def ragged_transpose(a: Floats, n_column: int) -> Floats:
    """The columns of a, read from the last row up to the first that reaches so far."""
    return [[row[i] for row in reversed(a) if i < len(row)] for i in range(n_column)]


def one_head(q: Floats, k: Floats, v: Floats) -> tuple[Floats, Pull]:
    """y = A v with A = softmax(q kᵀ / √d): a row for each query, as long as the keys it sees.

    dA = dy vᵀ, dS = softmax_pull(A, dA) / √d;  dq = dS k, dk = dSᵀ q, dv = Aᵀ dy
    """
    first = len(k) - len(q)  # position of the first query
    scale = len(k[0]) ** -0.5
    A = [
        shares([score * scale for score in scores[: position + 1]])
        for position, scores in enumerate(matmul(q, k), first)
    ]

    def pull(dy: Floats) -> tuple[Floats, Floats, Floats]:
        dA = [d_row[: len(row)] for row, d_row in zip(A, matmul(dy, v))]
        dS = [[scale * d for d in softmax_pull(*rows)] for rows in zip(A, dA)]
        dq = ragged_matmul(dS, transpose(k))
        dk = ragged_matmul(ragged_transpose(dS, len(k)), transpose(q[::-1]))
        dv = ragged_matmul(ragged_transpose(A, len(k)), transpose(dy[::-1]))
        return dq, dk, dv

    return ragged_matmul(A, transpose(v)), pull


def side_by_side(parts: list[Floats]) -> Floats:
    return [list(flatten(rows)) for rows in zip(*parts)]


def attend(q: Sequence, k: Sequence, v: Sequence, n_head: int) -> Sequence:
    """Causal attention, each head on its part of the vectors: see one_head."""
    heads = head_slices(q, k, v, n_head)
    if not q:
        return []
    QKV = [data_of(x) for x in (q, k, v)]
    done = [one_head(*([row[head] for row in x] for x in QKV)) for head in heads]

    def pull(dy: Floats) -> tuple[Floats, ...]:
        parts = [pull_head([row[head] for row in dy]) for head, (_, pull_head) in zip(heads, done)]
        return tuple(side_by_side(list(of_all_heads)) for of_all_heads in zip(*parts))

    return fuse(side_by_side([y for y, _ in done]), pull, q, k, v)


def cross_entropy(logits: Sequence, targets: list[int]) -> Value:
    """y = mean of log(sum(exp(x))) - x[target];  dx = dy (softmax(x) - 1 at the target) / n"""
    check_targets(logits, targets)
    X, targets = data_of(logits), list(targets)

    def loss(x: list[float], target: int) -> float:
        top = max(x)
        return log(sum(exp(logit - top) for logit in x)) + top - x[target]

    def pull(dy: Floats) -> tuple[Floats]:
        scale = dy[0][0] / len(X)
        dx = [[scale * p for p in shares(x)] for x in X]
        for row, target in zip(dx, targets):
            row[target] -= scale
        return (dx,)

    y: Value = fuse([[sum(map(loss, X, targets)) / len(X)]], pull, logits)[0][0]
    return y
