"""What the probe measures is what the model does, and measuring changes nothing."""

import math
import random

import pytest

from micrograd_res import functional, fused
from micrograd_res.engine import Value
from micrograd_res.model import Config, block, gpt, init_params, layer_of
from micrograd_res.probe import forward, gradient_size, lesion, measure, similarity, size
from micrograd_res.train import document_loss, evaluate

TOKENS = [3, 1, 0, 2, 1, 3]


def make(**settings):
    config = Config(vocab_size=4, block_size=6, n_head=2, n_embd=4, **settings)
    return init_params(config, random.Random(0)), config


def data(x):
    return [[value.data for value in vector] for vector in x]


@pytest.mark.parametrize("norm", ["pre", "post", "none"])
@pytest.mark.parametrize("skips", [True, False])
def test_forward_is_gpt_and_keeps_what_enters_each_block(norm, skips):
    params, config = make(n_layer=3, norm=norm, residual_attn=skips, residual_mlp=skips)
    stream, logits = forward(TOKENS, params, config)
    assert data(logits) == data(gpt(TOKENS, params, config))
    assert data(logits) == data(fused.linear(stream[-1], params["lm_head"]))
    assert [len(x) for x in stream] == [len(TOKENS)] * 4


def test_a_removed_block_is_one_that_passes_the_stream_on():
    params, config = make(n_layer=3)
    stream, _ = forward(TOKENS, params, config, removed=[1])
    assert stream[2] is stream[1]
    assert data(stream[3]) != data(stream[2])


def test_with_skips_a_removed_block_is_a_block_whose_f_is_zero():
    params, config = make(n_layer=2)
    _, removed = forward(TOKENS, params, config, removed={0})
    for name in ("layer0.attn_wo", "layer0.mlp_fc2"):
        params[name] = [[Value(0.0) for _ in row] for row in params[name]]
    assert data(gpt(TOKENS, params, config)) == data(removed)


def test_without_any_block_the_embedding_goes_to_the_head():
    params, config = make(n_layer=2)
    stream, _ = forward(TOKENS, params, config, removed=range(2))
    assert stream[0] is stream[1] is stream[2]


@pytest.mark.parametrize("layer", [-1, 2])
def test_a_block_that_is_not_there_cannot_be_removed(layer):
    params, config = make(n_layer=2)
    with pytest.raises(ValueError, match=f"no block {layer} among 2"):
        forward(TOKENS, params, config, removed=[layer])


def test_a_lesion_of_nothing_costs_nothing_and_of_a_block_changes_the_loss():
    params, config = make(n_layer=2)
    documents = [TOKENS, [3, 0, 3], TOKENS + TOKENS]  # the last is longer than the block
    assert lesion(documents, params, config) == pytest.approx(evaluate(documents, params, config))
    assert lesion(documents, params, config, {0}) != lesion(documents, params, config)


def test_no_documents_are_refused():
    params, config = make()
    with pytest.raises(ValueError, match="no documents"):
        lesion([], params, config)


@pytest.mark.parametrize("settings", [{}, {"residual_attn": False, "residual_mlp": False}])
def test_the_gradient_of_the_stream_is_how_the_loss_follows_a_nudge(settings):
    params, config = make(n_layer=2, **settings)
    stream, logits = forward(TOKENS[:-1], params, config)
    fused.cross_entropy(logits, TOKENS[1:]).backward()

    def loss(layer, nudge):
        x = [[Value(value.data) for value in vector] for vector in stream[layer]]
        x[1][2] = Value(x[1][2].data + nudge)
        for i in range(layer, config.n_layer):
            x = block(x, layer_of(params, i), config, functional)
        logits = functional.linear(x, params["lm_head"])
        return functional.cross_entropy(logits, TOKENS[1:]).data

    for layer, x in enumerate(stream):
        slope = (loss(layer, 1e-5) - loss(layer, -1e-5)) / 2e-5
        assert x[1][2].grad == pytest.approx(slope, rel=1e-5, abs=1e-9)
    flow = measure(TOKENS, params, config)
    assert flow.gradient == [gradient_size(x) for x in stream]
    assert flow.activation == [size(x) for x in stream]
    assert flow.similarity == [similarity(x) for x in stream]


def test_the_gradient_of_the_queries_is_that_of_the_loss_of_training():
    params, config = make(n_layer=2)
    document_loss(TOKENS, params, config).backward()
    expected = [
        math.sqrt(sum(value.grad**2 for row in params[f"layer{i}.attn_wq"] for value in row))
        for i in range(2)
    ]
    assert measure(TOKENS, params, config).query_gradient == pytest.approx(expected)


def test_measuring_leaves_parameters_and_their_gradients_alone():
    params, config = make(n_layer=2)
    document_loss(TOKENS, params, config).backward()
    before = [(v.data, v.grad) for matrix in params.values() for row in matrix for v in row]
    measure(TOKENS + TOKENS, params, config)
    lesion([TOKENS], params, config, {0})
    assert before == [(v.data, v.grad) for matrix in params.values() for row in matrix for v in row]


def test_with_skips_and_f_zero_the_same_gradient_reaches_every_layer():
    params, config = make(n_layer=3, init="zero")
    flow = measure(TOKENS, params, config)
    assert flow.gradient == pytest.approx([flow.gradient[0]] * 4)
    assert flow.gradient[0] > 0


def values(*vectors):
    return [[Value(float(number)) for number in vector] for vector in vectors]


def test_similarity_is_the_mean_cosine_over_pairs_of_positions():
    assert similarity(values([1, 2], [2, 4], [0.5, 1])) == pytest.approx(1.0)
    assert similarity(values([1, 0], [0, 3])) == 0.0
    assert similarity(values([1, 0], [0, 1], [1, 1])) == pytest.approx(2**0.5 / 3)
    assert similarity(values([1e-200, 0], [-1e-200, 0])) == -1.0  # whose squares would be 0


@pytest.mark.parametrize("vectors", [[], [[1, 2]], [[1, 2], [0, 0]]])
def test_a_similarity_that_is_not_defined_is_nan(vectors):
    assert math.isnan(similarity(values(*vectors)))


def test_sizes_do_not_underflow():
    x = values([3e-200, 0], [0, -4e-200])
    assert size(x) == pytest.approx(5e-200)
    x[0][0].grad, x[1][1].grad = 3e-300, 4e-300
    assert gradient_size(x) == pytest.approx(5e-300)
