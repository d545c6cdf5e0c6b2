"""The training loop, as a generator: print, measure or stop with an ordinary `for`."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import NamedTuple

from micrograd_res import fused
from micrograd_res.engine import Value
from micrograd_res.model import Config, Params, as_floats, gpt
from micrograd_res.optim import Adam, learning_rate


class Step(NamedTuple):
    step: int  # from 0
    loss: float  # nats per token, of this step's batch before its update
    lr: float


def document_loss(
    tokens: list[int], params: Params, config: Config, ops: ModuleType = fused
) -> Value:
    """The mean cross entropy of predicting each token from those before it, in nats.

    A document longer than the block is cut: its end is never seen.
    """
    tokens = tokens[: config.block_size + 1]
    loss: Value = ops.cross_entropy(gpt(tokens[:-1], params, config, ops), tokens[1:])
    return loss


def batch_loss(
    batch: list[list[int]], params: Params, config: Config, ops: ModuleType = fused
) -> Value:
    """The mean over documents of each document's mean over its tokens."""
    if not batch:
        raise ValueError("no documents to take the mean over")
    losses = [document_loss(tokens, params, config, ops) for tokens in batch]
    return sum(losses[1:], losses[0]) / len(losses)


def evaluate(documents: list[list[int]], params: Params, config: Config) -> float:
    """The loss as in training, on plain numbers: no graph, and nothing is changed."""
    return float(batch_loss(documents, as_floats(params), config))


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Graphs have no reference cycles: spare the whole process the search for them meanwhile."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def train(
    documents: list[list[int]],
    params: Params,
    config: Config,
    adam: Adam,
    steps: int,
    lr: float = 0.01,
    warmup: int = 0,
    batch_size: int = 1,
    ops: ModuleType = fused,
) -> Iterator[Step]:
    """Train from adam.steps to `steps`. The gradients of a step stay until the next one."""
    if adam.steps < steps and not documents:
        raise ValueError("no documents to train on")
    for step in range(adam.steps, steps):
        batch = [documents[(step * batch_size + i) % len(documents)] for i in range(batch_size)]
        lr_now = learning_rate(step, steps, lr, warmup)
        with no_garbage_collection():
            adam.zero_grad()
            loss = batch_loss(batch, params, config, ops)
            loss.backward()
            adam.step(lr_now)
            record = Step(step, loss.data, lr_now)
            del loss  # frees the whole graph
        yield record
