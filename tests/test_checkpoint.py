from __future__ import annotations

import copy
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest
from programs import ROOT

from micrograd_res.checkpoint import Checkpoint, load, save
from micrograd_res.data import Tokenizer, fingerprint
from micrograd_res.model import Config, as_floats, init_params
from micrograd_res.optim import Adam, param_groups
from micrograd_res.sample import generate
from micrograd_res.train import train

DOCUMENTS = ["ada", "bé", "dab", "🚀a", "bad"]


def fresh_run(**config) -> Checkpoint:
    rng = random.Random(5)
    tokenizer = Tokenizer.of(DOCUMENTS)
    shape = {"block_size": 4, "n_head": 2, "n_embd": 2} | config
    made = Config(tokenizer.vocab_size, **shape)
    params = init_params(made, rng)
    adam = Adam(param_groups(params))
    flags = {"lr": 0.1, "steps": 20, "norm": "pre"}
    return Checkpoint(flags, fingerprint(DOCUMENTS), tokenizer, made, [], rng, params, adam)


def go_on(run: Checkpoint, until: int) -> Checkpoint:
    documents = [run.tokenizer.encode(document) for document in DOCUMENTS]
    for step in train(documents, run.params, run.config, run.adam, 20, lr=0.1):
        run.losses.append(step.loss)
        if len(run.losses) == until:
            break
    return run


def state(run: Checkpoint) -> tuple[object, ...]:
    adam = (run.adam.steps, run.adam.means, run.adam.squares)
    return run.config, run.losses, as_floats(run.params), adam, run.rng.getstate()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda run: setattr(run.adam, "beta1", 0.9), "does not keep beta1"),
        (lambda run: setattr(run.adam, "groups", param_groups(run.params, 0.5)), "keep groups"),
        (lambda run: run.losses.append(1.0), "0 steps of Adam, but 1 losses"),
    ],
)
def test_what_a_file_has_no_place_for_is_not_saved_in_silence(tmp_path, change, words):
    run = fresh_run()
    change(run)
    with pytest.raises(ValueError, match=words):
        save(tmp_path / "run.json", run)
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> str:
    file = tmp_path_factory.mktemp("good") / "run.json"
    save(file, go_on(fresh_run(), 10))
    return file.read_text(encoding="ascii")


def message(path: Path, content: str | bytes) -> str:
    """What loading a file with this content complains about."""
    file = path / "run.json"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=r"run.json: ") as caught:
        load(file)
    said = str(caught.value)
    assert said.startswith(f"{file}: ")
    assert "\n" not in said
    assert len(said) < 500
    return said.removeprefix(f"{file}: ")


# ---- What is saved comes back.


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"n_layer": 2, "residual_attn": False},
        {"norm": "post", "residual_mlp": False, "init": "fan_in"},
        {"norm": "none", "init": "zero", "n_embd": 4, "block_size": 9},
    ],
)
def test_every_part_of_a_run_comes_back_to_the_last_bit(tmp_path, config):
    run = go_on(fresh_run(**config), 7)
    run.rng.gauss(0, 1)  # an odd number of draws leaves one in store
    save(tmp_path / "run.json", run)
    back = load(tmp_path / "run.json")
    assert repr(state(back)) == repr(state(run))  # repr: -0.0 is not 0.0
    assert (back.flags, back.data, back.tokenizer) == (run.flags, run.data, run.tokenizer)
    save(tmp_path / "again.json", back)
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "run.json").read_bytes()


@pytest.mark.parametrize("number", [0.1, -0.0, 5e-324, sys.float_info.max, 1 / 3, -1e-300])
def test_every_float_comes_back_exactly(tmp_path, number):
    run = fresh_run()
    run.params["wte"][0][0].data = number
    save(tmp_path / "run.json", run)
    assert repr(load(tmp_path / "run.json").params["wte"][0][0].data) == repr(number)


@pytest.mark.parametrize("breaks", [[10], [1], [19], [3, 7, 8, 20], [0, 20]])
def test_twenty_steps_equal_any_parts_of_them(tmp_path, breaks):
    whole = go_on(fresh_run(), 20)
    run = fresh_run()
    for until in breaks:
        save(tmp_path / "run.json", go_on(run, until) if until else run)
        run = load(tmp_path / "run.json")
    go_on(run, 20)
    assert state(run) == state(whole)
    how = (run.params, run.config, run.tokenizer)
    assert [generate(*how, run.rng) for _ in range(9)] == [
        generate(whole.params, whole.config, whole.tokenizer, whole.rng) for _ in range(9)
    ]


