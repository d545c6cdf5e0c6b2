"""Two tellings of one story: fused gives the values, gradients and errors of the definitions."""

import math
import random

import pytest

from micrograd_res import functional, fused
from micrograd_res.engine import Value

TELLINGS = (functional, fused)
SEEDS = range(25)


def draw(rng, n_row, n_column):
    """Rows of Values, with a zero and a repeated Value among them now and then."""
    rows = [[Value(rng.gauss(0, 1)) for _ in range(n_column)] for _ in range(n_row)]
    for row in rows:
        if rng.random() < 0.2:
            row[rng.randrange(n_column)] = Value(0.0)
        if rng.random() < 0.2:
            row[rng.randrange(n_column)] = row[0]
    return rows


def leaves(*arguments):
    return [v for rows in arguments for row in rows for v in row]


def total(rng, rows):
    """Some of the outputs, each with a weight of its own, so that their gradients differ."""
    some = [value for row in rows for value in row if rng.random() < 0.8]
    return sum((rng.gauss(0, 1) * value for value in some), Value(0.0))


def outcome(build, seed):
    """What build(telling) gives: its numbers, and the gradients of a random sum of them."""
    results = []
    for ops in TELLINGS:
        rng = random.Random(seed)
        result, inputs = build(ops, rng)
        total(rng, result).backward()
        results.append(([v.data for v in leaves(result)], [v.grad for v in leaves(*inputs)]))
    return results


def agree(build, seed):
    (value, grads), (fused_value, fused_grads) = outcome(build, seed)
    assert fused_value == pytest.approx(value, rel=1e-12, abs=1e-14, nan_ok=True)
    assert fused_grads == pytest.approx(grads, rel=1e-12, abs=1e-13, nan_ok=True)


def build_add(ops, rng):
    n, d = rng.randint(1, 5), rng.randint(1, 6)
    x, y = draw(rng, n, d), draw(rng, n, d)
    return ops.add(x, y), [x, y]


def build_linear(ops, rng):
    n, d, n_out = rng.randint(1, 12), rng.randint(1, 18), rng.randint(1, 12)
    x, weight = draw(rng, n, d), draw(rng, n_out, d)
    return ops.linear(x, weight), [x, weight]


def build_relu(ops, rng):
    x = draw(rng, rng.randint(1, 5), rng.randint(1, 6))
    return ops.relu(x), [x]


def build_rmsnorm(ops, rng):
    x = draw(rng, rng.randint(1, 5), rng.randint(1, 6))
    return ops.rmsnorm(x), [x]


def build_softmax(ops, rng):
    x = draw(rng, 1, rng.randint(1, 6))
    return [ops.softmax(x[0])], [x]


def build_attend(ops, rng):
    n_head, size, n_key = rng.randint(1, 3), rng.randint(1, 4), rng.randint(1, 6)
    n_query = rng.randint(1, n_key)
    q, k, v = (draw(rng, n, n_head * size) for n in (n_query, n_key, n_key))
    return ops.attend(q, k, v, n_head), [q, k, v]


def build_cross_entropy(ops, rng):
    n, size = rng.randint(1, 5), rng.randint(1, 6)
    logits = draw(rng, n, size)
    return [[ops.cross_entropy(logits, [rng.randrange(size) for _ in range(n)])]], [logits]


def build_same_vectors_twice(ops, rng):
    x = draw(rng, 3, 4)
    return ops.attend(ops.add(x, x), x, x, 2), [x]


def build_computed_weights(ops, rng):
    x, weight = draw(rng, 3, 4), draw(rng, 2, 4)
    return ops.linear(x, [[w * w.tanh() for w in row] for row in ops.relu(weight)]), [x, weight]


def build_weights_from_an_operation(ops, rng):
    x, weight, outer = draw(rng, 3, 4), draw(rng, 5, 4), draw(rng, 4, 4)
    return ops.linear(x, ops.linear(weight, outer)), [x, weight, outer]


def build_fused_and_single_values_mixed(ops, rng):
    x, weight = draw(rng, 3, 4), draw(rng, 4, 4)
    y = ops.rmsnorm([[a.exp() for a in row] for row in ops.linear(x, weight)])
    return ops.add([[a * x[0][0] for a in row] for row in y], ops.relu(y)), [x, weight]


