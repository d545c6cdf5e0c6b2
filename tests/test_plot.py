import io
import math
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest

from micrograd_res.plot import (
    MARKS,
    Bar,
    Figure,
    Line,
    can_show,
    svg_bars,
    svg_lines,
    svg_panels,
    text_bars,
    text_lines,
)

LAYERS = [1, 2, 3, 4, 6]
SCISSORS = Figure(
    "Deeper helps with the skip and hurts without it, on the very data it was trained on; 5 seeds",
    "layers",
    "loss (nats per token)",
    [
        Line("residual", LAYERS, [1.4, 1.3, 1.2, 1.2, 1.1], [(1.1, 1.4)] * 5),
        Line("plain", LAYERS, [2.0, 2.5, 2.6, 2.8, 2.8], [(2.0, 2.8)] * 5),
        Line("plain, tuned for fairness (fan-in, lr .003)", LAYERS, [1.9, 2.1, 2.4, 2.5, 2.7]),
    ],
    references=[("uniform 3.296", 3.296), ("letter frequencies 2.82", 2.82)],
)
BARS = [
    Bar(name, value, 0.04, f"{layers} layers")
    for layers in (1, 2)
    for name, value in (("both", 0.38), ("a label that goes on & on", -0.12), ("<none>", 0.6))
]


def figure(*lines: Line, **changes: object) -> Figure:
    return replace(Figure("title", "x", "y", lines), **changes)


def one(y: list[float], **changes: object) -> Figure:
    return figure(Line("one", range(len(y)), y), **changes)


def texts(svg: str) -> list[tuple[float, float, float, str]]:
    """(left, right, baseline, text) in px of all text; a character is 0.602 of the font size."""
    found = []
    for node in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"):
        text = node.text or ""
        width = 0.602 * float(node.get("font-size", 12)) * len(text)
        shift = {"start": 0.0, "middle": width / 2, "end": width}[node.get("text-anchor", "start")]
        left = float(node.attrib["x"]) - shift
        found.append((left, left + width, float(node.attrib["y"]), text))
    return found


PICTURES = {
    "lines": svg_lines(SCISSORS),
    "log axes with zeros": svg_lines(one([0, 1e-30, 1e-5, 2], log_y=True, log_x=True)),
    "many lines": svg_lines(figure(*(Line(f"line {i}", [1, 2], [i, 5]) for i in range(28)))),
    "long words": svg_lines(figure(Line("w" * 300, [1], [1]), title="t" * 300, x_label="x" * 300)),
    "panels": svg_panels("Both", [SCISSORS, one([1, 2])]),
    "bars": svg_bars("Bars", BARS, "nats per token"),
}


@pytest.mark.parametrize("svg", PICTURES.values(), ids=PICTURES.keys())
def test_an_svg_is_valid_standalone_without_script_and_clips_no_text(svg: str) -> None:
    root = ElementTree.fromstring(svg)
    assert root[1].attrib == {"width": "100%", "height": "100%", "rx": "6", "fill": "#ffffff"}
    assert not [word for word in ("script", "href", "nan", "inf") if word in svg]
    for left, right, baseline, text in texts(svg):
        assert 0 <= left < right <= float(root.attrib["width"]), text
        assert 12 <= baseline <= float(root.attrib["height"]) - 4, text


@pytest.mark.parametrize("svg", PICTURES.values(), ids=PICTURES.keys())
def test_no_two_texts_of_an_svg_overlap(svg: str) -> None:
    found = texts(svg)
    for i, (left, right, baseline, text) in enumerate(found):
        for other_left, other_right, other_baseline, other in found[:i]:
            apart = right <= other_left or other_right <= left
            assert apart or abs(baseline - other_baseline) >= 12, (text, other)


@pytest.mark.parametrize("width", [40, 57, 80, 120])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_text_keeps_to_its_width_and_to_ascii(width: int, ascii_only: bool) -> None:
    drawn = text_lines(SCISSORS, width, ascii_only=ascii_only)
    drawn += text_lines(one([0, 1e-300, 1e300 / 2], log_y=True), width, ascii_only=ascii_only)
    drawn += text_bars("Bars ±" * 30, BARS, "nats", width, ascii_only)
    assert max(map(len, drawn.splitlines())) <= width
    assert drawn.isascii() == ascii_only


@pytest.mark.parametrize("draw", [text_lines, svg_lines])
def test_title_axis_names_labels_and_references_are_all_there_in_full(draw) -> None:
    words = " ".join(draw(SCISSORS).split())
    for part in (SCISSORS.x_label, SCISSORS.y_label, "residual", "uniform 3.296", "2.82", ".003)"):
        assert part in words
    assert all(word in words for word in SCISSORS.title.split())