def test_the_second_half_can_run_in_another_process(tmp_path):
    save(tmp_path / "run.json", go_on(fresh_run(), 10))
    program = (
        "import sys; from test_checkpoint import *\n"
        "run = go_on(load(sys.argv[1]), 20); save(sys.argv[1], run)"
    )
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    command = [sys.executable, "-c", program, str(tmp_path / "run.json")]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": path})
    assert state(load(tmp_path / "run.json")) == state(go_on(fresh_run(), 20))


def test_a_person_can_read_the_file(good):
    found = json.loads(good)
    assert list(found)[:2] == ["version", "flags"]
    assert found["alphabet"] == "abdé🚀"
    assert good.isascii()
    row = json.dumps(found["weights"]["wte"][0])
    assert f"   {row},\n" in good  # a matrix has one line for each of its rows


# ---- The file is the old one or the new one, whole.


def test_saving_leaves_no_other_file_and_keeps_a_symbolic_link(tmp_path):
    (tmp_path / "link.json").symlink_to(tmp_path / "run.json")
    for _ in range(3):
        save(tmp_path / "link.json", fresh_run())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.json", "run.json"]
    assert (tmp_path / "link.json").is_symlink()


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_diverged_run_does_not_replace_the_last_good_file(tmp_path, good, number):
    (tmp_path / "run.json").write_text(good)
    run = fresh_run()
    run.params["wte"][0][0].data = number
    with pytest.raises(ArithmeticError, match="no longer finite"):
        save(tmp_path / "run.json", run)
    assert (tmp_path / "run.json").read_text() == good
    assert len(list(tmp_path.iterdir())) == 1


def test_a_full_disk_leaves_the_old_file(tmp_path, good):
    (tmp_path / "run.json").write_text(good)
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(good) // 2, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            save(tmp_path / "run.json", fresh_run())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert (tmp_path / "run.json").read_text() == good
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("name", ["absent/run.json", ".", "x" * 300])
def test_a_place_where_nothing_can_be_written_is_an_os_error(tmp_path, name):
    with pytest.raises(OSError):  # noqa: PT011
        save(tmp_path / name, fresh_run())
    with pytest.raises(OSError, match="not a regular file"):
        save("/dev/null", fresh_run())


@pytest.mark.parametrize("rounds", [3, pytest.param(100, marks=pytest.mark.slow)])
def test_whenever_it_is_killed_the_file_is_whole(tmp_path, rounds):
    program = (
        "import sys; from test_checkpoint import *\n"
        "run = fresh_run(n_embd=16)\n"
        "for step in range(10**6):\n"
        "    run.adam.steps = step % 7\n"
        "    run.losses[:] = [0.0] * run.adam.steps\n"
        "    save(sys.argv[1], run)"
    )
    file = tmp_path / "run.json"
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    rng = random.Random(rounds)
    for _ in range(rounds):
        killed = subprocess.Popen(
            [sys.executable, "-c", program, str(file)], env={**os.environ, "PYTHONPATH": path}
        )
        while not file.exists() and killed.poll() is None:
            time.sleep(0.01)
        time.sleep(rng.uniform(0.0, 0.5))
        killed.kill()
        assert killed.wait() == -signal.SIGKILL.value
        assert load(file).config.n_embd == 16
        assert {path.name for path in tmp_path.iterdir()} <= {"run.json", "run.json.tmp"}


# ---- A bad file is refused in one line that names what is wrong and where.


def edited(text: str, where: str, value: object) -> str:
    found = json.loads(text)
    *path, last = [int(key) if key.isdigit() else key for key in where.split("/")]
    part = found
    for key in path:
        part = part[key]
    if value is KeyError:
        del part[last]
    else:
        part[last] = value
    return json.dumps(found)


