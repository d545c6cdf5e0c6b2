"""The operations of functional.py again, derivatives by hand: everything else is just efficiency.

One node for a whole operation instead of one for each multiplication. In each function `dy` is
dL/dy, the gradient of the loss with respect to its result, and `pull` turns it into the gradients
of its inputs. Without a Value among the inputs (plain floats) there is no graph, only numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import accumulate, chain, pairwise, repeat
from operator import mul
from typing import Any

from micrograd_res.engine import Fused, Value
from micrograd_res.functional import Matrix, Sequence, check_targets, head_slices, same_length

Floats = list[list[float]]
flatten = chain.from_iterable

if hasattr(math, "sumprod"):  # Python 3.12

    def long_matmul(a: Floats, b: Floats) -> Floats:
        return [[math.sumprod(u, w) for w in b] for u in a]

else:

    def long_matmul(a: Floats, b: Floats) -> Floats:
        return [[sum(map(mul, u, w)) for w in b] for u in a]


def matmul(a, b):
    """a bᵀ: every row of a times every row of b."""
    if len(a[0]) > 8:
        return long_matmul(a, b)
    pad = (0.0,) * (8 - len(a[0]))
    b = [(*w, *pad) for w in b]
    return [
        [u0 * w0 + u1 * w1 + u2 * w2 + u3 * w3 + u4 * w4 + u5 * w5 + u6 * w6 + u7 * w7 for w0, w1, w2, w3, w4, w5, w6, w7 in b]
        for u0, u1, u2, u3, u4, u5, u6, u7 in [(*u, *pad) for u in a]
    ]


def transpose(a):
    return list(zip(*a))


def numbers(x):
    return [[n.data for n in row] for row in x] if x and x[0] and isinstance(x[0][0], Value) else x


def fuse(y, pull, *inputs):
    """The numbers y as Values that were all made by one operation on the inputs."""
    flat = list(flatten(flatten(inputs)))
    if not flat or not isinstance(flat[0], Value):
        return y
    ends = [0, *accumulate(map(len, y))]

    def pull_flat(dy):
        return flatten(pull([dy[a:b] for a, b in pairwise(ends)]))
    op = Fused(flat, pull_flat, ends[-1])
    values = list(map(Value, flatten(y), repeat(op), range(op.size)))
    return [values[a:b] for a, b in pairwise(ends)]


def add(x, y):
    """z = x + y;  dx = dz, dy = dz"""
    same_length(x, y)
    for a, b in zip(x, y):
        same_length(a, b)
    z = [[a_i + b_i for a_i, b_i in zip(a, b)] for a, b in zip(numbers(x), numbers(y))]
    return fuse(z, lambda dz: dz + dz, x, y)


def linear(x, weight):
    """y = x Wᵀ;  dx = dy W, dW = dyᵀ x"""
    X, W = numbers(x), numbers(weight)
    for row in W:
        same_length(row, W[0])
    for row in X:
        same_length(row, W[0])
    def pull(dy):
        return matmul(dy, transpose(W)) + matmul(transpose(dy), transpose(X))
    return fuse(matmul(X, W), pull, x, weight)


def relu(x):
    X = numbers(x)
    slopes = [[0.0 if n <= 0.0 else 1.0 for n in row] for row in X]
    def pull(dy):
        return [list(map(mul, d, s)) for d, s in zip(dy, slopes)]
    return fuse([[0.0 if n <= 0.0 else n for n in row] for row in X], pull, x)


def rmsnorm(x):
    """y = x s with s = (mean(x²) + ε)^(-1/2);  ds/dx = -s³ x / n, so dx = s dy - x (dy·x) s³ / n"""
    X = numbers(x)
    scales = [(sum(map(mul, row, row)) / len(row) + 1e-5) ** -0.5 for row in X]
    def pull(dy):
        dx = []
        for row, d, s in zip(X, dy, scales):
            c = sum(map(mul, d, row)) * s**3 / len(row)
            dx.append([s * d_i - c * n for d_i, n in zip(d, row)])
        return dx
    return fuse([[n * s for n in row] for row, s in zip(X, scales)], pull, x)


def softmax(scores):
    top = max(scores)
    exps = [math.exp(s - top) for s in scores]
    total = sum(exps)
    return [e / total for e in exps]


def times(u, rows):
    """u · row for each row, as far as u reaches."""
    return [sum(map(mul, u, row)) for row in rows]


def attend(q, k, v, n_head):
    heads = head_slices(q, k, v, n_head)
    first = len(k) - len(q)
    Q, K, V = numbers(q), numbers(k), numbers(v)
    kept = []
    y = [[] for _ in Q]
    for head in heads:
        qh=[r[head] for r in Q]; kh=[r[head] for r in K]; vh=[r[head] for r in V]
        rd = (head.stop-head.start)**-0.5
        A=[]
        columns=transpose(vh)
        for t, scores in enumerate(matmul(qh,kh)):
            w = softmax([n*rd for n in scores[:first+t+1]])
            y[t] += times(w, columns)
            A.append(w)
        kept.append((head,qh,kh,vh,A,rd))
    def pull(dy):
        dQ=[[] for _ in Q]; dK=[[] for _ in K]; dV=[[] for _ in V]
        for head,qh,kh,vh,A,rd in kept:
            dyh=[r[head] for r in dy]
            dS=[]
            columns=transpose(kh)
            for t,(a,dA) in enumerate(zip(A,matmul(dyh,vh))):
                c=sum(map(mul,a,dA))
                ds=[ai*(da-c)*rd for ai,da in zip(a,dA)]
                dS.append(ds)
                dQ[t]+=times(ds,columns)
            dyT=transpose(dyh[::-1]); qT=transpose(qh[::-1])
            A.reverse(); dS.reverse()
            for s in range(len(K)):
                dV[s]+=times([a[s] for a in A if s < len(a)], dyT)
                dK[s]+=times([a[s] for a in dS if s < len(a)], qT)
            A.reverse()
        return dQ+dK+dV
    return fuse(y,pull,q,k,v)


def cross_entropy(logits, targets):
    """-log softmax(logits)[target], mean over positions;  dlogits = (softmax(logits) - onehot) / n"""
    check_targets(logits, targets)
    L = numbers(logits)
    probs=[]; loss=0.0
    for row, target in zip(L, targets):
        top = max(row)
        exps = [math.exp(s - top) for s in row]
        total = sum(exps)
        loss += math.log(total) + top - row[target]
        probs.append([e/total for e in exps])
    n=len(L)
    def pull(dy):
        g=dy[0][0]/n
        out=[]
        for p, t in zip(probs, targets):
            d=[g*x for x in p]; d[t]-=g
            out.append(d)
        return out
    return fuse([[loss/n]], pull, logits)[0][0]
