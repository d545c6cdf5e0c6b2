from __future__ import annotations

import re

import pytest
from programs import start, within

from examples import sample_names
from micrograd_res.checkpoint import load, save

TINY = ("--n-embd", 4, "--n-head", 2, "--steps", 20, "--block-size", 6)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The path of a model, and the names that its training made up at the end."""
    folder = tmp_path_factory.mktemp("model")
    (folder / "names.txt").write_text("ana\nzoë\n김민\nŁucja\n", encoding="utf-8")
    file = folder / "model.json"
    how = ("--data", folder / "names.txt", *TINY, "--save", file, "--samples", 4)
    with start("train_names.py", *how, PYTHONIOENCODING="utf-8") as program:
        names = program.communicate()[0].decode().splitlines()[-5:-1]
    return file, names


def sample(capsys, *args: object) -> list[str]:
    assert within(sample_names.main, *args) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out.splitlines()


def test_without_a_seed_the_names_are_those_of_the_training(capsys, model):
    assert sample(capsys, model[0], "--samples", 4) == model[1]


def test_same_seed_same_names(capsys, model):
    names = sample(capsys, model[0], "--seed", 1)
    assert len(names) == 20
    assert sample(capsys, model[0], "--seed", 1) == names
    assert sample(capsys, model[0], "--seed", 2) != names


@pytest.mark.parametrize("prompt", ["zo", "zoë", "zoe\u0308", "김"])
def test_names_begin_with_the_prompt(capsys, model, prompt):
    composed = prompt.replace("e\u0308", "ë")
    names = sample(capsys, model[0], "--prompt", prompt, "--seed", 1)
    assert all(name.startswith(composed) for name in names)


@pytest.mark.parametrize("how", [("--temperature", 0), ("--temperature", 1e-320), ("--top-k", 1)])
def test_greedy_names_are_all_the_same(capsys, model, how):
    assert len(set(sample(capsys, model[0], *how))) == 1


@pytest.mark.parametrize("how", [(), ("--top-k", 2), ("--temperature", 0), ("--temperature", 2)])
def test_probabilities_of_each_letter_are_shown(capsys, model, how):
    plain = sample(capsys, model[0], "--samples", 3, "--seed", 1, *how)
    flags = ("--samples", 3, "--seed", 1, "--show-probabilities")
    head, *lines = sample(capsys, model[0], *flags, *how)
    assert re.fullmatch(r"probabilities at temperature [\d.]+", head)
    assert [line for line in lines if not line.startswith("  ")] == plain
    text = "\n".join(lines)
    for name in plain:
        letters = list(name) if len(name) == 6 else [*name, "end"]
        rows = [
            re.escape(f"  {letter:3} ") + r" *\d+\.\d%  \((\S+ \d+%(, )?){3}\)\n"
            for letter in letters
        ]
        assert re.search(re.escape(name) + "\n" + "".join(rows), text + "\n")
    assert max(map(len, lines)) <= 40
    if how == ("--temperature", 0):
        assert all("100.0%" in line for line in lines if line.startswith("  "))


@pytest.mark.parametrize(
    ("args", "status", "message"),
    [
        (["/no/such/file"], 2, "/no/such/file: No such file or directory"),
        ([__file__], 2, f"{__file__}: cut off, or not JSON: "),
        ([], 2, "the following arguments are required: MODEL.json"),
        (["MODEL", "--prompt", "xyq"], 2, "'qxy' is not in the alphabet "),
        (["MODEL", "--prompt", "anaana"], 2, "a prompt of 6 leaves no room in a block of 6"),
        (
            ["MODEL", "--temperature", "nan"],
            2,
            "argument --temperature: 'nan' is not a finite number",
        ),
        (["MODEL", "--top-k", "-1"], 2, "argument --top-k: '-1' is not a whole number from 0 up"),
        (["MODEL", "--samples", "2.5"], 2, "argument --samples: '2.5' is not a whole number"),
    ],
)
def test_unusable_input_is_named_in_one_line(capsys, model, args, status, message):
    args = [model[0] if arg == "MODEL" else arg for arg in args]
    assert within(sample_names.main, *args) == status
    err = capsys.readouterr().err
    assert err.startswith(f"error: {message}")
    assert err.count("\n") == 1


def test_a_model_whose_numbers_overflow_is_named(capsys, model, tmp_path):
    run = load(model[0])
    for value in run.params["lm_head"][0] + run.params["lm_head"][1]:
        value.data = 1.7e308
    save(tmp_path / "huge.json", run)
    assert within(sample_names.main, tmp_path / "huge.json") == 1
    assert "diverged" in capsys.readouterr().err


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_names_are_escaped_where_they_cannot_be_shown(model, encoding):
    with start("sample_names.py", model[0], "--prompt", "김", "--show-probabilities",
               PYTHONIOENCODING=encoding, LC_ALL="C.UTF-8") as program:  # fmt: skip
        out, err = program.communicate()
    assert (program.returncode, err) == (0, b"")
    assert ("김" if encoding == "utf-8" else "\\uae40") in out.decode(encoding)


def test_a_pipe_that_closes_early_leaves_no_traceback(model):
    with start("sample_names.py", model[0], "--samples", 500) as program:
        program.stdout.readline()
        program.stdout.close()
        assert program.stderr.read() == b""
    assert program.returncode in (0, 141)


def test_the_model_file_is_only_read(capsys, model):
    before = model[0].read_bytes()
    sample(capsys, model[0])
    assert model[0].read_bytes() == before
