"""The experiments run, and their words follow the numbers, whichever way these point."""

import math
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from examples import (
    degradation,
    exploding,
    gradient_flow,
    identity,
    lab,
    lesion,
    norm_placement,
    one_plus,
    thousand_layers,
    which_plus,
)
from examples.lab import Stat

EXPERIMENTS = [degradation, identity, norm_placement, thousand_layers, which_plus]
ROOT = Path(lab.__file__).parent.parent


def stats(*means: float, std: float = 0.01, n: int = 3) -> list[Stat]:
    return [Stat(mean, std, n) for mean in means]


# ---- lab.py


def square(number: int) -> int:
    lab.tick(5)
    if number == 13:
        raise ValueError("unlucky")
    return number * number


def test_run_all_gives_results_in_the_order_of_the_jobs(capsys):
    assert lab.run_all(square, range(6), 30) == [0, 1, 4, 9, 16, 25]
    assert "6 of 6 runs, 100%" in capsys.readouterr().err


def test_an_error_in_a_job_comes_through_and_leaves_no_worker_behind():
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(ValueError, match="unlucky"):
        lab.run_all(square, [1, 13])
    assert not multiprocessing.active_children()
    assert signal.getsignal(signal.SIGINT) is handler


def test_stat_is_mean_and_standard_deviation_of_the_sample():
    assert Stat.of([1.0, 2.0, 3.0]) == (2.0, 1.0, 3, 1.0, 3.0)
    assert Stat.of([2.0]) == (2.0, 0.0, 1, 2.0, 2.0)
    assert str(Stat(2.0, 0.125, 3)) == "2.00 ± 0.12"
    assert str(Stat(2.0, 0.0, 1)) == "2.00"
    assert Stat(0.0625, 0.125, 3).text(".1g") == "0.06 ± 0.1"


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [
        (Stat(2.0, 0.1, 3), Stat(2.5, 0.1, 3), "2.00 -> 2.50: up, far outside the spread"),
        (Stat(2.5, 0.1, 3), Stat(2.0, 0.1, 3), "2.50 -> 2.00: down, far outside the spread"),
        (Stat(2.0, 0.1, 3), Stat(2.3, 0.1, 3), "2.00 -> 2.30: no difference seen"),
        (Stat(2.0, 0.0, 3), Stat(2.0, 0.0, 3), "2.00 -> 2.00: no difference seen"),
        (Stat(2.0, 0.0, 1), Stat(9.0, 0.0, 1), "2.00 -> 9.00: no verdict from one seed"),
        (Stat(2.0, 0.1, 3), Stat(math.inf, 0.0, 3), "2.00 -> inf: no verdict: a run diverged"),
        (Stat(2.0, 0.1, 3), Stat(math.nan, 0.0, 3), "2.00 -> nan: no verdict: a run diverged"),
    ],
)
def test_a_difference_is_claimed_only_far_outside_the_spread(a, b, text):
    assert lab.compare(a, b, "down", "up") == text


def test_differences_within_seeds_are_judged_by_their_own_spread():
    assert lab.change(Stat(-0.3, 0.05, 3), "down", "up") == "-0.30 ± 0.05: down"
    assert lab.change(Stat(0.3, 0.05, 3), "down", "up") == "+0.30 ± 0.05: up"
    assert lab.change(Stat(0.3, 0.1, 3), "down", "up") == "+0.30 ± 0.10: no difference seen"
    assert lab.change(Stat(0.3, 0.0, 1), "down", "up") == "+0.30: no verdict from one seed"


def test_a_title_says_rises_or_falls_only_if_there_is_a_difference():
    low, high, one = Stat(1.0, 0.1, 3), Stat(2.0, 0.1, 3), Stat(2.0, 0.0, 1)
    assert lab.trend(low, high) == "rises from 1.00 to 2.00"
    assert lab.trend(high, low) == "falls from 2.00 to 1.00"
    assert lab.trend(low, low._replace(mean=1.1)) == "goes from 1.00 to 1.10"
    assert lab.trend(low, low) == "stays at 1.00"
    assert lab.trend(low, one) == "goes from 1.00 to 2.00"


def test_letter_frequencies_have_the_loss_worked_out_by_hand():
    # Targets: a b 2, a b 2. Three tokens, equally frequent.
    assert lab.letter_frequencies([[2, 0, 1, 2], [2, 0, 1, 2]]) == pytest.approx(math.log(3))


def test_letter_frequencies_are_judged_name_by_name_on_names_held_out():
    # Targets: a a 2, a 2. Three of five are a (0), two end a name. Of 'a' the mean counts as much
    # as that of 'aaa', though it has fewer letters.
    seen, held_out = [[2, 0, 0, 2], [2, 0, 2]], [[2, 0, 2], [2, 0, 0, 0, 2]]
    a, end = math.log(5 / 3), math.log(5 / 2)
    expected = ((a + end) / 2 + (3 * a + end) / 4) / 2
    assert lab.letter_frequencies(seen, held_out) == pytest.approx(expected)


