from __future__ import annotations

import dataclasses
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from programs import ROOT, command, environment, start, within

from examples.common import clipped
from examples.train_names import main, make_parser
from micrograd_res import fused
from micrograd_res.checkpoint import load, save
from micrograd_res.data import read_documents
from micrograd_res.plot import TO_ASCII

MICROGPT = json.loads((ROOT / "tests" / "microgpt_run.json").read_text(encoding="ascii"))
TINY = ("--n-embd", 4, "--n-head", 2, "--steps", 20, "--samples", 5)


@pytest.fixture(scope="module")
def cities(tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("data") / "cities.txt"
    file.write_text("\n".join(["roma", "bari", "pisa", "asti", "como", "roma"] * 5 + ["milano"]))
    return file


def losses(file: Path) -> list[float]:
    header, *rows = file.read_text(encoding="ascii").splitlines()
    assert header == "step,loss"
    assert [row.split(",")[0] for row in rows] == [str(step) for step in range(len(rows))]
    return [float(row.split(",")[1]) for row in rows]


# ---- It is microgpt.


def test_the_first_losses_are_those_of_microgpt(tmp_path):
    file = tmp_path / "losses.csv"
    # 1000 steps are planned, as the learning rate depends on it, and 50 are made.
    with start("train_names.py", "--val-fraction", 0, "--losses", file, "--save-every", 50,
               "--save", tmp_path / "run.json") as program:  # fmt: skip
        while not (tmp_path / "run.json").exists() or len(load(tmp_path / "run.json").losses) < 50:
            assert program.poll() is None
            time.sleep(0.05)
        program.send_signal(signal.SIGINT)
        program.communicate()
    assert losses(file)[:50] == pytest.approx(MICROGPT["losses"], rel=0, abs=1e-9)


@pytest.mark.slow
def test_the_samples_are_those_of_microgpt(capsys):
    assert within(main, "--val-fraction", 0) == 0
    assert capsys.readouterr().out.splitlines()[-21:-1] == MICROGPT["samples"]


# ---- What it prints.


def test_it_says_what_it_read_and_what_came_of_it(capsys, cities, tmp_path):
    file = tmp_path / "losses.csv"
    assert within(main, "--data", cities, *TINY, "--block-size", 5, "--losses", file) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for line in [
        "documents      31, 25 of them repeats",
        "longest        milano (6)",
        "cut            1 longer than the block of 5",
        "               their ends are never learned; a larger --block-size would do that",
        "alphabet       12: abcilmnoprst",
        "parameters     316",
        "knows nothing  loss ln 13 = 2.56",
        "step 20/20  loss ",
        "training loss  ",
    ]:
        assert f"\n{line}" in f"\n{out}"
    assert f"loss: {losses(file)[0]:.2f} at first, {sum(losses(file)) / 20:.2f} at last" in out
    new = sum(name not in cities.read_text().split() for name in out.splitlines()[-6:-1])
    assert out.endswith(f"\n{new} of 5 are new\n")


def test_the_losses_read_back_exactly(cities, tmp_path):
    how = ("--data", cities, *TINY, "--losses", tmp_path / "losses.csv")
    assert within(main, *how, "--save", tmp_path / "run.json") == 0
    assert losses(tmp_path / "losses.csv") == load(tmp_path / "run.json").losses


@pytest.mark.parametrize(
    ("n", "said"), [(1, "none: too few"), (2, "none"), (5, "none"), (10, "1\n")]
)
def test_few_documents_leave_something_to_train_on(capsys, tmp_path, n, said):
    (tmp_path / "few.txt").write_text("".join(f"{chr(97 + i)}x\n" for i in range(n)))
    assert within(main, "--data", tmp_path / "few.txt", *TINY) == 0
    out = capsys.readouterr().out
    assert f"held out       {said}" in out
    assert ("held out loss" in out) == (n == 10)


def test_without_steps_the_samples_are_those_of_an_untrained_model(capsys, cities):
    assert within(main, "--data", cities, *TINY, "--steps", 0) == 0
    out = capsys.readouterr().out
    assert "at first" not in out
    assert out.endswith("of 5 are new\n")


@pytest.mark.parametrize(
    "flags",
    [
        ("--residual", "none"),
        ("--residual", "attn", "--norm", "post"),
        ("--residual", "mlp", "--norm", "none", "--init", "scaled"),
        ("--n-layer", 2, "--init", "fan_in", "--batch-size", 3),
        ("--init", "zero", "--warmup", 5, "--lr", 0.001, "--seed", 7),
        ("--temperature", 0, "--top-k", 3, "--prompt", "ro"),
        ("--temperature", 1e-320, "--top-k", 100),
        ("--ops", "functional"),
    ],
)
def test_every_flag_works(capsys, cities, flags):
    assert within(main, "--data", cities, *TINY, *flags) == 0
    names = capsys.readouterr().out.splitlines()[-6:-1]
    if "--prompt" in flags:
        assert {name[:2] for name in names} == {"ro"}
    if "--temperature" in flags and "--top-k" in flags:
        assert len(set(names)) == 1


def test_help_explains_every_flag(capsys):
    assert within(main, "--help") == 0
    out = capsys.readouterr().out
    assert all(action.help for action in make_parser()._actions)
    assert max(map(len, out.splitlines())) <= 100
    flags = "--data --encoding --val-fraction --n-layer --n-embd --n-head --block-size --residual "
    flags += "--norm --init --steps --batch-size --lr --warmup --seed --ops --samples --prompt "
    flags += "--temperature --top-k --losses --save --save-every --resume"
    assert all(f"  {flag} " in out for flag in flags.split())


# ---- What it cannot use is named in one line.


def complaint(capsys, *args: object, status: int = 2) -> str:
    assert within(main, *args) == status
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize("flag", ["--steps", "--n-layer", "--batch-size", "--seed", "--top-k"])
@pytest.mark.parametrize("text", ["-1", "0.5", "abc", "inf", "nan", "", "1e3"])
def test_a_number_that_is_not_whole_is_refused_with_the_range(capsys, flag, text):
    low = {"--n-layer": 1, "--batch-size": 1}.get(flag, 0)
    expected = f"error: argument {flag}: {text!r} is not a whole number from {low} up\n"
    assert complaint(capsys, f"{flag}={text}") == expected


@pytest.mark.parametrize(
    ("flag", "text", "bounds"),
    [
        ("--lr", "0", "above 0 up"),
        ("--lr", "inf", "above 0 up"),
        ("--lr", "nan", "above 0 up"),
        ("--lr", "fast", "above 0 up"),
        ("--temperature", "-0.1", "from 0 up"),
        ("--temperature", "nan", "from 0 up"),
        ("--val-fraction", "1", "from 0 to below 1"),
        ("--val-fraction", "-0.1", "from 0 to below 1"),
    ],
)
def test_a_number_outside_its_range_is_refused_with_the_range(capsys, flag, text, bounds):
    expected = f"error: argument {flag}: {text!r} is not a finite number {bounds}\n"
    assert complaint(capsys, flag, text) == expected


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--data", "/no/such/file"), "/no/such/file: No such file or directory"),
        (("--data", "/"), "/: Is a directory"),
        (("--resume", "/no/such/file"), "/no/such/file: No such file or directory"),
        (("--save", "/no/such/folder/run.json"), "/no/such/folder/run.json.tmp: No such file"),
        (("--losses", "/no/such/folder/x.csv"), "/no/such/folder/x.csv: No such file"),
        (("--n-embd", 10), "n_embd 10 cannot be shared"),
        (("--prompt", "roXY"), "'XY' is not in the alphabet 'abcilmnoprst'"),
        (("--prompt", "r" * 16), "a prompt of 16 leaves no room in a block of 16"),
        (("--prompt", "ro", "--block-size", 1), "a prompt of 2 leaves no room in a block of 1"),
        (("--encoding", "klingon"), "'klingon' is not an encoding"),
        (("--norm", "batch"), "argument --norm: invalid choice: 'batch'"),
        (("--speed", 9), "unrecognized arguments: --speed 9"),
    ],
)
def test_unusable_flags_are_named(capsys, cities, flags, message):
    assert complaint(capsys, "--data", cities, *flags).startswith(f"error: {message}")


