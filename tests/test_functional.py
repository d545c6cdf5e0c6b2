"""The definitions: what each operation gives on numbers worked out by hand."""

import math

import pytest

from micrograd_res import functional
from micrograd_res.engine import Value


def values(rows):
    return [[Value(number) for number in row] for row in rows]


def numbers(rows):
    return [[value.data for value in row] for row in rows]


def test_add_adds_position_by_position():
    assert numbers(functional.add(values([[1, 2], [3, 4]]), values([[10, 20], [30, 40]]))) == [
        [11, 22],
        [33, 44],
    ]


def test_linear_gives_one_number_for_each_row_of_the_weights():
    x, weight = values([[1, 2], [3, 4]]), values([[1, 0], [0, 1], [1, 1]])
    assert numbers(functional.linear(x, weight)) == [[1, 2, 3], [3, 4, 7]]


def test_linear_of_nothing_is_nothing():
    assert functional.linear([], values([[1, 2]])) == []


def test_relu_keeps_what_is_positive():
    assert numbers(functional.relu(values([[-1, 0, 2]]))) == [[0, 0, 2]]


def test_rmsnorm_gives_vectors_of_root_mean_square_one():
    ((a, b),) = numbers(functional.rmsnorm(values([[3, 4]])))
    scale = (12.5 + 1e-5) ** -0.5
    assert (a, b) == pytest.approx((3 * scale, 4 * scale))


def test_rmsnorm_of_zeros_is_zeros():
    assert numbers(functional.rmsnorm(values([[0, 0]]))) == [[0, 0]]


def test_softmax_gives_shares_that_add_up_to_one():
    shares = functional.softmax([Value(0), Value(math.log(3))])
    assert [share.data for share in shares] == pytest.approx([0.25, 0.75])


def test_softmax_of_large_scores_does_not_overflow():
    assert [share.data for share in functional.softmax([Value(1000), Value(0)])] == [1.0, 0.0]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_nan_among_the_scores_comes_out_wherever_it_stands(place):
    scores = [Value(1), Value(2), Value(3)]
    scores[place].data = math.nan
    assert all(math.isnan(share.data) for share in functional.softmax(scores))
    assert math.isnan(functional.cross_entropy([scores], [1]).data)


def test_attend_by_hand_for_one_head():
    q, k = values([[1, 0], [0, 2]]), values([[1, 0], [0, 1]])
    v = values([[10, 0], [0, 10]])
    first, second = numbers(functional.attend(q, k, v, n_head=1))
    assert first == [10, 0]  # sees itself alone
    share = 1 / (1 + math.exp(2 / math.sqrt(2)))  # scores 0 and 2 / sqrt(2)
    assert second == pytest.approx([10 * share, 10 * (1 - share)])


def test_attend_never_looks_ahead():
    q, k, v = (values([[1, 2], [3, 4], [5, 6]]) for _ in range(3))
    x = functional.attend(q, k, v, n_head=2)
    sum(x[1]).backward()
    assert all(value.grad == 0.0 for value in q[2] + k[2] + v[2])
    assert any(value.grad != 0.0 for value in v[0])


def test_each_head_of_attend_works_on_its_own_part_of_the_vectors():
    q, k, v = (values([[1, 2], [3, -4], [5, 6]]) for _ in range(3))
    together = numbers(functional.attend(q, k, v, n_head=2))
    for i in range(2):
        q_i, k_i, v_i = ([[row[i]] for row in rows] for rows in (q, k, v))
        alone = numbers(functional.attend(q_i, k_i, v_i, n_head=1))
        assert [row[i] for row in together] == [row[0] for row in alone]


def test_the_last_query_stands_at_the_last_key():
    q, k, v = (values([[1, 2], [3, 4], [5, 6]]) for _ in range(3))
    at_once = numbers(functional.attend(q, k, v, n_head=1))
    assert numbers(functional.attend(q[2:], k, v, n_head=1)) == at_once[2:]
    assert numbers(functional.attend(q[1:2], k[:2], v[:2], n_head=1)) == at_once[1:2]


def test_cross_entropy_of_equal_logits_is_the_log_of_their_number():
    loss = functional.cross_entropy(values([[0, 0, 0, 0]]), [2])
    assert loss.data == pytest.approx(math.log(4))


def test_cross_entropy_survives_large_logits_and_has_exact_gradients():
    logits = values([[800, 0]])
    loss = functional.cross_entropy(logits, [1])
    loss.backward()
    assert loss.data == 800.0
    assert [value.grad for value in logits[0]] == [1.0, -1.0]


def test_cross_entropy_is_the_mean_over_positions():
    rows = [[1, 2, 3], [0, -1, 5]]
    each = [functional.cross_entropy(values([row]), [1]).data for row in rows]
    assert functional.cross_entropy(values(rows), [1, 1]).data == pytest.approx(sum(each) / 2)
