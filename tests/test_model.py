"""The GPT and its block: what the skips do to the numbers, and what they leave alone."""

import dataclasses
import itertools
import math
import random

import pytest

from micrograd_res import functional, fused
from micrograd_res.engine import Value
from micrograd_res.model import (
    INITS,
    NORMS,
    Config,
    as_floats,
    attention,
    block,
    embed,
    gpt,
    init_params,
    layer_of,
    mlp,
    new_caches,
    shapes,
)

TINY = Config(vocab_size=5, block_size=4, n_layer=2, n_head=2, n_embd=4)
TOKENS, TARGETS = [4, 0, 2], [0, 2, 4]
SKIPS = list(itertools.product([True, False], repeat=2))


def tiny(**changes):
    return dataclasses.replace(TINY, **changes)


def loss_of(params, config, ops=fused):
    return ops.cross_entropy(gpt(TOKENS, params, config, ops), TARGETS)


def numbers(rows):
    return [[float(value) for value in row] for row in rows]


def silence(params):
    """Set the output matrices of every block to zero: F(x) = 0."""
    for name, matrix in params.items():
        if name.endswith(("attn_wo", "mlp_fc2")):
            for row in matrix:
                for value in row:
                    value.data = 0.0


def test_the_embedding_is_token_plus_position_from_the_first_normalised():
    params = init_params(TINY, random.Random(1))
    tokens = [params["wte"][token] for token in TOKENS]
    for first in (0, 1):
        x = fused.rmsnorm(fused.add(tokens, params["wpe"][first : first + 3]))
        assert numbers(embed(TOKENS, params, TINY, first=first)) == numbers(x)
    assert numbers(embed(TOKENS, params, TINY)) != numbers(x)


# The block


def test_a_block_whose_sublayers_are_silent_passes_x_on_to_the_last_bit():
    params = init_params(TINY, random.Random(1))
    silence(params)
    x = embed(TOKENS, params, TINY)
    y = block(x, layer_of(params, 0), TINY)
    assert numbers(y) == numbers(x)
    assert y is not x


@pytest.mark.parametrize("dropped", ["residual_attn", "residual_mlp"])
def test_without_a_skip_a_silent_sublayer_leaves_nothing(dropped):
    config = tiny(**{dropped: False})
    params = init_params(config, random.Random(1))
    silence(params)
    x = block(embed(TOKENS, params, config), layer_of(params, 0), config)
    assert numbers(x) == [[0.0] * 4] * 3
    assert numbers(gpt(TOKENS, params, config)) == [[0.0] * 5] * 3


def twin(tokens, weights, config):
    """The logits of microgpt's network, written out once more on plain numbers."""

    def linear(x, rows):
        return [sum(a * b for a, b in zip(row, x)) for row in rows]

    def rmsnorm(x):
        return [a * (sum(b * b for b in x) / len(x) + 1e-5) ** -0.5 for a in x]

    def softmax(x):
        return [math.exp(a) / sum(math.exp(b) for b in x) for a in x]

    size = config.n_embd // config.n_head
    seen = [([], []) for _ in range(config.n_layer)]
    logits = []
    for position, token in enumerate(tokens):
        x = rmsnorm([a + b for a, b in zip(weights["wte"][token], weights["wpe"][position])])
        for i, (keys, values) in enumerate(seen):
            layer = layer_of(weights, i)
            h = rmsnorm(x)
            q = linear(h, layer["attn_wq"])
            keys.append(linear(h, layer["attn_wk"]))
            values.append(linear(h, layer["attn_wv"]))
            h = []
            for j in range(config.n_embd):
                head = range(j - j % size, j - j % size + size)
                scores = [sum(q[m] * k[m] for m in head) / size**0.5 for k in keys]
                h.append(sum(a * v[j] for a, v in zip(softmax(scores), values)))
            x = [a + b for a, b in zip(linear(h, layer["attn_wo"]), x)]
            h = [max(0.0, a) for a in linear(rmsnorm(x), layer["mlp_fc1"])]
            x = [a + b for a, b in zip(linear(h, layer["mlp_fc2"]), x)]
        logits.append(linear(x, weights["lm_head"]))
    return logits