def test_a_file_without_permission_is_named(capsys, cities, monkeypatch):
    def refuse(path: Path) -> bytes:  # as the system does, though not to root
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    said = f"error: {cities}: Permission denied\n"
    assert complaint(capsys, "--data", cities) == said
    assert complaint(capsys, "--resume", cities) == said


def test_a_file_in_another_encoding_is_named_with_the_remedy_which_works(capsys, tmp_path):
    file = tmp_path / "noms.txt"
    file.write_bytes("Zoë\r\nJosé\r\n".encode("cp1252"))
    said = complaint(capsys, "--data", file, *TINY)
    assert said.startswith(f"error: {file}: not utf-8: byte 0xeb at offset 2; ")
    assert "--encoding cp1252" in said
    assert within(main, "--data", file, *TINY, "--encoding", "cp1252") == 0
    assert "alphabet       6: JZosé\u00eb" in capsys.readouterr().out


@pytest.mark.parametrize(
    "flags",
    [
        ("--lr", 1e300),
        ("--lr", 1e155),
        ("--lr", 1e300, "--steps", 1),
        ("--lr", 1e300, "--ops", "functional"),
    ],
)
def test_a_diverged_run_says_where_and_what_to_try_and_keeps_the_last_good_file(
    capsys, cities, tmp_path, flags
):
    file = tmp_path / "run.json"
    said = complaint(capsys, "--data", cities, *TINY, "--save", file, *flags, status=1)
    assert re.search(r" at step [012], learning rate (1|9|9.5)e\+\d+; ", said)
    assert "try a smaller --lr" in said
    assert all(math.isfinite(v.data) for m in load(file).params.values() for r in m for v in r)