@pytest.mark.parametrize(
    ("where", "value", "expected"),
    [
        ("version", 2, "version must be 1, not 2"),
        ("version", KeyError, "the file must be a checkpoint, not {"),
        ("version", [1], "version must be 1, not [1]"),
        ("weights", KeyError, "checkpoint: 'weights' is missing"),
        ("extra", 1, "checkpoint: 'extra' does not belong there"),
        ("flags", [], "flags must be of type dict, not []"),
        ("flags/lr", [0.1], "lr must be a finite number or a word, not [0.1]"),
        ("flags/lr", math.inf, "lr must be a finite number or a word, not inf"),
        ("data", 3, "data must be of type str, not 3"),
        ("alphabet", ["a"], "alphabet must be of type str, not ['a']"),
        ("alphabet", "ba", "alphabet must be sorted characters, not 'ba'"),
        ("alphabet", "aab", "alphabet must be sorted characters, not 'aab'"),
        ("alphabet", "ab", "vocab_size must be 3, not 6"),
        ("step", 11, "step must be 10, not 11"),
        ("step", "10", "step must be of type int, not '10'"),
        ("losses", {}, "losses must be of type list, not {}"),
        ("losses/3", "x", "losses[3] must be a finite number, not 'x'"),
        ("config", None, "config must be of type dict, not None"),
        ("config/n_head", KeyError, "config: 'n_head' is missing"),
        ("config/dropout", 0, "config: 'dropout' does not belong there"),
        ("config/n_layer", "1", "n_layer must be of type int, not '1'"),
        ("config/n_layer", True, "n_layer must be of type int, not True"),
        ("config/n_layer", 1.0, "n_layer must be of type int, not 1.0"),
        ("config/n_layer", 0, "n_layer must be a whole number of at least 1, not 0"),
        ("config/n_layer", 2, "weights: 'layer1.attn_wq' is missing"),
        ("config/n_layer", 10**10, "weights: 9 matrices, too few for n_layer 1000"),
        ("config/n_layer", 10**4000, "weights: 9 matrices, too few for n_layer 1000"),
        ("config/n_head", 3, "n_embd 2 cannot be shared"),
        ("config/n_embd", 4, "length of weights.wte[0] must be 4, not 2"),
        ("config/n_embd", 10**10, "length of weights.wte[0] must be 10000000000, not 2"),
        ("config/block_size", 10**10, "length of weights.wpe must be 10000000000, not 4"),
        ("config/vocab_size", 10**10, "vocab_size must be 6, not 10000000000"),
        ("config/residual_mlp", 1, "residual_mlp must be of type bool, not 1"),
        ("config/norm", "batch", "norm must be one of pre, post, none, not 'batch'"),
        ("config/norm", [[[]]], "norm must be of type str, not [[[]]]"),
        ("weights", [], "weights must be of type dict, not []"),
        ("weights/lm_head", KeyError, "weights: 'lm_head' is missing"),
        ("weights/layer1.attn_wq", [], "weights: 'layer1.attn_wq' does not belong there"),
        ("weights/wte", {}, "weights.wte must be a list, not {}"),
        ("weights/wte", [], "length of weights.wte must be 6, not 0"),
        ("weights/wte/5", [1.0], "length of weights.wte[5] must be 2, not 1"),
        ("weights/wte/5", 1.0, "weights.wte[5] must be a list, not 1.0"),
        ("weights/wte/5/1", "1.0", "weights.wte[5][1] must be a finite number, not '1.0'"),
        ("weights/wte/5/1", None, "weights.wte[5][1] must be a finite number, not None"),
        ("weights/wte/5/1", True, "weights.wte[5][1] must be a finite number, not True"),
        ("weights/wte/5/1", math.nan, "weights.wte[5][1] must be a finite number, not nan"),
        ("weights/wte/5/1", -math.inf, "weights.wte[5][1] must be a finite number, not -inf"),
        ("weights/wte/5/1", 10**400, "weights.wte[5][1] must be a finite number, not 1000"),
        ("means/wpe/0/0", math.inf, "means.wpe[0][0] must be a finite number, not inf"),
        ("means/layer0.mlp_fc2/1", [], "length of means.layer0.mlp_fc2[1] must be 8, not 0"),
        ("squares/wpe/0/0", -1e-9, "squares.wpe[0][0] must be a finite number from 0, not -1e-09"),
        ("random", [3], "length of random must be 3, not 1"),
        ("random/0", 9, "random: state with version 9 passed to Random.setstate()"),
        ("random/1", [1, 2], "length of random[1] must be 625, not 2"),
        ("random/1/0", 1.5, "random: "),
        ("random/1/0", -1, "random: "),
        ("random/1/624", 625, "random: invalid state"),
        ("random/2", "0", "random[2] must be a finite number or null, not '0'"),
    ],
)
def test_one_wrong_entry_is_named(tmp_path, good, where, value, expected):
    assert message(tmp_path, edited(good, where, value)).startswith(expected)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "cut off, or not JSON: Expecting value: line 1 column 1"),
        ("ada\nbea\n", "cut off, or not JSON: Expecting value: line 1 column 1"),
        ("__import__('os').abort()", "cut off, or not JSON"),
        (b"\x80\x04K\x01.", "'utf-8' codec can't decode byte 0x80"),
        ("[]", "the file must be a checkpoint, not []"),
        ("null", "the file must be a checkpoint, not None"),
        ("9" * 5000, "Exceeds the limit"),
        ("[" * 100_000, "lists within lists, too deep"),
        ("[" * 100_000 + "]" * 100_000, "lists within lists, too deep"),
        ('{"version":' * 100_000, "lists within lists, too deep"),
        ('{"version": 1e999}', "version must be 1, not inf"),
    ],
)
def test_what_is_no_checkpoint_at_all_is_refused(tmp_path, content, expected):
    assert message(tmp_path, content).startswith(expected)


