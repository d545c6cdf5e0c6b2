"""The experiments that measure inside a network run, and their words follow the numbers."""

import math
import subprocess
from xml.etree import ElementTree

import pytest
from programs import command, environment

from examples import exploding, gradient_flow, lab, lesion, one_plus
from examples.lab import Stat
from micrograd_res.plot import svg_lines

EXPERIMENTS = [exploding, gradient_flow, lesion, one_plus]


def serial(work, jobs, units=0):
    return [work(job) for job in jobs]


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_a_quick_run_prints_80_columns_and_writes_a_figure(
    experiment, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(lab, "run_all", serial)
    out = tmp_path / "figure.svg"
    assert experiment.main(["--quick", "--seeds", "1", "--out", str(out)]) == 0
    ElementTree.fromstring(out.read_bytes())
    printed = capsys.readouterr().out.replace(str(out), "")
    assert max(map(len, printed.splitlines())) <= 80


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_in_processes_and_in_ascii(experiment):
    name = experiment.__name__.rpartition(".")[2] + ".py"
    run = subprocess.run(
        command(name, "--quick", "--seeds", "1"),
        env=environment(PYTHONIOENCODING="ascii"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout
    assert "Traceback" not in run.stderr


# ---- one_plus.py


def paths_of_this_run():
    return {name: one_plus.slopes(name, 2.0) for name in one_plus.F_OF_X}


def test_the_paths_of_one_plus_are_measured_one_by_one():
    assert one_plus.slopes("0 x", 2.0) == (0.0, 1.0, 1.0)
    assert one_plus.slopes("-1 x", 2.0) == (-1.0, 1.0, 0.0)
    assert one_plus.slopes("0.1 x", 2.0) == pytest.approx((0.1, 1.0, 1.1))
    assert one_plus.nudged("-0.9 x", 2.0) == pytest.approx(0.1)
    assert one_plus.slope_of_many("0.1 x", 2.0, skip=True) == pytest.approx(1.1**20)
    assert one_plus.slope_of_many("0.1 x", 2.0, skip=False) == pytest.approx(0.1**20)


def test_one_plus_says_summed_only_if_the_numbers_are():
    many = {"f": [1.0, 1.0]}
    assert "are summed" in one_plus.verdict({"f": (0.5, 1.0, 1.5)}, many)
    averaged = one_plus.verdict({"f": (0.5, 1.0, 0.75)}, many)
    assert "are summed" not in averaged
    assert "do NOT add up" in averaged


def test_one_plus_speaks_of_a_slope_below_1_only_if_there_is_one():
    many = {"f": [1.0, 1.0]}
    assert "no promise" in one_plus.verdict({"f": (-1.0, 1.0, 0.0)}, many)
    assert "no promise" not in one_plus.verdict({"f": (0.5, 1.0, 1.5)}, many)


def test_one_plus_says_where_the_skip_helped_and_where_not():
    helped, hurt = [1e-20, 6.7], [0.1, 1e-20]
    text = one_plus.verdict({"a": (0.0, 1.0, 1.0)}, {"a": helped, "b": hurt})
    assert " closer to a slope of 1: F(x) = a." in text.replace("no closer", "")
    assert "no closer to a slope of 1: F(x) = b." in text
    nothing = one_plus.verdict({"a": (0.0, 1.0, 1.0)}, {"a": hurt})
    assert "steps closer to a slope of 1: F(x) = none." in nothing


# ---- gradient_flow.py


@pytest.mark.parametrize(
    ("rows", "word"),
    [
        ([[1e-9, 1e-3, 1.0], [1e-12, 1e-3, 1.0]], "vanishes"),
        ([[0.0, 0.0, 1.0]], "vanishes"),
        ([[1e9, 1e3, 1.0]], "explodes"),
        ([[0.01, 0.1, 1.0], [2.0, 1.0, 1.0]], "arrives"),
        ([[0.01, 0.1, 1.0], [1e-9, 1.0, 1.0]], "differs by seed"),
    ],
)
def test_a_gradient_vanishes_explodes_or_arrives(rows, word):
    assert gradient_flow.arrival(rows) == word


def test_gradient_flow_names_the_curves_that_a_word_is_true_of():
    flat, falling = [[1.0, 1.0]], [[1e-9, 1.0]]
    title = gradient_flow.gradients({"with skips": flat, "no skips": falling}, "Now")[1].title
    assert title.endswith("arrives (with skips), vanishes (no skips)")
    title = gradient_flow.gradients({"with skips": falling, "no skips": flat}, "Now")[1].title
    assert title.endswith("vanishes (with skips), arrives (no skips)")


def test_a_gradient_of_zero_is_drawn_at_the_floor_and_labelled():
    _, figure = gradient_flow.gradients({"no skips": [[0.0, 1e-300, 1e-100, 1.0]]}, "Now")
    assert ">0</text>" in svg_lines(figure)
    assert ">1e-300</text>" in svg_lines(figure)


def test_gradient_flow_says_alike_and_too_small_of_what_is():
    low, high = [[0.0, 0.1]], [[0.0, 1.0]]
    title = gradient_flow.positions({"with skips": high, "no skips": low}, "Now")[1].title
    assert title.endswith("alike (with skips), different (no skips)")
    small = [[1e-3, 1e-12]]
    title = gradient_flow.queries({"with skips": small, "no skips": high}, "Now")[1].title
    assert title.endswith("too small for Adam (with skips), enough for Adam (no skips)")


def test_a_flow_is_a_median_in_a_band_of_all_seeds():
    line = gradient_flow.line("no skips", [[1.0, 4.0], [3.0, 4.0], [9.0, 4.0]])
    assert (line.y, line.band) == ([3.0, 4.0], [(1.0, 9.0), (4.0, 4.0)])


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_seed_that_diverged_is_called_so_and_leaves_a_gap(bad):
    rows = [[1.0, bad], [1.0, 2.0], [1.0, 2.0]]
    assert gradient_flow.arrival(rows) == "differs by seed"
    assert gradient_flow.likeness([[1.0, bad]]) == "diverged"
    line = gradient_flow.line("no skips", rows)
    assert line.y[0] == 1.0
    assert math.isnan(line.y[1])
    assert all(map(math.isnan, line.band[1]))


# ---- exploding.py


def growth(skips, plain, n=3):
    """Towers whose log10 growth goes from -x to x with the gain."""

    def stats(low, high):
        step = (high - low) / (len(exploding.GAINS) - 1)
        return [Stat(low + step * i, 0.1, n) for i in range(len(exploding.GAINS))]

    return {kind: stats(*(plain if kind == "no skips" else skips)) for kind in exploding.KINDS}


@pytest.mark.parametrize(
    ("skips", "plain", "verdict"),
    [
        ((0, 9), (-9, 9), "Skips alone stop the vanishing and do not stop the explosion"),
        ((-9, 0), (-9, 9), "Skips alone do not stop the vanishing and stop the explosion"),
        ((-9, 9), (-9, 9), "Skips alone do not stop the vanishing and do not stop the explosion"),
        ((0, 9), (-9, 0), "Skips alone stop the vanishing and cause the explosion"),
        ((0, 0.5), (0, 0.5), "Nothing vanishes or explodes here"),
    ],
)
def test_exploding_says_what_skips_stop_and_what_not(skips, plain, verdict):
    assert exploding.verdict(growth(skips, plain)) == verdict


def test_exploding_has_no_verdict_from_one_seed():
    assert exploding.verdict(growth((0, 9), (-9, 9), n=1)) == "No verdict from one seed"


def test_a_gradient_explodes_only_beyond_the_spread():
    noise = [Stat(1.5, 1.0, 3)] * len(exploding.GAINS)
    assert exploding.gains_where(noise, 1) == "none"


# ---- lesion.py


def test_an_exploding_curve_is_a_geometric_mean_in_a_band_of_all_seeds():
    curve = exploding.curve("no skips", [Stat.of([1.0, 2.0, 3.0])])
    assert (curve.y, curve.band) == ([100.0], [(10.0, 1000.0)])


def test_lesion_counts_the_cases_in_which_skips_helped():
    small, large = [[0.1, 0.1], [0.1, 0.1]], [[0.5, 0.05], [0.6, 0.7]]
    assert "less with skips in 3 of 4 cases" in lesion.one_removed(small, large)[1].title
    assert "less with skips in 1 of 4 cases" in lesion.one_removed(large, small)[1].title
    assert "less with skips in 0 of 4 cases" in lesion.one_removed(small, small)[1].title


def test_lesion_measures_rises_from_the_whole_net():
    runs = [lesion.Losses(2.0, [2.5, 1.5], [2.0, 1.5, 3.0])]
    assert lesion.rises(runs) == [[0.5, -0.5]]
    stats, figure = lesion.last_removed({"with skips": runs, "no skips": runs}, 2.8)
    assert "from 2.00 to 1.50 without 1 of 2, to 3.00 with only" in figure.title
    assert lesion.table(stats, figure).splitlines()[1] == "0             2.000     2.000"
