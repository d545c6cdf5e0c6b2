"""The number that remembers: what every operation gives, and what `backward` finds."""

import copy
import gc
import math
import pickle
import random
import sys
import threading
import weakref
from fractions import Fraction

import pytest

from micrograd_res.engine import Value

INF, NAN = math.inf, math.nan


def gradients(function, *numbers):
    """The value of function at these numbers, and its gradient for each of them."""
    leaves = [Value(number) for number in numbers]
    result = function(*leaves)
    result.backward()
    return result.data, [leaf.grad for leaf in leaves]


# Values and derivatives


@pytest.mark.parametrize(
    ("function", "numbers", "value", "grads"),
    [
        (lambda a, b: a + b, (2, 3), 5, [1, 1]),
        (lambda a, b: a - b, (2, 3), -1, [1, -1]),
        (lambda a, b: a * b, (2, 3), 6, [3, 2]),
        (lambda a, b: a / b, (3, 2), 1.5, [1 / 2, -3 / 4]),
        (lambda a, b: a**b, (2, 3), 8, [12, 8 * math.log(2)]),
        (lambda a: -a, (2,), -2, [-1]),
        (lambda a: a.exp(), (1,), math.e, [math.e]),
        (lambda a: a.log(), (2,), math.log(2), [1 / 2]),
        (lambda a: a.tanh(), (0.5,), math.tanh(0.5), [1 - math.tanh(0.5) ** 2]),
        (lambda a: a.relu(), (2,), 2, [1]),
        (lambda a: a.relu(), (-2,), 0, [0]),
    ],
)
def test_every_operation_has_its_value_and_its_derivatives(function, numbers, value, grads):
    assert gradients(function, *numbers) == (pytest.approx(value), pytest.approx(grads))


@pytest.mark.parametrize(
    ("function", "value", "grad"),
    [
        (lambda a: a + 3, 5, 1),
        (lambda a: 3 + a, 5, 1),
        (lambda a: a - 3, -1, 1),
        (lambda a: 3 - a, 1, -1),
        (lambda a: a * 3, 6, 3),
        (lambda a: 3 * a, 6, 3),
        (lambda a: a / 4, 0.5, 0.25),
        (lambda a: 4 / a, 2, -1),
        (lambda a: a**3, 8, 12),
        (lambda a: 3**a, 9, 9 * math.log(3)),
        (lambda a: sum([a, a, a]), 6, 3),
    ],
)
def test_plain_numbers_may_stand_on_either_side(function, value, grad):
    assert gradients(function, 2.0) == (pytest.approx(value), [pytest.approx(grad)])


@pytest.mark.parametrize(
    ("function", "at", "value", "grad"),
    [
        (lambda x: x.relu(), 0.0, 0.0, 0.0),
        (lambda x: x.tanh(), 1000.0, 1.0, 0.0),
        (lambda x: x.tanh(), -1000.0, -1.0, 0.0),
        (lambda x: x.exp(), -1000.0, 0.0, 0.0),
        (lambda x: x**0, 0.0, 1.0, 0.0),
        (lambda x: x**1, 0.0, 0.0, 1.0),
        (lambda x: x**1.5, 0.0, 0.0, 0.0),
        (lambda x: x**2, 0.0, 0.0, 0.0),
        (lambda x: x**0.5, 0.0, 0.0, INF),
        (lambda x: x**3, -2.0, -8.0, 12.0),
        (lambda x: x**-1, 1e-200, 1e200, -INF),
        (lambda x: x**-2, -1e-150, 1e300, INF),
        (lambda x: x**2, 1e-200, 0.0, 2e-200),
        (lambda x: 0.0**x, 2.0, 0.0, 0.0),
    ],
)
def test_the_edges_of_the_real_line(function, at, value, grad):
    assert gradients(function, at) == (pytest.approx(value), [pytest.approx(grad, abs=0)])


