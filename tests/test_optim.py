"""Adam by hand, its groups, and the learning rate over a run."""

import math
import random

import pytest

from micrograd_res.engine import Value
from micrograd_res.model import Config, init_params
from micrograd_res.optim import Adam, learning_rate, param_groups


@pytest.mark.parametrize("grad", [1e-3, -2.0, 1e5])
def test_the_first_step_moves_a_weight_by_lr_whatever_the_gradient(grad):
    weight = Value(1.0)
    weight.grad = grad
    Adam([([weight], 1.0)]).step(lr=0.01)
    assert weight.data == pytest.approx(1.0 - math.copysign(0.01, grad), rel=1e-6)


def test_a_weight_without_a_gradient_stays():
    weight = Value(1.0)
    Adam([([weight], 1.0)]).step(lr=0.01)
    assert weight.data == 1.0


def test_three_steps_follow_algorithm_1_of_the_paper():
    weight, theta, m, v = Value(1.0), 1.0, 0.0, 0.0
    adam = Adam([([weight], 1.0)], beta1=0.9, beta2=0.5, eps=0.1)
    for t, (grad, lr) in enumerate([(2.0, 0.1), (-1.0, 0.2), (0.5, 0.05)], start=1):
        weight.grad = grad
        adam.step(lr)
        m = 0.9 * m + 0.1 * grad
        v = 0.5 * v + 0.5 * grad**2
        theta -= lr * (m / (1 - 0.9**t)) / (math.sqrt(v / (1 - 0.5**t)) + 0.1)
        assert weight.data == pytest.approx(theta, rel=1e-14)
    assert adam.steps == 3


def test_the_defaults_are_those_of_microgpt():
    adam = Adam([])
    assert (adam.beta1, adam.beta2, adam.eps) == (0.85, 0.99, 1e-8)


def test_a_group_learns_at_its_own_multiple_of_the_rate():
    fast, slow, still = Value(0.0), Value(0.0), Value(0.0)
    for value in (fast, slow, still):
        value.grad = 1.0
    Adam([([fast], 1.0), ([slow], 0.1), ([still], 0.0)]).step(lr=0.01)
    assert (fast.data, slow.data, still.data) == pytest.approx((-0.01, -0.001, 0.0))


def test_the_blocks_are_a_group_of_their_own():
    config = Config(vocab_size=3, block_size=2, n_layer=2, n_head=1, n_embd=2)
    params = init_params(config, random.Random(1))
    (rest, rate), (blocks, block_rate) = param_groups(params, block_rate=0.25)
    assert (rate, block_rate) == (1.0, 0.25)
    assert len(rest) == 2 * (3 + 2 + 3)
    assert len(blocks) == 2 * (4 * 4 + 2 * 16)
    assert [rate for _, rate in param_groups(params)] == [1.0, 1.0]
    assert rest[0] is params["wte"][0][0]
    assert blocks[0] is params["layer0.attn_wq"][0][0]


def test_tied_weights_are_one_parameter():
    config = Config(vocab_size=3, block_size=2, n_head=1, n_embd=2)
    params = init_params(config, random.Random(1))
    params["lm_head"] = params["wte"]
    (rest, _), _ = param_groups(params)
    assert len(rest) == len(set(rest)) == 2 * (3 + 2)


def test_zero_grad_clears_every_gradient():
    weights = [Value(1.0), Value(2.0)]
    for weight in weights:
        weight.grad = 5.0
    Adam([(weights[:1], 1.0), (weights[1:], 1.0)]).zero_grad()
    assert [weight.grad for weight in weights] == [0.0, 0.0]


def test_the_learning_rate_falls_linearly_to_zero():
    assert [learning_rate(step, 4, lr=0.8) for step in range(5)] == pytest.approx(
        [0.8, 0.6, 0.4, 0.2, 0.0]
    )


def test_warm_up_raises_it_over_the_first_steps():
    rates = [learning_rate(step, 100, lr=1.0, warmup=4) for step in range(6)]
    assert rates == pytest.approx([0.25, 0.5 * 0.99, 0.75 * 0.98, 0.97, 0.96, 0.95])
