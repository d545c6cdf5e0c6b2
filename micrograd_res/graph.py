"""A small graph of Values as a picture: data and gradient in each box, the slope on each arrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from micrograd_res.engine import Fused, Value
from micrograd_res.plot import (
    CHAR,
    COLOURS,
    GREY,
    LEADING,
    WIDTH,
    clean,
    push_apart,
    svg_box,
    svg_document,
    svg_head,
    svg_path,
    svg_text,
)

MAX_NODES = 40  # of a graph that can be read

Node = tuple[str, Sequence[str]]  # key, lines of its label
Edge = tuple[str, str, str]  # key of the start, key of the end, label


def inputs_of(value: Value) -> list[tuple[Value, float]]:
    """The inputs of a Value, each with the derivative with respect to it."""
    operation = value._inputs
    if not isinstance(operation, Fused):
        return list(zip(operation, value._local_grads))
    dy = [0.0] * operation.n_output
    dy[value._local_grads] = 1.0
    pairs = zip(operation._inputs, operation.pull(dy))
    return [(source, slope) for source, slope in pairs if slope]  # most outputs need few inputs


def nodes_and_edges(result: Value, names: Mapping[str, Value]) -> tuple[list[Node], list[Edge]]:
    """The graph behind result, leaves first, and what its Values are called: {"x": x}.

    ValueError if it has more than MAX_NODES nodes.
    """
    name_of = {value: [name] for name, value in names.items()}
    key_of = {result: "0"}
    found = [result]
    edges: list[Edge] = []
    for value in found:  # grows on the way
        for source, slope in inputs_of(value):
            if source not in key_of:
                key_of[source] = str(len(found))
                found.append(source)
            edges.append((key_of[source], key_of[value], f"×{slope:.3g}"))
        if len(found) > MAX_NODES:
            raise ValueError(f"a graph of more than {MAX_NODES} Values is too large to read")
    nodes: list[Node] = [
        (key, [*name_of.get(value, []), f"data {value.data:.4g}", f"grad {value.grad:.4g}"])
        for value, key in key_of.items()
    ]
    return nodes[::-1], edges[::-1]


def check_graph(nodes: Sequence[Node], edges: Sequence[Edge]) -> None:
    keys = [key for key, _ in nodes]
    if not keys:
        raise ValueError("nothing to draw: no nodes")
    if len(keys) > MAX_NODES:
        raise ValueError(f"{len(keys)} nodes are too many to read: {MAX_NODES} at most")
    if len(set(keys)) < len(keys):
        raise ValueError(f"two nodes have one key: {sorted(keys)}")
    for start, end, _ in edges:
        if start not in keys or end not in keys:
            raise ValueError(f"edge from {start!r} to {end!r}: no such node")


def dot_quote(rows: Sequence[str]) -> str:
    escaped = [clean(row).replace("\\", "\\\\").replace('"', '\\"') for row in rows]
    return '"' + "\\n".join(escaped) + '"'


def dot_graph(nodes: Sequence[Node], edges: Sequence[Edge]) -> str:
    """The graph in the language of Graphviz."""
    check_graph(nodes, edges)
    names = {key: f"n{i}" for i, (key, _) in enumerate(nodes)}
    rows = ["digraph {", "  rankdir=LR", "  node [shape=box]"]
    rows += [f"  {names[key]} [label={dot_quote(label)}]" for key, label in nodes]
    for start, end, label in edges:
        rows.append(f"  {names[start]} -> {names[end]} [label={dot_quote([label])}]")
    return "\n".join([*rows, "}"]) + "\n"


def columns_of(nodes: Sequence[Node], edges: Sequence[Edge]) -> dict[str, int]:
    """The column of every node: to the right of its inputs; a leaf just left of its first use."""
    depth = {key: 0 for key, _ in nodes}
    for _ in nodes:
        for start, end, _ in edges:
            depth[end] = max(depth[end], depth[start] + 1)
    if any(depth[end] <= depth[start] for start, end, _ in edges):
        raise ValueError("the graph has a cycle")
    for key in set(depth) - {end for _, end, _ in edges}:
        depth[key] = min((depth[end] - 1 for start, end, _ in edges if start == key), default=0)
    return depth


Slot = str | tuple[int, int]  # a node, or (edge, column): where the edge crosses that column


def slots_of(depth: dict[str, int], edges: Sequence[Edge]) -> list[list[Slot]]:
    """The slots of every edge, from its start to its end."""
    return [
        [start, *((i, column) for column in range(depth[start] + 1, depth[end])), end]
        for i, (start, end, _) in enumerate(edges)
    ]


def rows_of(chains: list[list[Slot]], column: dict[Slot, int]) -> dict[Slot, float]:
    """The row of every slot: near its neighbours, one row from others in its column."""
    near: dict[Slot, list[Slot]] = {slot: [] for slot in column}
    for chain in chains:
        for left, right in pairwise(chain):
            # Where an edge crosses columns it pulls itself level.
            pull = 1 if isinstance(left, str) or isinstance(right, str) else 4
            near[left] += [right] * pull
            near[right] += [left] * pull
    columns = [[slot for slot in column if column[slot] == j] for j in sorted({*column.values()})]
    room = max(map(len, columns))
    row = {slot: float(i) for slots in columns for i, slot in enumerate(slots)}
    for slots in (columns + columns[::-1]) * 20:
        centres = [sum(row[n] for n in near[s] or [s]) / len(near[s] or [s]) for s in slots]
        starts = push_apart([c + 0.5 for c in centres], [1.0] * len(slots), room)
        row.update(zip(slots, starts))
    top = min(row.values())
    return {slot: at - top for slot, at in row.items()}


def svg_edge(points: list[tuple[float, float]], level: float, label: str) -> list[str]:
    """An arrow through the points, level for `level` px after each but the first and last."""
    x, y = points[0]
    d = f"M{x:.1f} {y:.1f}"
    for i, (next_x, next_y) in enumerate(points[1:]):
        if i:
            x += level
            d += f"H{x:.1f}"
        middle = (x + next_x) / 2
        d += f"C{middle:.1f} {y:.1f} {middle:.1f} {next_y:.1f} {next_x:.1f} {next_y:.1f}"
        x, y = next_x, next_y
    parts = [svg_path(d, GREY, 1.5), f'<path d="M{x:.1f} {y:.1f}l-9-4v8z" fill="{GREY}"/>']
    width = CHAR * len(label)
    right = x - 12
    if len(points) > 2:
        x, y = points[len(points) // 2]
        right = x + level / 2 + width / 2
    box = svg_box(right - width - 2, y - 8, right + 2, y + 8, 'fill="#ffffff"')
    return [*parts, box, *svg_text(right, y + 4, [label], 'text-anchor="end"')]


def svg_node(x: float, y: float, width: float, height: float, label: Sequence[str]) -> list[str]:
    style = f'rx="5" fill="#f0f6fb" stroke="{COLOURS[0]}"'
    top = y + 4 - LEADING * (len(label) - 1) / 2
    return [
        svg_box(x, y - height / 2, x + width, y + height / 2, style),
        *svg_text(x + width / 2, top, label, 'text-anchor="middle"'),
    ]


def svg_graph(nodes: Sequence[Node], edges: Sequence[Edge], title: str) -> str:
    """The graph, leaves at the left. ValueError if it has a cycle or more than MAX_NODES nodes."""
    check_graph(nodes, edges)
    depth = columns_of(nodes, edges)
    chains = slots_of(depth, edges)
    column: dict[Slot, int] = {key: depth[key] for key in depth}
    column.update((slot, slot[1]) for chain in chains for slot in chain if isinstance(slot, tuple))
    row = rows_of(chains, column)

    width = 16 + CHAR * max(len(line) for _, label in nodes for line in label)
    height = 14 + LEADING * max(len(label) for _, label in nodes)
    short = [label for (_, _, label), chain in zip(edges, chains) if len(chain) == 2]
    gap = 32 + CHAR * max(map(len, short), default=0)
    parts, top = svg_head(title, "", 0)
    left = {slot: 16 + column[slot] * (width + gap) for slot in column}
    middle = {slot: top + height / 2 + row[slot] * (height + 20) for slot in column}
    for key, label in nodes:
        arriving = [i for i, (_, end, _) in enumerate(edges) if end == key]
        arriving.sort(key=lambda i: row[chains[i][-2]])
        for k, i in enumerate(arriving):
            first, *between, last = chains[i]
            port = middle[last] + height * ((k + 0.5) / len(arriving) - 0.5)
            points = [(left[slot], middle[slot]) for slot in between]
            points = [(left[first] + width, middle[first]), *points, (left[last], port)]
            parts += svg_edge(points, width, edges[i][2])
        parts += svg_node(left[key], middle[key], width, height, label)
    nodes_end = max(middle[key] for key in depth) + height / 2
    bottom = max(nodes_end, *middle.values()) + 24
    return svg_document(title, parts, bottom, max(WIDTH, max(left.values()) + width + 16))