@pytest.mark.parametrize("error", [OverflowError, ZeroDivisionError])
def test_an_overflow_inside_the_maths_says_where_and_what_to_try(
    capsys, cities, tmp_path, monkeypatch, error
):
    def overflowing(*args: object, **kwargs: object) -> float:
        raise error("exp(710.0) has no finite real value")

    file = tmp_path / "run.json"
    monkeypatch.setattr(fused, "cross_entropy", overflowing)
    said = complaint(capsys, "--data", cities, *TINY, "--save", file, status=1)
    assert said.startswith(
        "error: exp(710.0) has no finite real value at step 0, learning rate 0.01; "
    )
    assert load(file).losses == []


# ---- Save and resume.


def saved(cities: Path, file: Path, *flags: object, steps: int = 20) -> int:
    return within(main, "--data", cities, *TINY, "--steps", steps, "--save", file, *flags)


def test_a_run_resumed_in_new_processes_equals_one_that_never_stopped(capsys, cities, tmp_path):
    assert saved(cities, tmp_path / "whole.json", "--losses", tmp_path / "whole.csv") == 0
    whole = capsys.readouterr().out
    file = tmp_path / "parts.json"
    parts = ("--data", cities, *TINY, "--samples", 5, "--losses", tmp_path / "parts.csv")
    for stop_after in (7, 13, 20):  # a run of 20 steps that is killed after so many
        program = (
            "import os, sys; from examples import train_names as t; real = t.save\n"
            "def save(path, run):\n"
            f"    real(path, run); len(run.losses) == {stop_after} < 20 and os._exit(9)\n"
            "t.save = save; sys.exit(t.run_main(t.main))"
        )
        resume = ("--resume", file) if file.exists() else ()
        args = [*parts, "--save", file, "--save-every", 1, *resume]
        done = subprocess.run(
            [sys.executable, "-c", program, *map(str, args)],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert done.returncode == (0 if stop_after == 20 else 9), done.stderr
    assert file.read_bytes() == (tmp_path / "whole.json").read_bytes()
    assert (tmp_path / "parts.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert done.stdout.splitlines()[-10:] == whole.splitlines()[-10:]


def test_a_finished_run_resumes_to_the_same_samples(capsys, cities, tmp_path):
    saved(cities, tmp_path / "run.json")
    first = capsys.readouterr().out
    assert within(main, "--data", cities, "--resume", tmp_path / "run.json", "--samples", 5) == 0
    assert capsys.readouterr().out.splitlines()[-8:] == first.splitlines()[-8:]


@pytest.mark.parametrize(
    ("flag", "value", "before"),
    [
        ("--seed", 7, 42),
        ("--steps", 30, 20),
        ("--lr", 0.02, 0.01),
        ("--warmup", 3, 0),
        ("--batch-size", 2, 1),
        ("--val-fraction", 0.2, 0.1),
        ("--ops", "functional", "fused"),
        ("--n-layer", 2, 1),
        ("--n-embd", 8, 4),
        ("--n-head", 1, 2),
        ("--block-size", 8, 16),
        ("--residual", "none", "both"),
        ("--norm", "post", "pre"),
        ("--init", "zero", "plain"),
    ],
)
def test_contradicting_flags_are_named(capsys, cities, tmp_path, flag, value, before):
    saved(cities, tmp_path / "run.json", steps=20)
    capsys.readouterr()
    said = complaint(capsys, "--data", cities, "--resume", tmp_path / "run.json", flag, value)
    assert f"run.json: a run with {flag} {before} cannot go on with {flag} {value}\n" in said


def test_resuming_on_other_data_is_refused(capsys, cities, tmp_path):
    saved(cities, tmp_path / "run.json")
    capsys.readouterr()
    (tmp_path / "towns.txt").write_text(cities.read_text().replace("como", "moco"))
    for data in (("--data", tmp_path / "towns.txt"), ()):
        said = complaint(capsys, "--resume", tmp_path / "run.json", *data)
        assert "run.json: a run on other data than " in said


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("flags", {"lr": 0.1}, "flags must be seed, steps, batch_size, "),
        ("lr", "x", "argument --lr: 'x' is not a finite number above 0 up"),
        ("steps", -1, "argument --steps: '-1' is not a whole number from 0 up"),
        ("norm", "post", "its flags and its config contradict each other"),
        ("norm", "--help", "argument --norm: invalid choice: '--help'"),
        ("version", 2, "version must be 1, not 2"),
    ],
)
def test_an_edited_checkpoint_is_refused(capsys, cities, tmp_path, key, value, message):
    file = tmp_path / "run.json"
    saved(cities, file)
    capsys.readouterr()
    found = json.loads(file.read_text())
    (found if key in found else found["flags"])[key] = value
    file.write_text(json.dumps(found))
    said = complaint(capsys, "--data", cities, "--resume", file)
    assert said.startswith(f"error: {file}: {message}")