def test_the_slope_in_the_exponent_of_a_negative_base_does_not_exist():
    value, (base, exponent) = gradients(lambda a, b: a**b, -2.0, 2.0)
    assert (value, base) == (4.0, -4.0)
    assert math.isnan(exponent)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + 1,
        lambda x: x * 0,
        lambda x: 1 / x,
        lambda x: x**2,
        lambda x: -x,
        lambda x: x.exp(),
        lambda x: x.log(),
        lambda x: x.tanh(),
        lambda x: x.relu(),
    ],
)
def test_nan_stays_nan(function):
    assert math.isnan(function(Value(NAN)).data)


# What has no answer


@pytest.mark.parametrize(
    ("function", "error", "words"),
    [
        (lambda: Value(-8) ** (1 / 3), ValueError, r"-8.0 \*\* 0.333"),
        (lambda: Value(0) ** -1, ZeroDivisionError, r"0.0 \*\* -1.0"),
        (lambda: Value(1e200) ** 2, OverflowError, r"1e\+200 \*\* 2.0"),
        (lambda: Value(1) / 0, ZeroDivisionError, "1.0 / 0.0"),
        (lambda: 1 / Value(0), ZeroDivisionError, "1.0 / 0.0"),
        (lambda: Value(0).log(), ValueError, r"log\(0.0\)"),
        (lambda: Value(-1).log(), ValueError, r"log\(-1.0\)"),
        (lambda: Value(710).exp(), OverflowError, r"exp\(710.0\)"),
    ],
)
def test_what_has_no_real_answer_raises_and_names_the_numbers(function, error, words):
    with pytest.raises(error, match=words):
        function()


@pytest.mark.parametrize("thing", ["3", [1], 1j, None, Value(1)])
def test_a_value_holds_nothing_but_a_real_number(thing):
    with pytest.raises(TypeError, match="real number, not") as caught:
        Value(thing)
    assert repr(thing) in str(caught.value)


@pytest.mark.parametrize("thing", ["3", [1], 1j, None])
def test_arithmetic_with_what_is_not_a_number_raises_type_error(thing):
    for operation in (
        lambda: Value(1) + thing,
        lambda: thing * Value(1),
        lambda: Value(1) ** thing,
    ):
        with pytest.raises(TypeError):
            operation()


def test_every_kind_of_real_number_becomes_a_float():
    for number in (2, True, Fraction(1, 2), 0.5):
        assert type(Value(number).data) is float
        assert Value(number).data == number


# Backward


def test_a_value_used_twice_gets_the_sum_of_both_gradients():
    a = Value(3.0)
    b = a + a
    c = b + b
    c.backward()
    assert (a.grad, b.grad) == (4.0, 2.0)


def test_a_residual_step_adds_the_gradients_of_its_two_paths():
    x = Value(2.0)
    y = x * x + x  # F(x) + x with F'(2) = 4
    y.backward()
    assert x.grad == 4.0 + 1.0


def test_zeroing_a_leaf_and_going_back_again_gives_the_same_gradient():
    x = Value(3.0)
    y = x * x * x
    y.backward()
    x.grad = 0.0
    y.backward()
    assert x.grad == 27.0


def test_leaves_accumulate_over_calls():
    x = Value(3.0)
    y = x * x * x
    y.backward()
    y.backward()
    assert x.grad == 54.0


def test_computed_values_start_afresh_at_each_call():
    a = Value(2.0)
    h = 3 * a
    (h * h).backward()
    assert (a.grad, h.grad) == (36.0, 12.0)
    (h + 1).backward()
    assert (a.grad, h.grad) == (39.0, 1.0)


def test_a_value_outside_the_graph_of_the_result_keeps_its_gradient():
    a = Value(2.0)
    other = a * 5
    other.backward()
    (a * 3).backward()
    assert (a.grad, other.grad) == (8.0, 1.0)


def test_backward_of_a_leaf_is_its_own_slope():
    x = Value(3.0)
    x.backward()
    x.backward()
    assert x.grad == 2.0


def test_editing_data_after_the_forward_pass_does_not_change_its_gradient():
    a, b = Value(2.0), Value(3.0)
    c = a * b
    a.data = 100.0
    c.backward()
    assert (c.data, b.grad) == (6.0, 2.0)


