"""New names, one token at a time."""

from __future__ import annotations

import math
import random
from unicodedata import normalize

from micrograd_res.data import Tokenizer
from micrograd_res.model import Config, Params, as_floats, gpt, new_caches


def probabilities(logits: list[float], temperature: float = 1.0, top_k: int = 0) -> list[float]:
    """softmax(logits / temperature) over the top_k largest (0: all). Temperature 0 is greedy."""
    if not temperature >= 0.0:
        raise ValueError(f"temperature must be 0 or more, not {temperature}")
    if top_k < 0:
        raise ValueError(f"top_k must be 0 or more, not {top_k}")
    if not all(map(math.isfinite, logits)):
        raise ArithmeticError("the logits are no longer finite numbers: the model has diverged")
    ranked = sorted(range(len(logits)), key=lambda token: -logits[token])
    if temperature == 0.0:
        top_k = temperature = 1
    kept = set(ranked[: top_k or None])
    top = logits[ranked[0]]
    weights = [
        math.exp((logit - top) / temperature) if token in kept else 0.0
        for token, logit in enumerate(logits)
    ]
    total = sum(weights)
    return [weight / total for weight in weights]


def encode_prompt(prompt: str, tokenizer: Tokenizer, block_size: int) -> list[int]:
    """BOS and the prompt. ValueError if the block has no room for one character more."""
    prompt = normalize("NFC", prompt)  # as documents are
    if len(prompt) >= block_size:
        raise ValueError(f"a prompt of {len(prompt)} leaves no room in a block of {block_size}")
    return tokenizer.encode(prompt)[:-1]


def generate(
    params: Params,
    config: Config,
    tokenizer: Tokenizer,
    rng: random.Random,
    temperature: float = 0.5,
    top_k: int = 0,
    prompt: str = "",
) -> str:
    """The prompt and what the model adds to it, up to BOS or until the block is full."""
    weights = as_floats(params)
    caches = new_caches(config)
    tokens = encode_prompt(prompt, tokenizer, config.block_size)
    fresh = list(tokens)
    while len(tokens) <= config.block_size:
        logits = gpt(fresh, weights, config, caches=caches)[-1]
        odds = probabilities(logits, temperature, top_k)
        token = rng.choices(range(config.vocab_size), weights=odds)[0]
        if token == tokenizer.bos:
            break
        tokens.append(token)
        fresh = [token]
    return tokenizer.decode(tokens)