def test_a_running_mean_stands_at_the_last_of_its_steps_with_the_spread_over_seeds():
    line = lab.running_mean("both", [[1.0, 3.0, 5.0], [3.0, 5.0, 7.0]], 2)
    assert (list(line.x), line.y) == ([2, 3], [3.0, 5.0])
    assert line.band == [(2.0, 4.0), (4.0, 6.0)]


def test_names_are_shuffled_by_the_seed_alone():
    documents, tokenizer = lab.names(1)
    assert tokenizer.vocab_size == 27
    assert sorted(documents) == sorted(lab.names(2)[0])
    assert documents[:50] != lab.names(2)[0][:50]


def test_columns_of_a_table_stand_below_each_other():
    assert lab.table([["loss", 1, 10], ["both", "1.5", "2"]]) == "loss    1  10\nboth  1.5   2"


# ---- The experiments


def serial(work, jobs, units=0):
    return [work(job) for job in jobs]


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_a_quick_run_prints_and_writes_a_figure(experiment, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(lab, "run_all", serial)
    out = tmp_path / "figure.svg"
    assert experiment.main(["--quick", "--seeds", "1", "--out", str(out)]) == 0
    ElementTree.fromstring(out.read_bytes())
    printed = capsys.readouterr().out
    assert "1 seed" in printed
    assert max(map(len, printed.replace(str(out), "").splitlines())) <= 80


def test_all_names_can_be_learned_with_held_out_names_beside(monkeypatch, capsys):
    monkeypatch.setattr(lab, "run_all", serial)
    monkeypatch.setattr(degradation, "HELD_OUT", 5)
    assert degradation.main(["--quick", "--seeds", "1", "--names"]) == 0
    assert "no skips, tuned (held out)" in capsys.readouterr().out


@pytest.mark.parametrize("experiment", [*EXPERIMENTS, exploding, gradient_flow, lesion, one_plus])
@pytest.mark.parametrize("flags", [["--seeds", "0"], ["--nope"], ["--out", "no/such/x.svg"]])
def test_a_flag_that_cannot_be_used_is_one_line_and_status_2(experiment, flags, capsys):
    assert lab.start(lambda: experiment.main(flags)) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_in_processes_and_in_ascii(experiment):
    command = [sys.executable, "-W", "error", experiment.__file__, "--quick"]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "+-" in run.stdout
    assert "100%" in run.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_ctrl_c_is_one_line_and_leaves_no_worker_behind():
    program = ROOT / "examples" / "thousand_layers.py"
    command = [sys.executable, "-u", program, "--layers", "100", "--out", os.devnull]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    ) as run:
        run.stdout.readline()
        time.sleep(1.0)
        os.killpg(run.pid, signal.SIGINT)
        said = run.communicate(timeout=20)[1]  # ends when no worker holds the pipe any more
    assert run.returncode == 130
    assert said.splitlines()[-1] == "stopped"
    assert "Traceback" not in said


def depth_curves(skips: list[Stat], plain: list[Stat]) -> degradation.Curves:
    return {"with skips": skips, "no skips": plain, "no skips, tuned": plain}


def test_degradation_says_what_the_numbers_say_in_both_directions():
    expected = depth_curves(stats(1.4, 1.1), stats(2.0, 2.8))
    assert [line.partition(": ")[2] for line in degradation.verdicts([1, 6], expected)[:2]] == [
        "1.40 -> 1.10: deeper helped, far outside the spread",
        "2.00 -> 2.80: deeper hurt, far outside the spread",
    ]
    title = degradation.figure([1, 6], expected, {}, 2.8).title
    assert "falls from 1.40 to 1.10 with skips and rises from 2.00 to 2.80 without" in title

    opposite = depth_curves(stats(1.1, 1.4), stats(2.8, 2.0))
    assert "deeper hurt" in degradation.verdicts([1, 6], opposite)[0]
    assert "deeper helped" in degradation.verdicts([1, 6], opposite)[1]
    title = degradation.figure([1, 6], opposite, {}, 2.8).title
    assert "rises from 1.10 to 1.40 with skips and falls from 2.80 to 2.00 without" in title

    noise = depth_curves(stats(1.1, 1.4, std=0.5), stats(2.0, 2.8, std=0.5))
    assert all("no difference seen" in line for line in degradation.verdicts([1, 6], noise))
    assert "goes from 1.10 to 1.40" in degradation.figure([1, 6], noise, {}, 2.8).title


