from __future__ import annotations

import random
import subprocess
import sys
import warnings

import pytest
from programs import ROOT, environment, within

from micrograd_res.checkpoint import Checkpoint, load, save
from micrograd_res.data import Tokenizer
from micrograd_res.model import Config, as_floats, init_params
from micrograd_res.optim import Adam, param_groups

SETTINGS = [
    {},
    {"n_layer": 3},
    {"residual_attn": False},
    {"residual_mlp": False, "n_layer": 2},
    {"residual_attn": False, "residual_mlp": False, "n_layer": 3, "init": "fan_in"},
    {"norm": "post", "n_layer": 2},
    {"norm": "none", "init": "scaled", "n_head": 1},
    {"init": "zero"},
]


def saved(folder, **config):
    tokenizer = Tokenizer("abcdé")
    shape = Config(tokenizer.vocab_size, **{"block_size": 5, "n_head": 2, "n_embd": 4} | config)
    rng = random.Random(3)
    params = init_params(shape, rng)
    adam = Adam(param_groups(params))
    save(folder / "model.json", Checkpoint({}, "", tokenizer, shape, [], rng, params, adam))
    return folder / "model.json"


def test_without_pytorch_it_says_what_is_missing(tmp_path):
    program = (
        "import sys; sys.modules['torch'] = None; sys.argv = ['to_pytorch.py', 'model.json']\n"
        "import runpy; runpy.run_path('examples/to_pytorch.py', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment(), capture_output=True
    )
    assert done.returncode == 2
    assert done.stderr.startswith(b"error: this example needs PyTorch")
    assert done.stderr.count(b"\n") == 1


@pytest.fixture
def torch():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own, while it is imported
        return pytest.importorskip("torch")


@pytest.mark.parametrize("config", SETTINGS)
def test_the_same_network_in_pytorch(torch, capsys, tmp_path, config):
    from examples import to_pytorch

    file = saved(tmp_path, **config)
    assert within(to_pytorch.main, file) == 0
    assert capsys.readouterr().out.startswith("largest difference: ")
    model = load(file)
    numbers = torch.load(tmp_path / "model.pt")
    assert {name: matrix.tolist() for name, matrix in numbers.items()} == as_floats(model.params)

    twin = to_pytorch.GPT(model.config)
    twin.load_state_dict(numbers)
    batch = torch.tensor([[5, 0, 1, 2], [5, 4, 4, 0]])
    assert torch.allclose(twin(batch)[1], twin(batch[1:])[0])  # a batch is its documents


def test_a_network_that_computes_something_else_is_not_saved(torch, capsys, monkeypatch, tmp_path):
    from examples import to_pytorch

    file = saved(tmp_path)
    monkeypatch.setattr(to_pytorch, "rmsnorm", lambda x: x)
    assert within(to_pytorch.main, file) == 1
    assert "something else: nothing was saved" in capsys.readouterr().err
    assert not (tmp_path / "model.pt").exists()


@pytest.mark.parametrize("toggle", ["residual_attn", "residual_mlp"])
def test_the_check_notices_a_missing_skip(torch, monkeypatch, tmp_path, toggle):
    from dataclasses import replace

    from examples import to_pytorch

    model = load(saved(tmp_path))
    twin = to_pytorch.rebuild(model)
    assert max(to_pytorch.differences(model, twin, [5, 0, 1, 2, 5])) < 1e-12
    model.config = replace(model.config, **{toggle: False})
    assert max(to_pytorch.differences(model, twin, [5, 0, 1, 2, 5])) > 1e-3


@pytest.mark.parametrize("args", [["/no/such/file"], ["MODEL", "--out", "/no/such/folder/x.pt"]])
def test_unusable_input_is_named_in_one_line(torch, capsys, tmp_path, args):
    from examples import to_pytorch

    file = saved(tmp_path)
    assert within(to_pytorch.main, *[file if arg == "MODEL" else arg for arg in args]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert "/no/such/" in err
    assert err.count("\n") == 1