def build_an_output_used_several_times(ops, rng):
    x, weight = draw(rng, 3, 4), draw(rng, 4, 4)
    y = ops.linear(x, weight)
    return ops.add(ops.rmsnorm(y), ops.add(y, ops.relu(y))), [x, weight]


def build_ragged_rows(ops, rng):
    x = [draw(rng, 1, n)[0] for n in (1, 4, 2)]
    return ops.relu(ops.add(ops.rmsnorm(x), x)), [x]


BUILDS = {name[6:]: build for name, build in globals().items() if name.startswith("build_")}


@pytest.mark.parametrize("length", range(1, 20))
def test_products_agree_at_every_length_written_out_or_not(length):
    def build(ops, rng):
        x, weight = draw(rng, length, length), draw(rng, length, length)
        return ops.linear(x, weight), [x, weight]

    agree(build, length)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
def test_both_tellings_agree_on_random_shapes(build, seed):
    agree(build, seed)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
def test_nan_and_infinity_travel_alike(build, bad):
    def spoilt(ops, rng):
        class Spoilt(random.Random):
            """Draws as rng does, except for the one number that is bad."""

            count = 0

            def gauss(self, mu, sigma):
                self.count += 1
                return bad if self.count == 3 else super().gauss(mu, sigma)

        return build(ops, Spoilt(rng.random()))

    for seed in range(5):
        results = []
        for ops in TELLINGS:
            result, inputs = spoilt(ops, random.Random(seed))
            sum(value for row in result for value in row).backward()
            results.append([*(v.data for v in leaves(result)), *(v.grad for v in leaves(*inputs))])
        assert results[1] == pytest.approx(results[0], rel=1e-9, abs=1e-12, nan_ok=True)


def test_a_nan_in_the_future_does_not_reach_the_past():
    for ops in TELLINGS:
        q, k, v = ([[Value(1.0)], [Value(2.0)]] for _ in range(3))
        v[1][0].data = k[1][0].data = math.nan
        (early,), (late,) = ops.attend(q, k, v, 1)
        assert early.data == 1.0
        assert math.isnan(late.data)


@pytest.mark.parametrize("ops", TELLINGS, ids=["functional", "fused"])
class TestWhatDoesNotFit:
    @staticmethod
    def rows(n_row, n_column):
        return [[Value(1.0) for _ in range(n_column)] for _ in range(n_row)]

    @pytest.mark.parametrize(
        ("name", "shapes", "words"),
        [
            ("add", [(2, 3), (3, 3)], "2 and 3"),
            ("add", [(2, 3), (2, 4)], "3 and 4"),
            ("linear", [(2, 3), (5, 4)], "4|3"),
            ("attend", [(1, 4), (2, 4), (3, 4)], "2 and 3"),
            ("attend", [(3, 4), (2, 4), (2, 4)], "3 queries .* 2"),
            ("attend", [(2, 4), (2, 6), (2, 4)], "4 and 6"),
            ("attend", [(2, 5), (2, 5), (2, 5)], "5 numbers .* 2 heads"),
        ],
    )
    def test_lengths_that_do_not_match_are_named(self, ops, name, shapes, words):
        arguments = [self.rows(*shape) for shape in shapes]
        with pytest.raises(ValueError, match=words):
            getattr(ops, name)(*arguments, *([2] if name == "attend" else []))

    @pytest.mark.parametrize("short_row", [0, 1])
    def test_a_short_row_of_weights_is_refused(self, ops, short_row):
        weight = self.rows(2, 3)
        weight[short_row].pop()
        with pytest.raises(ValueError, match="2"):
            ops.linear(self.rows(1, 3), weight)

    @pytest.mark.parametrize(
        ("targets", "words"),
        [([0], "2 and 1"), ([0, 3], "target 3 .* 3 logits"), ([0, -1], "target -1")],
    )
    def test_targets_must_be_one_for_each_position_and_in_range(self, ops, targets, words):
        with pytest.raises(ValueError, match=words):
            ops.cross_entropy(self.rows(2, 3), targets)

    def test_the_mean_over_no_position_is_refused(self, ops):
        with pytest.raises(ValueError, match="no position"):
            ops.cross_entropy([], [])

    def test_nothing_gives_nothing(self, ops):
        assert ops.add([], []) == ops.linear([], self.rows(2, 3)) == ops.relu([]) == []
        assert ops.rmsnorm([]) == ops.attend([], [], [], 2) == []
        assert ops.attend([], self.rows(1, 2), self.rows(1, 2), 2) == []
        assert ops.linear(self.rows(2, 3), []) == [[], []]