# ---- Interruptions.


def interrupted(cities: Path, file: Path, number: int, *flags: object) -> tuple[int, str, str]:
    how = ("--data", cities, *TINY, "--steps", 10**6, *flags)
    with start("train_names.py", *how, "--save", file, "--save-every", 10) as program:
        while not file.exists() or not load(file).losses:
            assert program.poll() is None
            time.sleep(0.02)
        program.send_signal(number)
        out, err = program.communicate(timeout=20)
    return program.returncode, out.decode(), err.decode()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_step_saves_and_says_how_to_resume(cities, tmp_path, number, status):
    file = tmp_path / "a run.json"
    got, out, err = interrupted(
        cities, file, number, "--losses", tmp_path / "x.csv", "--samples", 2
    )
    run = load(file)
    assert got == status
    assert "are new" not in out
    assert len(run.losses) == run.adam.steps == len(losses(tmp_path / "x.csv")) > 0
    assert err == (
        f"stopped after step {len(run.losses)}; to go on: python examples/train_names.py "
        f"--resume '{file}' --data {cities} --samples 2 --losses {tmp_path / 'x.csv'} "
        f"--save '{file}' --save-every 10\n"
    )
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".tmp"] == []


def test_without_save_a_signal_says_that_nothing_is_kept(cities):
    how = ("--data", cities, *TINY, "--steps", 10**6)
    with start("train_names.py", *how) as program:
        program.stdout.readline()
        time.sleep(0.3)
        program.send_signal(signal.SIGINT)
        _, err = program.communicate(timeout=20)
    assert program.returncode == 130
    assert b"without --save FILE.json nothing is kept\n" in err
    assert err.count(b"\n") == 1


