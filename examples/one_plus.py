"""The smallest picture of a residual connection: y = F(x) + x, one number in, one number out.

You will see dy/dx arrive along two paths, through F and along the skip; that the two are summed,
not averaged; that the sum may well be 0; and what twenty such steps in a row make of it. The graph
is the block of He et al. 2015 (figure 2) with one number per layer. Takes no time at all.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))  # run from a clone, not installed

from examples import lab
from examples.common import real
from micrograd_res.engine import Value
from micrograd_res.graph import dot_graph, nodes_and_edges, svg_graph

STEPS = 20
F_OF_X: dict[str, Callable[[Value], Value]] = {
    "0 x": lambda x: 0 * x,
    "0.1 x": lambda x: 0.1 * x,
    "1 x": lambda x: 1 * x,
    "-0.9 x": lambda x: -0.9 * x,
    "-1 x": lambda x: -1 * x,
}


def slopes(name: str, at: float) -> tuple[float, float, float]:
    """What backward gives x in F(x) + x: if only F leads to x, only the skip, or both."""
    f = F_OF_X[name]
    for_f, for_skip, for_both = Value(at), Value(at), Value(at)
    (f(for_f) + at).backward()
    (f(Value(at)) + for_skip).backward()
    (f(for_both) + for_both).backward()
    return for_f.grad, for_skip.grad, for_both.grad


def nudged(name: str, at: float) -> float:
    """The same without any calculus: how far y moves when x moves a little."""
    low, high = Value(at - 1e-4), Value(at + 1e-4)
    y_low, y_high = F_OF_X[name](low) + low, F_OF_X[name](high) + high
    return (y_high.data - y_low.data) / (high.data - low.data)


def slope_of_many(name: str, at: float, skip: bool) -> float:
    x = y = Value(at)
    for _ in range(STEPS):
        y = F_OF_X[name](y) + y if skip else F_OF_X[name](y)
    y.backward()
    return x.grad


def verdict(paths: dict[str, tuple[float, float, float]], many: dict[str, list[float]]) -> str:
    """In words, from the numbers in the table."""

    def from_one(slope: float) -> float:
        return abs(math.log(abs(slope))) if slope else math.inf

    if all(math.isclose(f + skip, both, abs_tol=1e-9) for f, skip, both in paths.values()):
        text = "The two paths are summed in every row: dy/dx is dF/dx + 1.\n"
    else:
        text = "The two paths do NOT add up to dy/dx.\n"
    least = min(paths, key=lambda name: paths[name][2])
    if paths[least][2] < 1:
        text += "A skip is no promise of a slope of 1 or more: "
        text += f"F(x) = {least} has dy/dx = {paths[least][2]:g}.\n"
    nearer = {name: from_one(many[name][1]) < from_one(many[name][0]) for name in many}
    for word, skip in (("closer", True), ("no closer", False)):
        found = ", ".join(name for name in nearer if nearer[name] == skip) or "none"
        text += f"The skip brings {STEPS} steps {word} to a slope of 1: F(x) = {found}.\n"
    return text


def report(at: float) -> None:
    paths = {name: slopes(name, at) for name in F_OF_X}
    many = {name: [slope_of_many(name, at, skip) for skip in (False, True)] for name in F_OF_X}
    rows = [
        ["F(x)", "via F", "via skip", "dy/dx", "by nudge", f"{STEPS} of F", f"{STEPS} of F + x"]
    ]
    for name in F_OF_X:
        numbers = [*paths[name], nudged(name, at), *many[name]]
        rows.append([name, *(f"{number:.3g}" for number in numbers)])
    lab.say(f"The slope of y = F(x) + x at x = {at:g}, and of {STEPS} steps in a row\n")
    lab.say(lab.table(rows) + "\n\n" + verdict(paths, many))


def main(argv: list[str] | None = None) -> int:
    parser = lab.parser(__doc__, seeds=1)
    for name, default in (("--x", 2.0), ("--w1", 2.0), ("--w2", 0.25)):
        text = f"of the graph ({default:g})"
        parser.add_argument(name, type=real(-1e3, 1e3), default=default, metavar="X", help=text)
    args = lab.parse(parser, argv, "one_plus")
    report(args.x)

    x, w1, w2 = Value(args.x), Value(args.w1), Value(args.w2)
    h = w1 * x
    r = h.relu()
    f_x = w2 * r
    y = f_x + x
    y.backward()
    names = {"x": x, "w1": w1, "w1 x": h, "relu": r, "w2": w2, "F(x)": f_x, "F(x) + x": y}
    nodes, edges = nodes_and_edges(y, names)
    key = {label[0]: key for key, label in nodes}
    skip = (key["x"], key["F(x) + x"])
    edges = [(a, b, f"x_residual {slope}" if (a, b) == skip else slope) for a, b, slope in edges]
    lab.say("One step with F(x) = w2 relu(w1 x) and its gradients, for Graphviz:\n")
    print(dot_graph(nodes, edges).replace("×", "*"))  # ASCII, for any terminal and any pipe
    title = f"dy/dx = {x.grad - 1:.4g} through F + 1 along the skip = {x.grad:.4g}: "
    title += "where two arrows leave x, the two gradients that come back are summed"
    lab.save(svg_graph(nodes, edges, title), args.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(lab.start(main))