def test_the_whole_is_microgpt():
    config = tiny(init="fan_in")
    weights = as_floats(init_params(config, random.Random(1)))
    for row, expected in zip(gpt(TOKENS, weights, config), twin(TOKENS, weights, config)):
        assert row == pytest.approx(expected, rel=1e-12)


def test_with_both_skips_and_pre_norm_it_is_the_block_of_microgpt():
    params = init_params(TINY, random.Random(1))
    layer = layer_of(params, 0)
    x = embed(TOKENS, params, TINY)
    h = fused.add(attention(fused.rmsnorm(x), layer, TINY), x)
    y = fused.add(mlp(fused.rmsnorm(h), layer), h)
    assert numbers(block(x, layer, TINY)) == numbers(y)


def test_without_skips_it_is_f_alone():
    config = tiny(residual_attn=False, residual_mlp=False)
    params = init_params(config, random.Random(1))
    layer = layer_of(params, 0)
    x = embed(TOKENS, params, config)
    y = mlp(fused.rmsnorm(attention(fused.rmsnorm(x), layer, config)), layer)
    assert numbers(block(x, layer, config)) == numbers(y)


def test_post_norm_normalises_each_sum():
    config = tiny(norm="post")
    params = init_params(config, random.Random(1))
    layer = layer_of(params, 0)
    x = embed(TOKENS, params, config)
    h = fused.rmsnorm(fused.add(attention(x, layer, config), x))
    y = fused.rmsnorm(fused.add(mlp(h, layer), h))
    assert numbers(block(x, layer, config)) == numbers(y)


def test_without_norm_only_the_embedding_is_normalised():
    config = tiny(norm="none")
    params = init_params(config, random.Random(1))
    layer = layer_of(params, 0)
    x = embed(TOKENS, params, config)
    h = fused.add(attention(x, layer, config), x)
    assert numbers(block(x, layer, config)) == numbers(fused.add(mlp(h, layer), h))
    assert [sum(n * n for n in row) / 4 for row in numbers(x)] == pytest.approx([1] * 3, rel=1e-2)


def additions(result):
    """The operations of the graph that have two inputs for each output: sums of two sequences."""
    order, _ = result._operations()
    return sum(len(operation._inputs) == 2 * operation.n_output for operation in order)


@pytest.mark.parametrize("n_layer", [1, 2, 12, 96])  # 12: GPT-2, 96: GPT-3
def test_a_residual_gpt_has_two_skip_additions_in_each_layer(n_layer):
    for skips in SKIPS:
        config = tiny(n_layer=n_layer, residual_attn=skips[0], residual_mlp=skips[1])
        loss = loss_of(init_params(config, random.Random(1)), config)
        of_the_embedding = 1  # token and position
        assert additions(loss) - of_the_embedding == sum(skips) * n_layer


# Weights


def test_the_defaults_are_those_of_microgpt():
    config = Config(27)
    assert (config.block_size, config.n_layer, config.n_head, config.n_embd) == (16, 1, 4, 16)
    assert config.residual_attn is config.residual_mlp is True
    assert (config.norm, config.init) == ("pre", "plain")
    assert sum(n_out * n_in for n_out, n_in in shapes(config).values()) == 4192


def test_weights_are_drawn_in_the_order_of_microgpt():
    names = ["wte", "wpe", "lm_head"]
    for i in range(2):
        names += [f"layer{i}.{name}" for name in ("attn_wq", "attn_wk", "attn_wv", "attn_wo")]
        names += [f"layer{i}.mlp_fc1", f"layer{i}.mlp_fc2"]
    params = init_params(TINY, random.Random(7))
    rng = random.Random(7)
    assert list(params) == names
    for name in names:
        assert numbers(params[name]) == [[rng.gauss(0, 0.08) for _ in row] for row in params[name]]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("skips", SKIPS)