def test_a_second_signal_ends_at_once(cities):
    step = ("--n-layer", 8, "--n-embd", 32, "--batch-size", 1000)  # of a minute
    with start("train_names.py", "--data", cities, *step) as program:
        for _ in range(7):
            program.stdout.readline()
        time.sleep(0.5)
        program.send_signal(signal.SIGINT)
        time.sleep(0.2)
        assert program.poll() is None
        program.send_signal(signal.SIGINT)
        out, err = program.communicate(timeout=20)
    assert program.returncode == 130
    assert b"Traceback" not in out + err


@pytest.mark.slow
@pytest.mark.parametrize("after", [0.02 * i for i in range(10, 60)])
def test_ctrl_c_at_any_moment_leaves_no_traceback(cities, tmp_path, after):
    how = ("--data", cities, *TINY, "--steps", 500, "--save", tmp_path / "run.json")
    with start("train_names.py", *how) as program:
        time.sleep(after)
        program.send_signal(signal.SIGINT)
        _, err = program.communicate(timeout=20)
    assert program.returncode in (0, 130, -signal.SIGINT)  # the last while Python starts
    if program.returncode != -signal.SIGINT:
        assert b"Traceback" not in err


# ---- Terminals.


def output(cities: Path, *flags: object, **env: str) -> str:
    how = command("train_names.py", "--data", cities, *TINY, *flags)
    done = subprocess.run(how, env=environment(**env), capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode(env.get("PYTHONIOENCODING", "utf-8"))


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8", "cp437"])
def test_what_the_terminal_cannot_show_is_escaped(tmp_path, encoding):
    names = ["김민준", "สมชาย", "Łucja", "👩‍🚀", "Zoë"]
    (tmp_path / "names.txt").write_text("\n".join(names), encoding="utf-8")
    out = output(tmp_path / "names.txt", PYTHONIOENCODING=encoding, LC_ALL="C")
    assert ("김" in out) == (encoding == "utf-8")
    assert ("\\uae40" in out) == (encoding != "utf-8")
    assert ("Zoë" in out) or "ë" in out or encoding == "ascii"
    assert ("●" in out) == (encoding == "utf-8")
    assert ("*" in out) == (encoding != "utf-8")
    assert not (encoding != "utf-8" and set(out) & set(map(chr, TO_ASCII)))


def test_names_cannot_move_the_cursor(tmp_path):
    (tmp_path / "names.txt").write_text("a\x1b[2Jb\nc\x07d\x85e\n", encoding="utf-8")
    out = output(tmp_path / "names.txt", PYTHONIOENCODING="utf-8")
    assert not {"\x1b", "\x07", "\x85"} & set(out)
    assert "\\x1b" in out


@pytest.mark.parametrize("columns", [40, 57, 80, 200])
def test_it_fits_the_terminal(cities, columns):
    out = output(cities, COLUMNS=str(columns), PYTHONIOENCODING="utf-8")
    assert max(map(len, out.splitlines())) <= columns


def test_hash_seed_and_locale_change_nothing(cities):
    texts = [
        output(cities, PYTHONIOENCODING="utf-8", PYTHONHASHSEED=seed, LC_ALL=locale)
        for seed, locale in (("0", "C"), ("1", "C.UTF-8"), ("2", "POSIX"))
    ]
    rows = [[line for line in text.splitlines() if " left" not in line] for text in texts]
    assert rows[0] == rows[1] == rows[2]


@pytest.mark.parametrize("flags", [("--help",), ("--steps", 300)])
def test_a_pipe_that_closes_early_leaves_no_traceback(cities, flags):
    with start("train_names.py", "--data", cities, *TINY, *flags) as program:
        program.stdout.readline()
        program.stdout.close()
        assert program.stderr.read() == b""
    assert program.returncode in (0, 141)


def test_a_full_disk_behind_the_output_is_named(cities):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full")
    with open("/dev/full", "w") as full:
        how = command("train_names.py", "--data", cities, *TINY)
        done = subprocess.run(how, env=environment(), stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert b"No space left on device\n" in done.stderr
    assert b"Traceback" not in done.stderr


def test_output_to_a_file_is_sparse(cities):
    lines = output(cities, "--steps", 200).splitlines()
    assert sum(line.startswith("step ") for line in lines) == 10


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_on_a_terminal_one_line_renews_itself(cities):
    import pty

    own, theirs = pty.openpty()
    how = command("train_names.py", "--data", cities, *TINY, "--steps", 300)
    env = environment(COLUMNS="50", PYTHONIOENCODING="utf-8", TERM="xterm")
    with subprocess.Popen(how, stdout=theirs, stderr=theirs, env=env) as program:
        os.close(theirs)
        out = b""
        try:
            while more := os.read(own, 10_000):
                out += more
        except OSError:  # how Linux says that the other end is closed
            pass
        os.close(own)
    assert program.returncode == 0
    renewed = [
        part for line in out.decode().split("\n") for part in line.split("\r") if " left" in part
    ]
    assert len(renewed) > 1
    assert {len(part) for part in renewed} == {49}
    assert out.decode().count("\x1b") == 0  # NO_COLOR or not: there is none


# ---- From a fresh clone.


@pytest.mark.parametrize(
    "how", [("-m", "examples.train_names", "--data", "CITIES"), ("examples/train_names.py",)]
)
def test_it_runs_from_a_clone_with_nothing_installed(cities, how):
    how = [str(cities) if word == "CITIES" else word for word in how]
    alone = [sys.executable, "-S", "-W", "error"]  # -S: no site-packages
    done = subprocess.run(
        [*alone, *how, "--steps", "2", "--samples", "1"],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert (b"29,910" in done.stdout) == (len(how) == 1)


@pytest.mark.slow
def test_a_million_lines_start_in_seconds(tmp_path):
    rng = random.Random(1)
    lines = ("".join(rng.choices("abcdefghij", k=rng.randint(6, 20))) for _ in range(1_000_000))
    (tmp_path / "many.txt").write_text("\n".join(lines))
    before = time.monotonic()
    out = output(tmp_path / "many.txt", "--samples", 1)
    assert "1,000,000" in out
    assert time.monotonic() - before < 30


def test_the_names_file_is_clean():
    documents = read_documents(ROOT / "examples" / "names.txt")
    assert len(documents) == len(set(documents)) == 29_910
    assert set("".join(documents)) == set("abcdefghijklmnopqrstuvwxyz")


def test_a_resumed_run_is_saved_where_it_came_from(capsys, cities, tmp_path):
    file = tmp_path / "run.json"
    saved(cities, file, steps=4)
    run = load(file)
    cut = dataclasses.replace(run, losses=run.losses[:2])
    cut.adam.steps = 2
    save(file, cut)
    capsys.readouterr()
    assert within(main, "--data", cities, "--resume", file) == 0
    assert "resumed        after step 2\n" in capsys.readouterr().out
    assert len(load(file).losses) == 4


@pytest.mark.parametrize(
    ("text", "shown"),
    [("abcdef", "abcdef"), ("abcdefg", "abc..."), ("北京", "北京"), ("北京上海", "北...")],
)
def test_what_is_too_wide_is_clipped(text, shown):
    assert clipped(text, 6) == shown