def test_a_small_text_plot_is_what_it_should_be_to_the_letter() -> None:
    drawn = text_lines(one([0, 1, 2], title="It rises", x_label="step"), 40, 5, ascii_only=True)
    assert drawn == (
        "It rises\n"
        "\n"
        "y\n"
        "2 +                           ...* * one\n"
        "  |                   ........\n"
        "1 +            ...*...\n"
        "  |    ........\n"
        "0 +*...\n"
        "  ++--------------+--------------+\n"
        "   0              1              2\n"
        "                 step\n"
    )


def test_a_band_reaches_from_its_lowest_to_its_highest_value_on_a_log_axis_too() -> None:
    def column(line: Line, log_y: bool) -> list[str]:
        rows = text_lines(figure(line, log_y=log_y), 40, 5, ascii_only=True).splitlines()
        return [row[row.index("|" if "|" in row else "+") + 1] for row in rows[3:8]]

    assert column(Line("a", [0, 1], [1, 0], [(0, 4), (0, 0)]), False) == [":", ":", ":", "*", ":"]
    assert column(Line("a", [0, 1], [1, 1], [(1, 100), (1, 1)]), True) == [":", ":", ":", ":", "*"]
    assert column(Line("a", [0, 1], [1, 4], [(math.nan, 4), (0, 0)]), False)[2:] == [" ", "*", " "]


def test_an_svg_band_goes_along_its_upper_edge_and_back_along_its_lower() -> None:
    svg = svg_lines(figure(Line("a", [0, 1], [2, 2], [(0, 3), (1, 4)])))
    band = next(node for node in ElementTree.fromstring(svg).iter() if node.get("fill-opacity"))
    heights = [float(point.split()[1]) for point in band.attrib["d"][1:-1].split("L")]
    bottom, top = heights[3], heights[1]  # of 0 and of 4
    assert heights == pytest.approx([bottom + (top - bottom) * y / 4 for y in (3, 4, 1, 0)])


def test_curves_that_coincide_take_turns_by_pairs() -> None:
    x, low, high = range(10), [i % 2 for i in range(10)], [5 + i % 2 for i in range(10)]
    lines = [Line("a", x, low), Line("b", x, low), Line("c", x, high), Line("d", x, high)]
    drawn = text_lines(figure(*lines))
    assert [drawn.count(mark) for mark in "●○■□"] == [5 + 1] * 4  # and one at the label


def test_a_thousand_points_become_a_mean_in_every_column() -> None:
    noisy = one([2 + (-1) ** i for i in range(1000)], references=[("low", 0), ("high", 5)])
    marked = [row for row in text_lines(noisy, 80).splitlines() if row.count("●") > 20]
    assert len(marked) == 1  # the noise of +-1 has cancelled out
    assert len(svg_lines(noisy)) < 8000


@pytest.mark.parametrize("draw", [text_lines, svg_lines])
def test_zeros_on_a_log_axis_stand_at_a_floor_labelled_0(draw) -> None:
    def labelled_0(y: list[float]) -> bool:
        drawn = draw(one(y, log_y=True, x_label="", title=""))
        if draw is svg_lines:
            return any(text == "0" and right < 70 for _, right, y, text in texts(drawn) if y < 350)
        return any(row.split()[:1] == ["0"] and "┤" in row for row in drawn.splitlines())

    assert labelled_0([0, 1e-3, 1])
    assert labelled_0([0, 0])
    assert not labelled_0([1e-3, 1])


