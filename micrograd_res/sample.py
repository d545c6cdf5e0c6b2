"""New names, one token at a time."""

from __future__ import annotations

import math
import random

from micrograd_res.data import Tokenizer
from micrograd_res.model import Config, Params, gpt, new_caches, plain


def probabilities(logits: list[float], temperature: float = 1.0, top_k: int = 0) -> list[float]:
    """softmax(logits / temperature) over the top_k largest (0: over all). Temperature 0 is greedy."""
    if not temperature >= 0.0:
        raise ValueError(f"temperature must be 0 or more, not {temperature}")
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
    weights = plain(params)
    caches = new_caches(config)
    tokens = tokenizer.encode(prompt)[:-1]
    if len(tokens) > config.block_size:
        raise ValueError(f"a prompt of {len(prompt)} leaves no room in a block of {config.block_size}")
    fresh = tokens
    while True:
        logits = gpt(fresh, weights, config, caches=caches)[-1]
        odds = probabilities(logits, temperature, top_k)
        token = rng.choices(range(config.vocab_size), weights=odds)[0]
        if token == tokenizer.bos:
            return tokenizer.decode(tokens)
        tokens.append(token)
        if len(tokens) > config.block_size:
            return tokenizer.decode(tokens)
        fresh = [token]
