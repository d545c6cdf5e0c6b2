"""Adam: how gradients become steps."""

from __future__ import annotations

from math import sqrt

from micrograd_res.engine import Value
from micrograd_res.model import Params

Group = tuple[list[Value], float]  # parameters, and the factor on their learning rate


def param_groups(params: Params, block_rate: float = 1.0) -> list[Group]:
    """All parameters of a GPT; those of its blocks learn at block_rate times the learning rate."""
    blocks: list[Value] = []
    rest: list[Value] = []
    for name, matrix in params.items():
        for row in matrix:
            (blocks if name.startswith("layer") else rest).extend(row)
    # A Value that occurs twice (tied weights) is one parameter.
    return [(list(dict.fromkeys(rest)), 1.0), (list(dict.fromkeys(blocks)), block_rate)]


def learning_rate(step: int, steps: int, lr: float, warmup: int = 0) -> float:
    """Linear decay from lr to 0 over all steps, times a rise to 1 over the first `warmup` steps."""
    return lr * (1.0 - step / steps) * min(1.0, (step + 1) / max(1, warmup))


class Adam:
    """Kingma and Ba 2015, algorithm 1. The defaults are microgpt's."""

    def __init__(
        self, groups: list[Group], beta1: float = 0.85, beta2: float = 0.99, eps: float = 1e-8
    ) -> None:
        self.groups = groups
        self.beta1, self.beta2, self.eps = beta1, beta2, eps
        self.steps = 0
        self.means = [[0.0] * len(values) for values, _ in groups]  # of the gradient
        self.squares = [[0.0] * len(values) for values, _ in groups]  # of its square

    def zero_grad(self) -> None:
        for values, _ in self.groups:
            for value in values:
                value.grad = 0.0

    def step(self, lr: float) -> None:
        """Move every parameter against its gradient, by about lr whatever the gradient's size."""
        self.steps += 1
        beta1, beta2 = self.beta1, self.beta2
        # Both averages start at 0. Dividing them by these factors removes that bias (section 3);
        # it is done once for all parameters, as at the end of section 2.
        unbias1, unbias2 = 1.0 - beta1**self.steps, sqrt(1.0 - beta2**self.steps)
        eps = self.eps * unbias2
        gamma1, gamma2 = 1.0 - beta1, 1.0 - beta2
        for (values, factor), mean, square in zip(self.groups, self.means, self.squares):
            size = lr * factor * unbias2 / unbias1
            for i, value in enumerate(values):
                grad = value.grad
                mean[i] = m = beta1 * mean[i] + gamma1 * grad
                square[i] = s = beta2 * square[i] + gamma2 * grad * grad
                value.data -= size * m / (sqrt(s) + eps)
