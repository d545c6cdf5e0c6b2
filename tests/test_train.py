"""The loop: what a step is, that it repeats, and that looking at it changes nothing."""

import gc
import hashlib
import itertools
import random
import subprocess
import sys
from pathlib import Path

import pytest

from micrograd_res import functional, fused
from micrograd_res.model import INITS, NORMS, Config, as_floats, gpt, init_params
from micrograd_res.optim import Adam, param_groups
from micrograd_res.train import batch_loss, document_loss, evaluate, train

CONFIG = Config(vocab_size=4, block_size=4, n_head=2, n_embd=4)
DOCUMENTS = [[3, 0, 1, 3], [3, 2, 3], [3, 1, 1, 2, 0, 1, 3]]


def start(config=CONFIG, seed=1, block_rate=1.0):
    params = init_params(config, random.Random(seed))
    return params, Adam(param_groups(params, block_rate))


def run(steps, config=CONFIG, **options):
    params, adam = start(config)
    records = list(train(DOCUMENTS, params, config, adam, steps, **options))
    return params, records


def test_the_loss_of_a_document_is_the_mean_over_its_tokens():
    params, _ = start()
    tokens = DOCUMENTS[0]
    logits = gpt(tokens[:-1], params, CONFIG)
    each = [
        functional.cross_entropy([row], [target]).data for row, target in zip(logits, tokens[1:])
    ]
    assert document_loss(tokens, params, CONFIG).data == pytest.approx(sum(each) / 3)


def test_the_loss_of_a_batch_is_the_mean_over_its_documents():
    params, _ = start()
    each = [document_loss(tokens, params, CONFIG).data for tokens in DOCUMENTS]
    assert batch_loss(DOCUMENTS, params, CONFIG).data == pytest.approx(sum(each) / 3)


def test_no_documents_are_refused():
    params, adam = start()
    with pytest.raises(ValueError, match="no documents to train on"):
        next(train([], params, CONFIG, adam, 1))
    with pytest.raises(ValueError, match="no documents to take the mean over"):
        evaluate([], params, CONFIG)


def test_what_is_longer_than_the_block_is_cut():
    params, _ = start()
    long = DOCUMENTS[2]
    assert document_loss(long, params, CONFIG).data == document_loss(long[:5], params, CONFIG).data


def test_training_takes_the_documents_in_turn():
    params, adam = start()
    expected = []
    for step in train(DOCUMENTS, params, CONFIG, adam, 5, lr=1e-12):
        expected.append(document_loss(DOCUMENTS[step.step % 3], params, CONFIG).data)
        assert step.loss == pytest.approx(expected[-1], abs=1e-9)


def test_a_batch_takes_as_many_documents_as_it_says():
    _, records = run(2, batch_size=2, lr=1e-12)
    params, _ = start()
    batches = [DOCUMENTS[:2], [DOCUMENTS[2], DOCUMENTS[0]]]
    expected = [batch_loss(batch, params, CONFIG).data for batch in batches]
    assert [record.loss for record in records] == pytest.approx(expected, abs=1e-9)


def test_the_loss_falls():
    _, records = run(100)
    assert sum(r.loss for r in records[-9:]) < sum(r.loss for r in records[:9]) - 3


def test_the_rate_of_each_step_is_in_its_record():
    _, records = run(4, lr=0.4, warmup=2)
    assert [record.lr for record in records] == pytest.approx([0.2, 0.3, 0.2, 0.1])
    assert [record.step for record in records] == [0, 1, 2, 3]


def test_training_goes_on_from_the_steps_that_adam_has_made():
    params, adam = start()
    list(itertools.islice(train(DOCUMENTS, params, CONFIG, adam, 6), 2))
    rest = list(train(DOCUMENTS, params, CONFIG, adam, 6))
    straight, records = run(6)
    assert rest == records[2:]
    assert as_floats(params) == as_floats(straight)


def test_the_gradients_of_a_step_stay_until_the_next():
    params, adam = start()
    steps = train(DOCUMENTS, params, CONFIG, adam, 2)
    next(steps)
    first = [value.grad for row in params["lm_head"] for value in row]
    assert any(first)
    next(steps)
    assert [value.grad for row in params["lm_head"] for value in row] != first


