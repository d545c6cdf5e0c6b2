from __future__ import annotations

import inspect
import math
import random

import pytest

from micrograd_res.data import Tokenizer
from micrograd_res.engine import Value
from micrograd_res.model import Config, as_floats, gpt, init_params
from micrograd_res.sample import encode_prompt, generate, probabilities

TOKENIZER = Tokenizer("abcé")
CONFIG = Config(TOKENIZER.vocab_size, block_size=6, n_head=2, n_embd=4)
LOGITS = [1.0, 3.0, -2.0, 2.0]


def sample(seed: int = 0, scale: float = 1.0, **how) -> list[str]:
    params = init_params(CONFIG, random.Random(7))
    for row in params["lm_head"]:
        for value in row:
            value.data *= scale
    rng = random.Random(seed)
    return [generate(params, CONFIG, TOKENIZER, rng, **how) for _ in range(20)]


@pytest.mark.parametrize("temperature", [0.3, 0.5, 1.0, 2.0, 1e9])
def test_probabilities_are_softmax_of_logits_over_temperature(temperature):
    weights = [math.exp(logit / temperature) for logit in LOGITS]
    expected = [weight / sum(weights) for weight in weights]
    assert probabilities(LOGITS, temperature) == pytest.approx(expected, rel=1e-12)
    assert probabilities([logit + 800 for logit in LOGITS], temperature) == pytest.approx(expected)


@pytest.mark.parametrize("how", [(0,), (0.0,), (-0.0,), (1e-320,), (1e-3,), (1.0, 1), (2.0, 1)])
def test_temperature_near_zero_and_top_k_of_one_are_greedy(how):
    assert probabilities(LOGITS, *how) == [0.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize("how", [(0.0,), (1.0, 1)])
def test_of_equal_logits_greedy_takes_the_first(how):
    assert probabilities([1.0, 2.0, 2.0], *how) == [0.0, 1.0, 0.0]


def test_top_k_keeps_the_k_largest_in_proportion():
    e = math.exp(1.0)
    assert probabilities(LOGITS, 1.0, 2) == pytest.approx([0, e / (1 + e), 0, 1 / (1 + e)])


@pytest.mark.parametrize("top_k", [0, 4, 5, 1000])
def test_top_k_of_zero_or_of_the_whole_alphabet_is_no_filter(top_k):
    assert probabilities(LOGITS, 1.0, top_k) == probabilities(LOGITS)
    assert min(probabilities(LOGITS, 1.0, top_k)) > 0.0


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ((-1.0,), "temperature must be 0 or more, not -1.0"),
        ((-1e-320,), "temperature must be 0 or more, not -1e-320"),
        ((math.nan,), "temperature must be 0 or more, not nan"),
        ((1.0, -1), "top_k must be 0 or more, not -1"),
    ],
)
def test_negative_and_nan_are_refused(how, message):
    with pytest.raises(ValueError, match=message):
        probabilities(LOGITS, *how)
    with pytest.raises(ValueError, match=message):
        sample(temperature=how[0], top_k=how[-1] if len(how) > 1 else 0)


@pytest.mark.parametrize("logit", [math.nan, math.inf, -math.inf])
def test_a_diverged_model_cannot_be_sampled_from(logit):
    with pytest.raises(ArithmeticError, match="diverged"):
        probabilities([0.0, logit, 1.0])


def test_samples_follow_the_probabilities_of_the_model():
    config = Config(TOKENIZER.vocab_size, block_size=1, n_head=1, n_embd=2)
    params = init_params(config, random.Random(7))
    params["lm_head"] = [[Value(30 * value.data) for value in row] for row in params["lm_head"]]
    odds = probabilities(gpt([TOKENIZER.bos], as_floats(params), config)[0])
    rng = random.Random(1)
    names = [generate(params, config, TOKENIZER, rng, temperature=1.0) for _ in range(1000)]
    for name, p in zip([*TOKENIZER.alphabet, ""], odds):
        assert names.count(name) == pytest.approx(1000 * p, abs=5 * math.sqrt(1000 * p * (1 - p)))


def test_a_name_ends_at_bos_or_with_the_block():
    lengths = {len(name) for name in sample(temperature=1.0)}
    assert min(lengths) < CONFIG.block_size
    assert max(lengths) <= CONFIG.block_size
    assert {len(name) for name in sample(temperature=1e9, seed=3)} & {CONFIG.block_size}


def test_same_seed_same_names_and_nothing_leaks_from_one_to_the_next():
    names = sample(seed=1, temperature=1.0)
    assert sample(seed=1, temperature=1.0) == names
    assert sample(seed=2, temperature=1.0) != names
    assert len(set(sample(temperature=0.0))) == 1


def test_sampling_leaves_the_weights_and_their_gradients_alone():
    params = init_params(CONFIG, random.Random(7))
    before = as_floats(params)
    generate(params, CONFIG, TOKENIZER, random.Random(0))
    assert as_floats(params) == before
    assert all(value.grad == 0.0 for m in params.values() for row in m for value in row)


@pytest.mark.parametrize("prompt", ["a", "bé", "be\u0301", "aaaaa"])
def test_names_begin_with_the_prompt_in_composed_form(prompt):
    composed = prompt.replace("e\u0301", "é")
    names = sample(temperature=1e6, prompt=prompt)
    assert all(name.startswith(composed) for name in names)
    assert len(set(names)) > 1


@pytest.mark.parametrize("prompt", ["abcabc", "abcabca"])
def test_a_prompt_that_fills_the_block_is_refused(prompt):
    with pytest.raises(
        ValueError, match=f"a prompt of {len(prompt)} leaves no room in a block of 6"
    ):
        sample(prompt=prompt)


def test_a_prompt_with_unseen_characters_names_them_and_the_alphabet():
    with pytest.raises(ValueError, match="'xy' is not in the alphabet 'abcé'"):
        encode_prompt("yax", TOKENIZER, 6)


def test_a_name_ends_at_the_first_bos(monkeypatch):
    bos = TOKENIZER.bos
    script = iter([0, bos, 0, 0, 0, 0])
    one_hot = [[float(token == likeliest) for token in range(bos + 1)] for likeliest in script]
    answers = iter(one_hot)
    monkeypatch.setattr("micrograd_res.sample.gpt", lambda *_, caches: [next(answers)])
    config = Config(TOKENIZER.vocab_size, block_size=5, n_head=1, n_embd=2)
    params = init_params(config, random.Random(1))
    name = generate(params, config, TOKENIZER, random.Random(1), temperature=0.0)
    assert name == TOKENIZER.alphabet[0]
    assert len(list(answers)) == 4


def test_the_temperature_is_that_of_microgpt_unless_said():
    assert inspect.signature(generate).parameters["temperature"].default == 0.5