def test_which_plus_says_what_the_numbers_say_in_both_directions():
    jobs = [which_plus.Job(kind, 1, seed, 1, 1) for kind in which_plus.KINDS for seed in range(3)]

    def gains(both: list[float], neither: list[float]) -> which_plus.Losses:
        return which_plus.gains(jobs, [*both, *neither, *neither, *neither])

    # Seeds differ by more than kinds do, but in all kinds alike.
    good, bad = [2.0, 2.3, 2.6], [2.3, 2.61, 2.9]
    helped, hurt, none = gains(good, bad), gains(bad, good), gains(good, good[::-1])
    assert which_plus.verdicts([1], helped)[0] == "layers 1, both: +0.30 ± 0.01: helped"
    assert which_plus.verdicts([1], hurt)[0] == "layers 1, both: -0.30 ± 0.01: hurt"
    assert which_plus.verdicts([1], none)[0].endswith(": no difference seen")
    assert "by 0.30 ± 0.01 nats (both)" in which_plus.title([1], helped)
    assert "by -0.30 ± 0.01 nats (both)" in which_plus.title([1], hurt)
    assert [bar.value for bar in which_plus.bars([1], helped)] == pytest.approx(
        [0.3, 0, 0], abs=0.01
    )


def test_norm_placement_says_what_the_numbers_say_in_both_directions():
    kinds = norm_placement.KINDS
    jobs = [norm_placement.Job(kind, 8, seed, 1, 1) for kind in kinds for seed in range(3)]

    def words(skips: float, no_skips: float) -> list[str]:
        loss = {job: job.seed + (skips if job.kind.skips else no_skips) for job in jobs}
        lines = norm_placement.verdicts(norm_placement.PAIRS, loss)
        return [line.rpartition(": ")[2] for line in lines]

    assert words(2.3, 2.6) == ["better"] * 3 + ["no difference seen"] * 2
    assert words(2.6, 2.3) == ["worse"] * 3 + ["no difference seen"] * 2
    assert words(2.3, 2.3) == ["no difference seen"] * 5

    deep = [
        norm_placement.Job(kind, 12, seed, 1, 1) for kind in norm_placement.DEEP for seed in (0, 1)
    ]
    loss = dict(zip(deep, [2.4, 2.5, 2.8, 2.9, 2.6, 2.7]))
    assert norm_placement.verdicts(norm_placement.DEEP_PAIRS, loss, norm_placement.with_rate) == [
        "pre-norm, lr 0.02 -> post-norm, lr 0.02: +0.40 ± 0.00: worse",
        "post-norm, lr 0.02 -> post-norm, lr 0.003: -0.20 ± 0.00: better",
    ]


def test_thousand_layers_says_what_the_numbers_say_in_both_directions():
    title = ""

    def words(skips: list[float], others: list[float]) -> list[str]:
        # Seeds differ by more than kinds do, but in all kinds alike.
        losses = {"with skips": skips, "with skips, one rate for all": others, "no skips": others}
        runs = {
            kind: [
                thousand_layers.Run([loss] * 30, loss + shift, 2.8 + shift)
                for loss, shift in zip(of_seeds, (0.0, 1.0, 2.0))
            ]
            for kind, of_seeds in losses.items()
        }
        nonlocal title
        title = thousand_layers.figure(1000, runs, 2.8).title
        return [line.rpartition(": ")[2] for line in thousand_layers.verdicts(runs)]

    low, high = [2.4, 2.41, 2.39], [3.0, 3.01, 3.02]
    assert words(low, high) == ["better", "worse", "worse", "worse", "worse"]
    assert "-0.40 ± 0.01 with skips, +0.21 ± 0.01 without" in title
    assert words(high, low) == ["worse", "better", "better", "better", "better"]
    assert "+0.21 ± 0.01 with skips, -0.40 ± 0.01 without" in title
    assert words([2.8, 2.9, 2.7], [2.9, 2.7, 2.8]) == ["no difference seen"] * 5


def test_identity_says_what_the_numbers_say_in_both_directions(capsys):
    kinds = ("with skips", "no skips", "with skips, zero start")
    rising = {kind: stats(2.3, 2.4, 2.5, 3.3) for kind in kinds}
    figure = identity.report_appended(rising, dict.fromkeys(kinds, True))
    printed = capsys.readouterr().out
    assert "with skips, zero start: 2.30 -> 3.30: they hurt, far outside the spread" in printed
    assert "not one bit of a logit changed: in none of them" in printed
    assert "rises from 2.30 to 3.30 with skips and a zero start" in figure.title

    level = {kind: stats(2.3, 2.3, 2.3, 2.3) for kind in kinds}
    figure = identity.report_appended(level, dict.fromkeys(kinds, False))
    assert f"not one bit of a logit changed: {'; '.join(kinds)}" in capsys.readouterr().out
    assert "stays at 2.30 without skips" in figure.title

    errors = {kind: stats(0.5, 1e-6, std=0.0) for kind in identity.KINDS}
    title = identity.report_towers([1, 8], errors).title
    assert "falls from 0.5 to 1e-06 without skips" in title
    assert "it is NOT 0 throughout" in title
    zeros = errors | {"with skips, zero start": stats(0.0, 0.0, std=0.0)}
    assert "it is exactly 0" in identity.report_towers([1, 8], zeros).title