@pytest.mark.parametrize("draw", [text_lines, svg_lines])
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (figure(), "nothing to draw"),
        (figure(Line("a", [], [])), "nothing to draw"),
        (one([math.nan, math.inf]), "nothing to draw"),
        (one([1, -2.5], log_y=True), "log axis 'y' cannot show -2.5"),
        (figure(Line("a", [1, 2], [1, 2, 3])), "line 'a' has 2 x but 3 y"),
        (figure(Line("a", [1, 2], [1, 2], [(0, 1)])), "line 'a' has a band of 1 but 2 y"),
        (figure(*[Line("a", [1], [1])] * 29), "29 lines, but only 28 can be told apart"),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_a_reason(draw, bad: Figure, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw(bad)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_leave_a_gap(bad: float) -> None:
    whole, gap = (svg_lines(one([1, 2, 3, y, 2, 1])) for y in (2.5, bad))
    assert [svg.count('stroke-width="2"') for svg in (whole, gap)] == [1, 2]
    assert text_lines(one([1, 2, 3, bad, 2, 1])).count("●") == 5 + 1  # and one at the label


@pytest.mark.parametrize("draw", [text_lines, svg_lines])
def test_a_line_or_reference_without_any_number_keeps_its_label(draw) -> None:
    diverged = Line("diverged", [1, 2], [math.nan, math.inf])
    drawn = draw(figure(diverged, Line("fine", [1, 2], [1, 2]), references=[("none", math.nan)]))
    assert all(label in drawn for label in ("diverged", "fine", "none"))


def test_ticks_of_a_narrow_terminal_that_would_touch_are_left_out() -> None:
    wide = figure(Line("a long label", [1e-300, 1e300 / 2], [1, 2]), log_x=True)
    assert "\n1e-300       1   1e150\n" in text_lines(wide, 40)


@pytest.mark.parametrize("scale", [5e-324, 1e-310, 1e-9, 1.0, 123456.789, 1e12, 1e299])
@pytest.mark.parametrize("pattern", [[1], [1, 1, 1], [0, 0], [-1, 1], [0, 1], [1, 1 + 1e-12]])
@pytest.mark.parametrize("log_x", [False, True])
def test_one_point_equal_values_and_extreme_ranges_are_drawn(scale, pattern, log_x) -> None:
    shape = one([scale * y for y in pattern], log_x=log_x)
    assert "●" in text_lines(shape)
    ElementTree.fromstring(svg_lines(shape))


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([1, 6], "1 2 3 4 5 6"),
        ([1, 2], "1 2"),
        ([1.07, 3.3], "1.0 1.5 2.0 2.5 3.0 3.5"),
        ([0, 999], "0 200 400 600 800 1000"),
        ([-0.12, 0.5], "-0.2 0.0 0.2 0.4 0.6"),
        ([0, 3e7], "0 5e6 1e7 1.5e7 2e7 2.5e7 3e7"),
    ],
)
def test_ticks_are_round_and_enclose_the_values(values: list[float], ticks: str) -> None:
    found = texts(svg_lines(one(values, x_label="", title="", y_label="")))
    left = min(right for _, right, _, text in found if text == ticks.split()[0])
    beside_axis = [text for _, right, _, text in reversed(found) if text and abs(right - left) < 1]
    assert " ".join(beside_axis[::-1]) == ticks


def test_lines_differ_by_more_than_colour() -> None:
    svg = svg_lines(figure(*(Line(str(i), [0, 1], [i, i]) for i in range(28))))
    styles = {
        part.split("/>")[0].split('stroke="')[1]
        for part in svg.split("<path")
        if '2" stroke-dash' in part
    }
    assert len(styles) == 28
    assert len(set(MARKS)) == 28


@pytest.mark.parametrize("name", ["a<b>&\"'", "tab\tnew\nline\x00\x1b[31m", "\ud800", "]]>"])
def test_special_and_control_characters_are_harmless_everywhere(name: str) -> None:
    odd = Figure(name, name, name, [Line(name, [1], [1])], [(name, 2)])
    bars = [Bar(name, 1, 0, name)]
    for svg in (svg_lines(odd), svg_bars(name, bars, name)):
        ElementTree.fromstring(svg.encode())
    text = text_lines(odd) + text_bars(name, bars, name)
    assert all(c.isprintable() or c == "\n" for c in text)


def test_bars_show_values_spreads_groups_and_both_signs() -> None:
    text = text_bars("Bars", BARS, "nats", 60)
    assert "0.380 ±0.04" in text
    assert text.count("2 layers") == 1
    lengths = [row.count("█") for row in text.splitlines() if "│" in row]
    assert lengths[0] == pytest.approx(lengths[2] * 0.38 / 0.6, abs=1)
    assert "█│" in text
    assert "│█" in text


def test_a_bar_without_a_finite_value_is_a_number_without_a_bar() -> None:
    bars = [Bar("diverged", math.nan), Bar("exploded", math.inf), Bar("fine", 1)]
    text = text_bars("Bars", bars, "nats")
    assert [row.count("█") > 0 for row in text.splitlines() if "│" in row] == [False, False, True]
    assert "nan" in text
    assert "inf" in text
    assert 'width="nan"' not in svg_bars("Bars", bars, "nats")


@pytest.mark.parametrize(
    "draw",
    [
        lambda: text_bars("Bars", [], "nats"),
        lambda: svg_bars("Bars", [], "nats"),
        lambda: svg_panels("Panels", []),
    ],
)
def test_nothing_is_refused(draw) -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        draw()


@pytest.mark.parametrize("draw", [text_lines, lambda _, width: text_bars("Bars", BARS, "", width)])
def test_a_terminal_too_narrow_is_refused(draw) -> None:
    with pytest.raises(ValueError, match="width 39 is below 40"):
        draw(SCISSORS, 39)


@pytest.mark.parametrize(
    ("encoding", "possible"),
    [("utf-8", True), ("ascii", False), ("cp1252", False), ("no such encoding", False)],
)
def test_can_show_asks_the_encoding_of_the_stream(encoding: str, possible: bool) -> None:
    class Stream(io.StringIO):
        @property
        def encoding(self) -> str:
            return encoding

    assert can_show(Stream(), text_lines(SCISSORS)) == possible
    assert can_show(Stream(), text_lines(SCISSORS, ascii_only=True)) == ("no" not in encoding)