def test_data_that_was_set_to_an_int_gives_floats():
    x = Value(1.0)
    x.data = 2
    for result in (fused.relu([[x]]), fused.add([[x]], [[x]]), fused.linear([[x]], [[x]])):
        assert type(result[0][0].data) is float


def test_a_negative_zero_keeps_its_sign():
    x = Value(-0.0)
    assert math.copysign(1.0, fused.add([[x]], [[x]])[0][0].data) == -1.0


def test_a_fused_operation_is_one_node_for_all_its_outputs():
    x = [[Value(1.0), Value(2.0)], [Value(3.0), Value(4.0)]]
    y = fused.relu(x)
    assert len({id(value._inputs) for row in y for value in row}) == 1


def test_outputs_that_do_not_reach_the_loss_have_no_part_in_it():
    x, weight = [[Value(2.0)]], [[Value(3.0)], [Value(5.0)]]
    ((a, b),) = fused.linear(x, weight)
    a.backward()
    assert (x[0][0].grad, weight[0][0].grad, weight[1][0].grad) == (3.0, 2.0, 0.0)
    assert (a.grad, b.grad) == (1.0, 0.0)


def test_two_losses_over_one_graph_and_a_second_call_add_up():
    for ops in TELLINGS:
        x, weight = [[Value(2.0)]], [[Value(3.0)]]
        ((h,),) = ops.linear(x, weight)
        (h * h).backward()
        assert (x[0][0].grad, h.grad) == (36.0, 12.0)
        (h + 1).backward()
        assert (x[0][0].grad, h.grad) == (39.0, 1.0)
        (h + 1).backward()
        assert (x[0][0].grad, h.grad) == (42.0, 1.0)


def test_editing_data_after_the_forward_pass_does_not_change_its_gradient():
    x, weight = [[Value(2.0)]], [[Value(3.0)]]
    ((y,),) = fused.linear(x, weight)
    x[0][0].data = weight[0][0].data = 100.0
    y.backward()
    assert (x[0][0].grad, weight[0][0].grad) == (3.0, 2.0)


@pytest.mark.parametrize("ops", TELLINGS, ids=["functional", "fused"])
def test_editing_targets_after_the_forward_pass_does_not_change_the_gradient(ops):
    logits, targets = [[Value(0.0), Value(0.0)]], [0]
    loss = ops.cross_entropy(logits, targets)
    targets[0] = 1
    loss.backward()
    assert [value.grad for value in logits[0]] == [-0.5, 0.5]


def test_plain_numbers_give_plain_numbers_and_no_graph():
    x, weight = [[1.0, -2.0]], [[3.0, 4.0]]
    assert fused.linear(x, weight) == [[-5.0]]
    assert fused.relu(fused.add(x, x)) == [[2.0, 0.0]]
    assert fused.cross_entropy([[0.0, 0.0]], [1]) == pytest.approx(math.log(2))
    for name in ("rmsnorm", "softmax"):
        (row,) = getattr(fused, name)(x) if name == "rmsnorm" else [fused.softmax(x[0])]
        assert all(type(number) is float for number in row)
    assert all(type(number) is float for number in fused.attend(x, x, x, 2)[0])


@pytest.mark.parametrize("constant", ["x", "weight"])
def test_plain_numbers_beside_values_are_constants(constant):
    x, weight = [[1.0, -2.0]], [[3.0, 4.0]]
    if constant == "x":
        weight = [[Value(number) for number in row] for row in weight]
    else:
        x = [[Value(number) for number in row] for row in x]
    ((y,),) = fused.linear(x, weight)
    y.backward()
    assert y.data == -5.0
    if constant == "x":
        assert [value.grad for value in weight[0]] == [1.0, -2.0]
    else:
        assert [value.grad for value in x[0]] == [3.0, 4.0]
