"""Curves and bars, as text for a terminal and as SVG for a page: numbers in, a string out.

Both share one layout, in which positions run from 0 (left, bottom) to 1.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby, pairwise
from textwrap import wrap
from typing import TextIO

# Line i takes entry i of each list, cyclically: 28 lines differ. Colours: Okabe and Ito, 2008.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
DASHES = ("none", "8 3", "2 3", "9 3 2 3")
SHAPES = (
    "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "m-4-4h8v8h-8z",
    "m0-5l5 9h-10z",
    "m0-6l5 6-5 6-5-6z",
)
MARKS = "●○■□▲△◆◇ABCDEFGHIJKLMNOPQRST"
TO_ASCII = str.maketrans("●○■□▲△◆◇·┊╌│┤└─┬█", "*o#+x@%&.:-|++-+#")
INK, GREY, PALE = "#1a1a1a", "#767676", "#e4e4e4"
WIDTH, PLOT_HEIGHT, LEADING = 760, 280, 16  # px; LEADING from one line of text to the next
CHAR = 7.4  # px, a little more than a character of 12 px monospace: widths need no font at hand


@dataclass(frozen=True)
class Line:
    label: str
    x: Sequence[float]
    y: Sequence[float]  # NaN and infinity leave a gap
    band: Sequence[tuple[float, float]] = ()  # lower and upper edge at each x; () for no band


@dataclass(frozen=True)
class Figure:
    title: str  # states the finding
    x_label: str
    y_label: str  # with units, as in "loss (nats per token)"
    lines: Sequence[Line]
    references: Sequence[tuple[str, float]] = ()  # labelled horizontal lines
    log_x: bool = False  # on a log axis zero stands at the floor, at a tick of its own
    log_y: bool = False


@dataclass(frozen=True)
class Bar:
    label: str
    value: float
    spread: float = 0.0
    group: str = ""  # bars of one group follow each other, under its name


def can_show(stream: TextIO, text: str) -> bool:
    """Whether the encoding of `stream` has every character of `text`."""
    try:
        text.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


# ---- What text and SVG share: numbers, axes, curves, places for labels.


def clean(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)


def _wrap(text: str, width: int) -> list[str]:
    return wrap(clean(text), width, break_on_hyphens=False) or [""]


def _number(value: float, spec: str) -> str:
    mantissa, e, exponent = format(value, spec).partition("e")
    return f"{mantissa.rstrip('.')}e{int(exponent)}" if e else mantissa.rstrip(".")


def _amount(bar: Bar, sign: str = "±") -> str:
    return _number(bar.value, "#.3g") + (f" {sign}{bar.spread:.2g}" if bar.spread else "")


def _drawable(value: float) -> bool:
    return abs(value) < 1e300  # so not NaN, and the difference of two is finite


@dataclass(frozen=True)
class _Axis:
    low: float  # value at the lowest round tick; on a log axis its log10, as `high`
    high: float
    log: bool
    floor: float  # position of `low`: above 0 on a log axis that has zeros to show below it
    ticks: list[tuple[float, str]]  # position, label

    def at(self, value: float) -> float:
        """Position of a value, held within 0..1."""
        if self.log:
            value = math.log10(value) if value > 0 else -math.inf
        part = (value - self.low) / (self.high - self.low)
        return min(1.0, max(0.0, self.floor + (1 - self.floor) * part))


def _linear_ticks(values: Sequence[float], count: int) -> list[tuple[float, str]]:
    """Multiples of 1, 2 or 5 times a power of ten, from below the values to above."""
    low, high = min(values), max(values)
    largest = max(abs(low), abs(high))
    if high - low <= max(1e-9 * largest, 1e-300):
        low, high = low - (largest / 2 or 1), high + (largest / 2 or 1)
    power = 10.0 ** math.floor(math.log10((high - low) / count))
    step = power * next(m for m in (1, 2, 5, 10, 20) if power * m * count >= high - low)
    if all(value == int(value) for value in values):
        step = max(step, 1.0)  # layers and steps have no halves
    place = math.floor(math.log10(step) + 1e-6)  # of the one digit that the step has
    digits = 1 + max(0, math.floor(math.log10(max(-low, high))) - place)
    spec = f".{max(0, -place)}f" if place > -6 and largest < 1e6 else f".{digits}g"
    first, last = math.floor(low / step + 1e-6), math.ceil(high / step - 1e-6)
    return [(k * step, _number(k * step, spec)) for k in range(first, last + 1)]


def _log_ticks(logs: Sequence[float], count: int) -> list[tuple[float, str]]:
    """Powers of ten, with 2 and 5 times those if they are few, as log10, around the logs."""
    low, high = min(logs), max(logs)
    if low == high:
        low, high = low - 1, high + 1
    digits = (1, 2, 5) if high - low <= 2 else (1,)
    stride = math.ceil((high - low) / count)
    ticks = []
    for k in range(math.floor(low / stride) * stride, math.ceil(high) + stride + 1, stride):
        for digit in digits:
            label = f"{digit}e{k}" if abs(k) > 3 else f"{digit * 10.0**k:g}"
            ticks.append((k + math.log10(digit), label))
    first = max(i for i, (tick, _) in enumerate(ticks) if tick <= low)
    last = min(i for i, (tick, _) in enumerate(ticks) if tick >= high)
    return ticks[first : last + 1]


def _axis(name: str, values: Sequence[float], log: bool, count: int) -> _Axis:
    """An axis with about `count` ticks around the values."""
    values = [value for value in values if _drawable(value)]
    if not values:
        raise ValueError(f"nothing to draw: no finite number on the axis {name!r}")
    if log and min(values) < 0:
        raise ValueError(f"the log axis {name!r} cannot show {min(values)}")
    if log:
        ticks = _log_ticks([math.log10(value) for value in values if value > 0] or [0.0], count)
    else:
        ticks = _linear_ticks(values, count)
    low, high = ticks[0][0], ticks[-1][0]
    floor = 0.1 if log and 0 in values else 0.0
    places = [(floor + (1 - floor) * (tick - low) / (high - low), label) for tick, label in ticks]
    return _Axis(low, high, log, floor, [(0.0, "0"), *places] if floor else places)


def _points(line: Line, columns: int) -> list[tuple[float, ...]]:
    """(x, y, low, high), at most `columns` of them; of more, neighbours become their mean."""
    if len(line.x) != len(line.y):
        raise ValueError(f"line {line.label!r} has {len(line.x)} x but {len(line.y)} y")
    if line.band and len(line.band) != len(line.y):
        raise ValueError(f"line {line.label!r} has a band of {len(line.band)} but {len(line.y)} y")
    band = line.band or [(y, y) for y in line.y]
    points = [
        (x, y, *(edges if all(map(_drawable, edges)) else (y, y)))
        for x, y, edges in zip(line.x, line.y, band)
    ]
    size = math.ceil(len(points) / columns)
    chunks = [points[i : i + size] for i in range(0, len(points), size)] if size else []
    return [tuple(sum(values) / len(chunk) for values in zip(*chunk)) for chunk in chunks]


_Point = tuple[float, float, float, float]  # positions of x, y, and the band's two edges
_Curve = list[list[_Point]]  # runs of points, a gap after each


def _curve(points: list[tuple[float, ...]], x_axis: _Axis, y_axis: _Axis) -> _Curve:
    return [
        [(x_axis.at(x), y_axis.at(y), y_axis.at(low), y_axis.at(high)) for x, y, low, high in run]
        for whole, run in groupby(points, lambda p: _drawable(p[0]) and _drawable(p[1]))
        if whole
    ]


@dataclass(frozen=True)
class _Layout:
    x_axis: _Axis
    y_axis: _Axis
    curves: list[_Curve]  # of the lines, then of the references
    ends: list[float]  # height at which the label of each curve would like to stand
    n_lines: int


def _labels(figure: Figure, width: int) -> tuple[list[list[str]], int]:
    """The label of each curve in rows of at most `width` characters, and the longest row."""
    names = [line.label for line in figure.lines] + [label for label, _ in figure.references]
    labels = [_wrap(name, width) for name in names]
    return labels, max((len(row) for label in labels for row in label), default=0)


def _layout(figure: Figure, columns: int, x_ticks: int, y_ticks: int) -> _Layout:
    if len(figure.lines) > len(MARKS):
        raise ValueError(f"{len(figure.lines)} lines, but only {len(MARKS)} can be told apart")
    lines = [_points(line, columns) for line in figure.lines]
    points = [point for line in lines for point in line]
    ys = [value for _, value in figure.references]
    ys += [value for _, *values in points for value in values]
    x_axis = _axis(figure.x_label, [point[0] for point in points], figure.log_x, x_ticks)
    y_axis = _axis(figure.y_label, ys, figure.log_y, y_ticks)
    curves = [_curve(line, x_axis, y_axis) for line in lines]
    for _, value in figure.references:
        y = y_axis.at(value)
        curves.append([[(0.0, y, y, y), (1.0, y, y, y)]] if _drawable(value) else [])
    ends = [curve[-1][-1][1] if curve else 0.0 for curve in curves]
    return _Layout(x_axis, y_axis, curves, ends, len(lines))


def push_apart(centres: Sequence[float], sizes: Sequence[float], room: float) -> list[float]:
    """Starts of intervals of these sizes within 0..room, near their centres, without overlap."""
    order = sorted(range(len(centres)), key=lambda i: centres[i])
    up, down = [0.0] * len(order), [0.0] * len(order)
    edge, rest = 0.0, sum(sizes)
    for i in order:
        up[i] = max(edge, min(centres[i] - sizes[i] / 2, room - rest))
        edge, rest = up[i] + sizes[i], rest - sizes[i]
    edge, rest = room, sum(sizes)
    for i in reversed(order):
        down[i] = min(edge, max(centres[i] + sizes[i] / 2, rest)) - sizes[i]
        edge, rest = down[i], rest - sizes[i]
    # Each alone leans one way. Their mean does not, and cannot overlap where neither does.
    return [(a + b) / 2 for a, b in zip(up, down)]


# ---- Text.


_Cells = dict[tuple[int, int], str]  # (row from the bottom, column): character


def _finish(rows: list[str], ascii_only: bool) -> str:
    text = "\n".join(row.rstrip() for row in rows) + "\n"
    return text.translate(TO_ASCII).encode("ascii", "replace").decode() if ascii_only else text


def _path(cells: list[tuple[int, int]]) -> _Cells:
    path = {}
    for (row, column), (next_row, next_column) in pairwise(cells):
        steps = max(abs(next_row - row), abs(next_column - column))
        for k in range(1, steps):
            up, right = (next_row - row) * k / steps, (next_column - column) * k / steps
            path[round(row + up), round(column + right)] = "·"
    return path


def _text_cells(layout: _Layout, columns: int, height: int) -> _Cells:
    bands: _Cells = {}
    paths: _Cells = {}
    there: dict[tuple[int, int], list[str]] = {}  # the marks of all curves that pass a cell
    for i, curve in enumerate(layout.curves):
        for run in curve:
            cells = [(round(y * (height - 1)), round(x * (columns - 1))) for x, y, _, _ in run]
            if i >= layout.n_lines:
                bands |= {(cells[0][0], column): "╌" for column in range(columns)}
                continue
            for (_, column), (_, _, low, high) in zip(cells, run):
                for row in range(round(low * (height - 1)), round(high * (height - 1)) + 1):
                    bands[row, column] = "┊"
            paths |= _path(cells)
            for cell in dict.fromkeys(cells):
                there.setdefault(cell, []).append(MARKS[i])
    marks: _Cells = {}
    turns: Counter[str] = Counter()
    for cell in sorted(there, key=lambda cell: cell[1]):
        together = "".join(there[cell])  # curves that coincide take turns, column by column
        marks[cell] = together[turns[together] % len(together)]
        turns[together] += 1
    return bands | paths | marks


def _text_labels(labels: list[list[str]], layout: _Layout, height: int) -> dict[int, str]:
    """What stands to the right of the plot in each row, rows counted from the bottom."""
    centres = [end * (height - 1) + 0.5 for end in layout.ends]
    starts = push_apart(centres, [len(label) for label in labels], height)
    rows = {}
    for i, (start, label) in enumerate(zip(starts, labels)):
        mark = MARKS[i] if i < layout.n_lines else "╌"
        top = int(start + 1e-6) + len(label) - 1
        for k, text in enumerate(label):
            rows[top - k] = f" {' ' if k else mark} {text}"
    return rows


def _text_x_axis(axis: _Axis, left: int, columns: int, width: int) -> list[str]:
    rule, names = ["─"] * columns, ""
    for position, label in axis.ticks:
        column = round(position * (columns - 1))
        start = min(left + 2 + column - len(label) // 2, width - len(label))
        if start > len(names) or not names:
            rule[column] = "┬"
            names = names.ljust(start) + label
    return [" " * left + " └" + "".join(rule), names]


def text_lines(figure: Figure, width: int = 80, height: int = 18, ascii_only: bool = False) -> str:
    """The figure in `width` columns and `height` rows of plot, or more if labels need them."""
    if width < 40:
        raise ValueError(f"width {width} is below 40 columns")
    labels, longest = _labels(figure, max(12, width // 4))
    height = max(height, sum(map(len, labels)))
    columns = width - longest - 9  # if ticks have 4 characters: the usual case
    layout = _layout(figure, columns, max(4, columns // 8), max(2, height // 3))
    left = max(len(label) for _, label in layout.y_axis.ticks)
    columns += 4 - left
    cells, beside = _text_cells(layout, columns, height), _text_labels(labels, layout, height)
    ticks = {round(at * (height - 1)): label for at, label in reversed(layout.y_axis.ticks)}
    rows = [*_wrap(figure.title, width), "", *_wrap(figure.y_label, width)]
    for r in reversed(range(height)):
        edge = f"{ticks.get(r, ''):>{left}} {'┤' if r in ticks else '│'}"
        plot = "".join(cells.get((r, column), " ") for column in range(columns))
        rows.append(edge + plot + beside.get(r, ""))
    rows += _text_x_axis(layout.x_axis, left, columns, width)
    rows += [" " * (left + 2) + row.center(columns) for row in _wrap(figure.x_label, columns)]
    return _finish(rows, ascii_only)


def _bar_axis(bars: Sequence[Bar], unit: str) -> _Axis:
    if not bars:
        raise ValueError("nothing to draw: no bars")
    ends = [bar.value + side * bar.spread for bar in bars for side in (-1, 0, 1)]
    return _axis(unit, [0.0, *ends], False, 5)


def text_bars(
    title: str, bars: Sequence[Bar], unit: str, width: int = 80, ascii_only: bool = False
) -> str:
    if width < 40:
        raise ValueError(f"width {width} is below 40 columns")
    axis = _bar_axis(bars, unit)
    labels = [_wrap(bar.label, width // 3) for bar in bars]
    amounts = [_amount(bar, "+-" if ascii_only else "±") for bar in bars]
    left, middle = max(len(row) for label in labels for row in label), max(map(len, amounts))
    columns = width - left - middle - 3
    zero = round(axis.at(0.0) * columns)
    rows, group = [*_wrap(title, width), "", *_wrap(unit, width)], ""
    for bar, label, amount in zip(bars, labels, amounts):
        if bar.group != group:
            group = bar.group
            rows += ["", *_wrap(group, width)]
        end = round(axis.at(bar.value) * columns) if _drawable(bar.value) else zero
        drawn = ("█" * (zero - end)).rjust(zero) + "│" + "█" * (end - zero)
        rows += [*label[:-1], f"{label[-1]:<{left}} {amount:>{middle}} {drawn}"]
    return _finish(rows, ascii_only)


# ---- SVG.


@dataclass(frozen=True)
class _Frame:  # the rectangle of a plot, px
    left: float
    top: float
    right: float
    bottom: float

    def x(self, position: float) -> float:
        return self.left + position * (self.right - self.left)

    def y(self, position: float) -> float:
        return self.bottom - position * (self.bottom - self.top)

    def xy(self, x: float, y: float) -> str:
        return f"{self.x(x):.1f} {self.y(y):.1f}"


def svg_text(
    x: float, y: float, rows: Sequence[str], style: str = 'text-anchor="start"'
) -> list[str]:
    return [
        f'<text x="{x:.1f}" y="{y + LEADING * i:.1f}" {style}>{escape(clean(row))}</text>'
        for i, row in enumerate(rows)
    ]


def svg_path(d: str, colour: str, width: float = 1, dash: str = "none") -> str:
    style = f'stroke="{colour}" stroke-width="{width}" stroke-dasharray="{dash}"'
    return f'<path d="{d}" fill="none" {style}/>'


def svg_box(left: float, top: float, right: float, bottom: float, style: str) -> str:
    size = f'width="{right - left:.1f}" height="{bottom - top:.1f}"'
    return f'<rect x="{left:.1f}" y="{top:.1f}" {size} {style}/>'


def svg_head(title: str, subtitle: str, top: float) -> tuple[list[str], float]:
    """Title and subtitle from y = `top` downwards, and the y at which they end."""
    bold, plain = _wrap(title, 80), _wrap(subtitle, 92) if subtitle else []
    parts = svg_text(16, top + 28, bold, 'font-size="14" font-weight="bold"')
    top += 32 + LEADING * len(bold)
    return parts + svg_text(16, top, plain), top + LEADING * len(plain)


def svg_document(title: str, parts: list[str], height: float, width: float = WIDTH) -> str:
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    font = "font-family=\"ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace\""
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font} font-size="12" fill="{INK}">',
        f"<title>{escape(clean(title))}</title>",
        '<rect width="100%" height="100%" rx="6" fill="#ffffff"/>',
    ]
    return "\n".join([*head, *parts, "</svg>"]) + "\n"


def _svg_axes(layout: _Layout, x_label: list[str], frame: _Frame) -> list[str]:
    parts = []
    for y, label in layout.y_axis.ticks:
        parts.append(svg_path(f"M{frame.xy(0, y)}H{frame.right:.1f}", PALE))
        parts += svg_text(frame.left - 8, frame.y(y) + 4, [label], 'text-anchor="end"')
    for x, label in layout.x_axis.ticks:
        parts.append(svg_path(f"M{frame.xy(x, 0)}v5", INK))
        parts += svg_text(frame.x(x), frame.bottom + 20, [label], 'text-anchor="middle"')
    parts.append(svg_path(f"M{frame.xy(0, 1)}L{frame.xy(0, 0)}L{frame.xy(1, 0)}", INK))
    return parts + svg_text(frame.x(0.5), frame.bottom + 40, x_label, 'text-anchor="middle"')


def _svg_curve(curve: _Curve, colour: str, dash: str, shape: str, frame: _Frame) -> list[str]:
    parts = []
    few = sum(map(len, curve)) <= 30
    for run in curve:
        upper = [frame.xy(x, high) for x, _, _, high in run]
        lower = [frame.xy(x, low) for x, _, low, _ in run]
        if upper != lower:
            outline = "L".join(upper + lower[::-1])
            parts.append(f'<path d="M{outline}z" fill="{colour}" fill-opacity="0.15"/>')
        points = [frame.xy(x, y) for x, y, _, _ in run]
        parts.append(svg_path("M" + "L".join(points), colour, 2, dash))
        for point in points if few or len(points) == 1 else []:
            parts.append(f'<path transform="translate({point})" d="{shape}" fill="{colour}"/>')
    return parts


def _svg_figure(figure: Figure, top: float) -> tuple[list[str], float]:
    """The figure from y = `top` downwards, and the y at which it ends."""
    layout = _layout(figure, columns=100, x_ticks=8, y_ticks=6)
    labels, longest = _labels(figure, 28)
    x_label = _wrap(figure.x_label, 60)
    parts, top = svg_head(figure.title, figure.y_label, top)
    heights = [LEADING * len(label) for label in labels]
    frame = _Frame(
        left=24 + CHAR * max(len(label) for _, label in layout.y_axis.ticks),
        top=top,
        right=WIDTH - 56 - CHAR * longest,
        bottom=top + max(PLOT_HEIGHT, sum(heights)),
    )
    parts += _svg_axes(layout, x_label, frame)
    room = frame.bottom - frame.top
    starts = push_apart([(1 - end) * room for end in layout.ends], heights, room)
    for i, (curve, start, label) in enumerate(zip(layout.curves, starts, labels)):
        colour, dash, shape = GREY, "5 4", ""
        if i < layout.n_lines:
            colour, dash, shape = (style[i % len(style)] for style in (COLOURS, DASHES, SHAPES))
        parts += _svg_curve(curve, colour, dash, shape, frame)
        x, y = frame.right + 24, top + start + LEADING / 2
        if curve:
            end = frame.xy(*curve[-1][-1][:2])
            parts.append(svg_path(f"M{end}L{x:.1f} {y:.1f}", GREY, 1, "1 3"))
        parts.append(f'<path transform="translate({x:.1f} {y:.1f})" d="{shape}" fill="{colour}"/>')
        parts += svg_text(x + 10, y + 4, label)
    return parts, frame.bottom + 40 + LEADING * len(x_label)


def svg_lines(figure: Figure) -> str:
    parts, height = _svg_figure(figure, 0)
    return svg_document(figure.title, parts, height)


def svg_panels(title: str, figures: Sequence[Figure]) -> str:
    """The figures below each other, under one title."""
    if not figures:
        raise ValueError("nothing to draw: no figures")
    parts, height = svg_head(title, "", 0)
    for figure in figures:
        panel, height = _svg_figure(figure, height)
        parts += panel
    return svg_document(title, parts, height)


def _svg_bar(bar: Bar, axis: _Axis, colour: str, frame: _Frame) -> list[str]:
    ends = (0.0, bar.value, bar.value - bar.spread, bar.value + bar.spread)
    zero, end, low, high = (frame.x(axis.at(e if _drawable(e) else 0.0)) for e in ends)
    y = frame.y(0.5)
    style = f'fill="{colour}"'
    parts = [svg_box(min(zero, end), frame.top, max(zero, end), frame.bottom, style)]
    if bar.spread:
        whisker = f"M{low:.1f} {y - 4:.1f}v8m0-4H{high:.1f}m0-4v8"
        parts.append(svg_path(whisker, INK, 1.5))
    return parts + svg_text(max(zero, end, high) + 8, y + 4, [_amount(bar)])


def svg_bars(title: str, bars: Sequence[Bar], unit: str) -> str:
    axis = _bar_axis(bars, unit)
    names = list(dict.fromkeys(bar.label for bar in bars))
    labels = [_wrap(bar.label, 32) for bar in bars]
    left = 28 + CHAR * max(len(row) for label in labels for row in label)
    right = WIDTH - 28 - CHAR * max(len(_amount(bar)) for bar in bars)
    parts, top = svg_head(title, unit, 0)
    y, group = top, ""
    for bar, label in zip(bars, labels):
        if bar.group != group:
            group = bar.group
            parts += svg_text(16, y + 20, _wrap(group, 90), 'font-weight="bold"')
            y += 12 + LEADING * len(_wrap(group, 90))
        frame = _Frame(left, y + 4, right, y + 4 + LEADING * len(label))
        colour = COLOURS[names.index(bar.label) % len(COLOURS) if group else 0]
        parts += _svg_bar(bar, axis, colour, frame)
        parts += svg_text(left - 8, y + 16, label, 'text-anchor="end"')
        y = frame.bottom + 4
    parts.append(svg_path(f"M{frame.x(axis.at(0.0)):.1f} {top:.1f}V{y:.1f}", INK))
    return svg_document(title, parts, y + 16)