SMOOTH = [  # at every pair of numbers
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    lambda a, b: a / (b * b + 1),
    lambda a, b: (a * a + 0.5) ** (b / (b * b + 1)),
    lambda a, b: -a,
    lambda a, b: 2 ** a.tanh(),
    lambda a, b: a.tanh().exp(),
    lambda a, b: (a * a + 1).log(),
    lambda a, b: (a * a + 0.1).relu() - (-(b * b) - 0.1).relu(),
    lambda a, b: a.tanh(),
]


def random_expression(rng, leaves):
    """A random graph in which values are used again."""
    values = list(leaves)
    for _ in range(rng.randint(1, 12)):
        values.append(rng.choice(SMOOTH)(rng.choice(values), rng.choice(values)))
    return sum(value.tanh() for value in values)


@pytest.mark.parametrize("start", range(0, 2000, 500))
def test_gradients_equal_central_differences_on_random_expressions(start):
    for seed in range(start, start + 500):
        numbers = [random.Random(seed).uniform(-2, 2) for _ in range(3)]

        def value_at(numbers, seed=seed):
            return random_expression(random.Random(seed), [Value(n) for n in numbers]).data

        leaves = [Value(number) for number in numbers]
        random_expression(random.Random(seed), leaves).backward()
        for i, leaf in enumerate(leaves):
            high, low = numbers.copy(), numbers.copy()
            high[i] += 1e-6
            low[i] -= 1e-6
            slope = (value_at(high) - value_at(low)) / 2e-6
            assert leaf.grad == pytest.approx(slope, rel=1e-5, abs=1e-6), f"seed {seed}"


def test_gradients_equal_those_of_pytorch():
    torch = pytest.importorskip("torch")
    for seed in range(100):
        numbers = [random.Random(seed).uniform(-2, 2) for _ in range(3)]
        ours = [Value(number) for number in numbers]
        random_expression(random.Random(seed), ours).backward()
        theirs = [torch.tensor(n, dtype=torch.float64, requires_grad=True) for n in numbers]
        random_expression(random.Random(seed), theirs).backward()
        grads = [0.0 if tensor.grad is None else tensor.grad.item() for tensor in theirs]
        assert [leaf.grad for leaf in ours] == pytest.approx(grads, rel=1e-9, abs=1e-12)


# Depth and memory


@pytest.mark.parametrize("length", [50_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_a_chain_of_a_million_additions_fits_a_small_stack(length):
    grads = []

    def chain():
        x = Value(1.0)
        y = x
        for _ in range(length):
            y = y + x
        y.backward()
        del y  # freed link by link
        grads.append(x.grad)

    before = threading.stack_size(1024 * 1024)
    try:
        thread = threading.Thread(target=chain)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert grads == [length + 1.0]


@pytest.mark.skipif(not hasattr(sys, "getrefcount"), reason="CPython counts references")
def test_a_dropped_graph_is_freed_at_once_without_the_garbage_collector():
    class Watched(Value):
        __slots__ = ("__weakref__",)

    gc.disable()
    try:
        x = Watched(2.0)
        y = (x * x + x).exp().relu()
        y.backward()
        watch = weakref.ref(x)
        del x, y
        assert watch() is None
    finally:
        gc.enable()


# A Value among other Python objects


def test_float_and_repr_show_the_number():
    x = Value(2)
    assert float(x) == 2.0
    assert repr(x) == "Value(data=2.0, grad=0.0)"
    x.data = 3  # somebody tries what happens
    assert float(x) == 3.0


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))]
)
def test_a_leaf_can_be_copied_and_a_computed_value_can_not(copied):
    x = Value(3.0)
    y = x * x
    y.backward()
    twin = copied(x)
    assert (twin.data, twin.grad) == (3.0, 6.0)
    assert twin is not x
    with pytest.raises(TypeError, match="only a leaf can be copied"):
        copied(y)


def test_copying_the_end_of_a_long_chain_is_refused_without_recursion():
    y = Value(1.0)
    for _ in range(10_000):
        y = y + 1
    with pytest.raises(TypeError, match="only a leaf"):
        copy.deepcopy(y)