@pytest.mark.parametrize("depth", range(700, 1100, 25))
def test_nesting_near_the_recursion_limit_is_refused_as_any_other(tmp_path, good, depth):
    deep = "[" * depth + "]" * depth
    for key in ("version", "flags", "config", "weights", "random"):
        text = edited(good, key, "HERE")
        message(tmp_path, text.replace('"HERE"', deep))
        message(tmp_path, text.replace('"HERE"', f'{{"lr": {deep}}}'))


@pytest.mark.parametrize("stride", [211, pytest.param(1, marks=pytest.mark.slow)])
def test_a_file_cut_off_at_any_byte_is_refused(tmp_path, good, stride):
    for length in range(0, len(good) - 1, stride):
        assert message(tmp_path, good[:length]).startswith("cut off, or not JSON")


def mutated(text: bytes, rng: random.Random) -> bytes:
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(text))
        until = min(len(text), at + rng.choice([0, 1, 1, 2, 10, 1000]))
        other = rng.randrange(len(text))
        new = rng.choice(
            [
                b"",
                bytes([rng.randrange(256)]),
                rng.choice(b'0123456789-+.eE[]{},:"ntf \n').to_bytes(1, "big"),
                b"NaN",
                b"1e400",
                b"-1",
                b"null",
                b'"0.5"',
                b"9" * 400,
                text[other : other + until - at],
            ]
        )
        text = text[:at] + new + text[until:]
    return text


@pytest.mark.parametrize("mutations", [300, pytest.param(20_000, marks=pytest.mark.slow)])
def test_mutations_are_refused_or_load_as_a_model_that_works(tmp_path, good, mutations):
    rng = random.Random(mutations)
    file = tmp_path / "run.json"
    refused = 0
    for _ in range(mutations):
        file.write_bytes(mutated(good.encode(), rng))
        try:
            run = load(file)
        except ValueError as error:
            refused += 1
            said = str(error)
            assert said.startswith(f"{file}: ")
            assert "\n" not in said
            continue
        assert all(
            math.isfinite(value.data) for m in run.params.values() for row in m for value in row
        )
        assert run.adam.steps == len(run.losses)
        save(file, run)
    assert mutations * 0.5 < refused < mutations


@pytest.mark.parametrize("where", ["n_layer", "n_embd", "block_size", "vocab_size", "n_head"])
def test_memory_is_bounded_by_the_size_of_the_file(tmp_path, good, where):
    tracemalloc.start()
    try:
        message(tmp_path, edited(good, f"config/{where}", 10**10))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100 * len(good)


def test_a_refused_file_leaves_no_trace_in_the_run_that_it_was_for(tmp_path, good):
    run = go_on(fresh_run(), 5)
    before = copy.deepcopy(state(run))
    message(tmp_path, edited(good, "squares/layer0.mlp_fc2/1/7", math.nan))
    assert state(run) == before


try:
    from hypothesis import HealthCheck, given, settings
    from hypothesis import strategies as st
except ImportError:
    pass
else:
    json_values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=10,
    )
    keys = ["flags", "data", "alphabet", "config", "step", "losses", "random", "weights", "means"]
    keys += ["config/norm", "config/n_embd", "config/residual_attn", "random/0", "random/1"]
    keys += ["random/2", "random/1/0", "random/1/624", "weights/wte", "weights/wte/0/0", "losses/0"]

    fixture = HealthCheck.function_scoped_fixture

    @settings(suppress_health_check=[fixture], deadline=None, max_examples=40)
    @given(st.sampled_from(keys), json_values)
    def test_any_value_in_any_place_is_refused_or_loads(tmp_path, good, where, value):
        file = tmp_path / "run.json"
        file.write_text(edited(good, where, value))
        try:
            load(file)
        except ValueError as error:
            said = str(error)
        else:
            return
        assert said.startswith(f"{file}: ")
        assert "\n" not in said
