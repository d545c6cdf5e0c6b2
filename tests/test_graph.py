"""A graph of Values: what is drawn is what was computed, and what cannot be read is refused."""

import xml.etree.ElementTree as ElementTree

import pytest

from micrograd_res import fused
from micrograd_res.engine import Value
from micrograd_res.graph import MAX_NODES, dot_graph, nodes_and_edges, svg_graph

NODES = [("x", ["x", "data 2.0"]), ("F", ["F(x)", "data -1.0"]), ("G", ["*"]), ("y", ["+"])]
EDGES = [("x", "F", "0.5"), ("F", "G", "1"), ("G", "y", "1"), ("x", "y", "x_residual")]


def test_a_graph_has_a_node_for_each_value_and_an_edge_with_the_slope_for_each_input():
    x, w = Value(2.0), Value(0.5)
    f = w * x
    y = f + x
    y.backward()
    nodes, edges = nodes_and_edges(y, {"x": x, "w": w, "y": y})
    assert nodes == [
        ("3", ["w", "data 0.5", "grad 2"]),
        ("2", ["x", "data 2", "grad 1.5"]),
        ("1", ["data 1", "grad 1"]),
        ("0", ["y", "data 3", "grad 1"]),
    ]
    assert sorted(edges) == [
        ("1", "0", "×1"),
        ("2", "0", "×1"),
        ("2", "1", "×0.5"),
        ("3", "1", "×2"),
    ]


def test_an_input_that_is_used_twice_has_two_edges():
    x = Value(3.0)
    nodes, edges = nodes_and_edges(x * x, {'<x> & "x"': x})
    assert (len(nodes), edges) == (2, [("1", "0", "×3")] * 2)
    assert "&lt;x&gt; &amp; &quot;x&quot;" in svg_graph(nodes, edges, "square")
    assert '<x> & \\"x\\"' in dot_graph(nodes, edges)


def test_a_fused_operation_is_drawn_as_its_definition_says():
    row = [[Value(1.0), Value(2.0)]]
    weight = [[Value(3.0), Value(4.0)], [Value(5.0), Value(0.0)]]
    y = fused.linear(row, weight)[0][0]
    y.backward()
    nodes, edges = nodes_and_edges(y, {})
    assert len(nodes) == 5
    assert sorted(label for _, _, label in edges) == ["×1", "×2", "×3", "×4"]


def test_a_leaf_is_a_graph_of_one_node():
    assert nodes_and_edges(Value(1.0), {}) == ([("0", ["data 1", "grad 0"])], [])


def test_a_graph_too_large_to_read_is_refused_at_once():
    total = Value(0.0)
    for _ in range(10_000):
        total = total + 1
    with pytest.raises(ValueError, match="more than 40 Values"):
        nodes_and_edges(total, {})


def test_a_graph_runs_from_left_to_right_and_its_long_edge_misses_all_nodes():
    svg = ElementTree.fromstring(svg_graph(NODES, EDGES, "y = F(x) + x"))
    texts = list(svg.iter("{http://www.w3.org/2000/svg}text"))
    place = {text.text: float(text.attrib["x"]) for text in texts}
    row = {text.text: float(text.attrib["y"]) for text in texts}
    assert place["x"] < place["F(x)"] < place["*"] < place["+"]
    assert row["x_residual"] - row["*"] > 40  # more than half a box


def test_dot_text_of_a_graph_is_escaped_and_keeps_every_edge():
    dot = dot_graph(
        [("a", ['say "hi"', "back\\slash"]), ("b", ["b"])], [("a", "b", "l"), ("a", "b", "l")]
    )
    assert r'n0 [label="say \"hi\"\nback\\slash"]' in dot
    assert dot.count("n0 -> n1") == 2


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        ([(str(i), ["n"]) for i in range(MAX_NODES + 1)], [], "41 nodes are too many to read"),
        ([("a", ["a"]), ("a", ["b"])], [], "two nodes have one key"),
        ([("a", ["a"])], [("a", "b", "")], "from 'a' to 'b': no such node"),
        ([("a", ["a"]), ("b", ["b"])], [("a", "b", ""), ("b", "a", "")], "cycle"),
    ],
)
def test_a_graph_that_cannot_be_read_is_refused(nodes, edges, message):
    with pytest.raises(ValueError, match=message):
        svg_graph(nodes, edges, "title")


@pytest.mark.parametrize("name", ["a<b>&\"'", "tab\tnew\nline\x00\x1b[31m", "\ud800", "]]>"])
def test_special_and_control_characters_are_harmless(name):
    ElementTree.fromstring(svg_graph([(name, [name])], [], name).encode())
    assert all(c.isprintable() or c == "\n" for c in dot_graph([(name, [name])], []))


def test_no_graph_is_refused():
    with pytest.raises(ValueError, match="nothing to draw"):
        dot_graph([], [])