def test_the_toggles_change_no_weight_and_draw_no_number(skips, norm):
    rngs = [random.Random(3), random.Random(3)]
    config = tiny(residual_attn=skips[0], residual_mlp=skips[1], norm=norm)
    assert as_floats(init_params(config, rngs[0])) == as_floats(init_params(TINY, rngs[1]))
    assert rngs[0].getstate() == rngs[1].getstate()


@pytest.mark.parametrize(
    ("init", "attn_wq", "attn_wo", "mlp_fc1", "mlp_fc2"),
    [
        ("plain", 1, 1, 1, 1),
        ("scaled", 1, 1 / math.sqrt(4), 1, 1 / math.sqrt(4)),
        ("zero", 1, 0, 1, 0),
        ("fan_in", 0.5 / 0.08, 0.5 / 0.08, 0.5 / 0.08, 0.25 / 0.08),
    ],
)
def test_each_init_scales_the_same_draws(init, attn_wq, attn_wo, mlp_fc1, mlp_fc2):
    standard = as_floats(init_params(TINY, random.Random(3)))
    params = as_floats(init_params(tiny(init=init), random.Random(3)))
    factors = {"attn_wq": attn_wq, "attn_wo": attn_wo, "mlp_fc1": mlp_fc1, "mlp_fc2": mlp_fc2}
    factors |= {"attn_wk": attn_wq, "attn_wv": attn_wq}
    for name, matrix in params.items():
        factor = factors.get(name.split(".")[-1], 1)
        for row, standard_row in zip(matrix, standard[name]):
            assert row == pytest.approx([factor * n for n in standard_row])


def test_a_fresh_zero_block_is_the_identity_and_more_of_them_change_nothing():
    rng = random.Random(3)
    deep = tiny(n_layer=5, init="zero")
    params = init_params(deep, rng)
    assert numbers(gpt(TOKENS, params, deep)) == numbers(gpt(TOKENS, params, tiny(n_layer=1)))


# Gradients


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("skips", SKIPS)
def test_every_parameter_gets_the_gradient_that_central_differences_give(skips, norm):
    config = tiny(residual_attn=skips[0], residual_mlp=skips[1], norm=norm, init="fan_in")
    params = init_params(config, random.Random(5))
    loss_of(params, config).backward()
    floats = as_floats(params)
    for name, matrix in params.items():
        for row, values in zip(floats[name], matrix):
            for i, value in enumerate(values):
                row[i] = value.data + 1e-5
                high = loss_of(floats, config)
                row[i] = value.data - 1e-5
                low = loss_of(floats, config)
                row[i] = value.data
                assert value.grad == pytest.approx((high - low) / 2e-5, rel=1e-4, abs=1e-8), name


@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("skips", SKIPS)
def test_both_tellings_give_the_same_model(skips, norm, init):
    config = tiny(residual_attn=skips[0], residual_mlp=skips[1], norm=norm, init=init)
    losses, grads = [], []
    for ops in (functional, fused):
        params = init_params(config, random.Random(5))
        loss = loss_of(params, config, ops)
        loss.backward()
        losses.append(loss.data)
        grads.append([v.grad for matrix in params.values() for row in matrix for v in row])
    assert losses[1] == pytest.approx(losses[0], rel=1e-12)
    assert grads[1] == pytest.approx(grads[0], rel=1e-9, abs=1e-13)


# Positions


@pytest.mark.parametrize("ops", [functional, fused], ids=["functional", "fused"])
@pytest.mark.parametrize("parts", [[1, 1, 1], [2, 1], [1, 2]])
def test_with_a_cache_the_logits_are_those_computed_at_once(ops, parts):
    params = init_params(TINY, random.Random(5))
    at_once = numbers(gpt(TOKENS, params, TINY, ops))
    caches, piecewise, tokens = new_caches(TINY), [], list(TOKENS)
    for length in parts:
        piece, tokens = tokens[:length], tokens[length:]
        piecewise += numbers(gpt(piece, params, TINY, ops, caches))
    assert len(piecewise) == len(at_once)
    for row, expected in zip(piecewise, at_once):
        assert row == pytest.approx(expected, rel=1e-12)