def test_evaluation_leaves_no_trace():
    undisturbed, _ = run(6)
    params, adam = start()
    rng_state = random.getstate()
    for _ in train(DOCUMENTS, params, CONFIG, adam, 6):
        grads = [value.grad for row in params["wte"] for value in row]
        evaluate(DOCUMENTS, params, CONFIG)
        assert [value.grad for row in params["wte"] for value in row] == grads
    assert as_floats(params) == as_floats(undisturbed)
    assert random.getstate() == rng_state


def test_evaluation_is_the_loss_of_training():
    params, _ = start()
    loss = batch_loss(DOCUMENTS, params, CONFIG).data
    assert evaluate(DOCUMENTS, params, CONFIG) == pytest.approx(loss, rel=1e-14)


def test_the_rate_of_the_blocks_can_be_scaled():
    moved = []
    for block_rate in (1.0, 0.5):
        params, adam = start(block_rate=block_rate)
        before = as_floats(params)
        next(train(DOCUMENTS, params, CONFIG, adam, 1))
        after = as_floats(params)
        moved.append(
            [before[name][0][0] - after[name][0][0] for name in ("lm_head", "layer0.attn_wv")]
        )
    assert moved[1] == pytest.approx([moved[0][0], moved[0][1] / 2], rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("skips", list(itertools.product([True, False], repeat=2)))
def test_both_tellings_train_the_same_model(skips, norm, init):
    config = Config(4, 4, 2, 2, 4, skips[0], skips[1], norm, init)
    (fast, fast_records), (slow, slow_records) = (
        run(20, config, ops=ops) for ops in (fused, functional)
    )
    assert [r.loss for r in fast_records] == pytest.approx([r.loss for r in slow_records], rel=1e-9)
    for name, rows in as_floats(slow).items():
        for row, other in zip(rows, as_floats(fast)[name]):
            assert other == pytest.approx(row, rel=1e-9, abs=1e-12)


def test_both_tellings_train_the_same_gpt():
    (fast, _), (slow, _) = (run(20, ops=ops) for ops in (fused, functional))
    for name, rows in as_floats(slow).items():
        for row, other in zip(rows, as_floats(fast)[name]):
            assert other == pytest.approx(row, rel=1e-9, abs=1e-12)


PROGRAM = """
import random
from micrograd_res.model import Config, init_params, as_floats
from micrograd_res.optim import Adam, param_groups
from micrograd_res.train import train
config = Config(vocab_size=4, block_size=4, n_head=2, n_embd=4)
params = init_params(config, random.Random(1))
documents = [[3, 0, 1, 3], [3, 2, 3], [3, 1, 1, 2, 0, 1, 3]]
list(train(documents, params, config, Adam(param_groups(params)), 20))
print(as_floats(params))
"""


def test_two_processes_get_the_same_bits():
    outputs = {
        hashlib.sha256(
            subprocess.run(
                [sys.executable, "-c", PROGRAM],
                env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parent.parent)},
                capture_output=True,
                check=True,
            ).stdout
        ).hexdigest()
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


@pytest.mark.skipif(not hasattr(sys, "getallocatedblocks"), reason="CPython counts references")
def test_memory_is_flat_with_the_garbage_collector_off():
    params, adam = start()
    gc.disable()
    try:
        before = sys.getallocatedblocks()
        loss = batch_loss(DOCUMENTS, params, CONFIG)
        graph = sys.getallocatedblocks() - before
        del loss
        blocks = [
            sys.getallocatedblocks()
            for _ in train(DOCUMENTS, params, CONFIG, adam, 200, batch_size=3)
        ]
    finally:
        gc.enable()
    assert graph > 1000
    assert blocks[199] - blocks[99] < graph  # where a hundred graphs have come and gone


def test_the_garbage_collector_rests_during_a_step_and_is_left_as_it_was():
    assert gc.isenabled()
    seen = []

    class Ops:
        def __getattr__(self, name):
            seen.append(gc.isenabled())
            return getattr(fused, name)

    params, adam = start()
    for _ in train(DOCUMENTS, params, CONFIG, adam, 2, ops=Ops()):
        assert gc.isenabled()
    assert not any(seen)
    gc.disable()
    try:
        list(train(DOCUMENTS, params, CONFIG, adam, 4))
        assert not gc.isenabled()
    finally:
        gc.enable()