def test_a_cache_for_each_layer_or_none():
    params = init_params(TINY, random.Random(5))
    for caches in ([], new_caches(TINY)[:1]):
        with pytest.raises(ValueError, match=f"{len(caches)} caches .* n_layer 2"):
            gpt(TOKENS, params, TINY, caches=caches)


def test_a_position_does_not_see_those_after_it():
    params = init_params(TINY, random.Random(5))
    assert numbers(gpt([4, 0, 1], params, TINY))[:2] == numbers(gpt([4, 0, 3], params, TINY))[:2]


def test_plain_numbers_give_the_same_logits_without_a_graph():
    params = init_params(TINY, random.Random(5))
    logits = gpt(TOKENS, as_floats(params), TINY)
    assert logits == numbers(gpt(TOKENS, params, TINY))
    assert all(type(number) is float for row in logits for number in row)


@pytest.mark.parametrize("token", [-1, 5])
def test_a_token_outside_the_vocabulary_is_refused(token):
    with pytest.raises(ValueError, match=f"token {token} .* vocabulary of 5"):
        gpt([0, token], init_params(TINY, random.Random(5)), TINY)


def test_a_position_outside_the_block_is_refused():
    params = init_params(TINY, random.Random(5))
    with pytest.raises(ValueError, match=r"positions 0 to 4 .* block_size 4"):
        gpt([0] * 5, params, TINY)
    with pytest.raises(ValueError, match=r"positions -1 to 0"):
        embed([0, 0], params, TINY, first=-1)
    caches = new_caches(TINY)
    gpt([0] * 4, params, TINY, caches=caches)
    with pytest.raises(ValueError, match=r"positions 4 to 4 .* block_size 4"):
        gpt([0], params, TINY, caches=caches)


# Sizes


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"n_embd": 10, "n_head": 4}, "n_embd 10 .* n_head 4"),
        ({"n_layer": 0}, "n_layer .* 0"),
        ({"vocab_size": -1}, "vocab_size .* -1"),
        ({"block_size": 0}, "block_size .* 0"),
        ({"n_head": 0}, "n_head .* 0"),
        ({"n_embd": 0}, "n_embd .* 0"),
        ({"n_layer": 1.5}, "n_layer .* 1.5"),
        ({"n_layer": True}, "n_layer .* True"),
        ({"norm": "both"}, "pre, post, none, not 'both'"),
        ({"init": "ones"}, "plain, scaled, zero, fan_in, not 'ones'"),
    ],
)
def test_a_bad_configuration_is_refused_with_its_numbers(changes, words):
    with pytest.raises(ValueError, match=words):
        tiny(**changes)


def test_a_configuration_does_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        TINY.n_layer = 3


@pytest.mark.parametrize("ops", [functional, fused], ids=["functional", "fused"])
def test_a_hundred_layers_need_no_recursion(ops):
    config = tiny(n_layer=100)
    params = init_params(config, random.Random(5))
    loss_of(params, config, ops).backward()
    assert all(math.isfinite(value.grad) for row in params["wte"] for value in row)
    assert any(value.grad for value in params["wte"][0])


def test_weights_may_themselves_be_computed():
    params = init_params(TINY, random.Random(5))
    scale = Value(2.0)
    doubled = {
        name: [[scale * value for value in row] for row in rows] for name, rows in params.items()
    }
    loss_of(doubled, TINY).backward()
    copies = {n: [[Value(float(v)) for v in row] for row in rows] for n, rows in doubled.items()}
    loss_of(copies, TINY).backward()
    for name, rows in params.items():
        for row, copied in zip(rows, copies[name]):
            assert [v.grad for v in row] == pytest.approx([2.0 * v.grad for v in copied])
