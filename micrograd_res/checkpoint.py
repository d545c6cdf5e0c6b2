"""Save a training run to a file that a person can read, and continue from it to the last bit."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import reprlib
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from micrograd_res.data import Tokenizer
from micrograd_res.engine import Value
from micrograd_res.model import Config, Params, shapes
from micrograd_res.optim import Adam, param_groups

VERSION = 1
FORMAT = {
    "version": int,
    "flags": dict,
    "data": str,
    "alphabet": str,
    "config": dict,
    "step": int,
    "losses": list,
    "random": list,  # as random.Random.getstate gives it
    "weights": dict,  # of matrices: lists of rows
    "means": dict,  # Adam's two averages of each weight's gradient
    "squares": dict,
}
MAX = sys.float_info.max

Matrices = dict[str, list[list[float]]]
flatten = chain.from_iterable


@dataclass
class Checkpoint:
    """All that a run is made of."""

    flags: dict[str, Any]  # numbers and words that shaped it; their meaning is the program's
    data: str  # fingerprint of its documents
    tokenizer: Tokenizer
    config: Config
    losses: list[float]  # of each step so far
    rng: random.Random
    params: Params
    adam: Adam  # over param_groups(params)


def content(run: Checkpoint) -> dict[str, Any]:
    def matrices(number_of: Callable[[Value], float]) -> Matrices:
        return {name: [list(map(number_of, row)) for row in m] for name, m in run.params.items()}

    values = [value for group, _ in run.adam.groups for value in group]
    mean_of = dict(zip(values, flatten(run.adam.means)))
    square_of = dict(zip(values, flatten(run.adam.squares)))

    return {
        "version": VERSION,
        "flags": run.flags,
        "data": run.data,
        "alphabet": run.tokenizer.alphabet,
        "config": dataclasses.asdict(run.config),
        "step": len(run.losses),
        "losses": run.losses,
        "random": run.rng.getstate(),
        "weights": matrices(float),
        "means": matrices(mean_of.__getitem__),
        "squares": matrices(square_of.__getitem__),
    }


def to_json(value: Any, indent: str = "\n") -> str:
    """JSON with one line for each row of a matrix. ValueError if a number is not finite."""
    inner = indent + " "
    if isinstance(value, dict):
        items = [f"{json.dumps(key)}: {to_json(item, inner)}" for key, item in value.items()]
        return "{" + inner + ("," + inner).join(items) + indent + "}"
    if isinstance(value, list) and value and isinstance(value[0], list):
        return "[" + inner + ("," + inner).join(map(to_json, value)) + indent + "]"
    return json.dumps(value, allow_nan=False)


def save(path: str | Path, run: Checkpoint) -> None:
    """Whenever the program dies, the file is the old one or the new one, whole.

    ArithmeticError if a number is no longer finite, OSError if the file cannot be written,
    ValueError for what a file has no place for.
    """
    usual = Adam(param_groups(run.params))
    for name in ("groups", "beta1", "beta2", "eps"):
        if getattr(run.adam, name) != getattr(usual, name):
            raise ValueError(f"a checkpoint does not keep {name} of Adam that are not the default")
    if run.adam.steps != len(run.losses):
        raise ValueError(f"{run.adam.steps} steps of Adam, but {len(run.losses)} losses")
    path = Path(path).resolve()  # a symbolic link stays one
    if path.exists() and not path.is_file():
        raise OSError(f"{path}: not a regular file")
    try:
        text = to_json(content(run)) + "\n"
    except ValueError:
        raise ArithmeticError("the weights are no longer finite numbers") from None
    draft = path.with_name(path.name + ".tmp")  # one name: killed runs leave at most one behind
    try:
        with draft.open("w", encoding="ascii", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())  # or the new name might reach the disk before the content
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


# Loading. A file may have been cut off, edited, or made by someone who means harm: each part is
# checked before it is used, and nothing is allocated for which the file has no numbers.


def expect(right: bool, where: str, expected: object, found: object) -> None:
    if not right:
        raise ValueError(f"{where} must be {expected}, not {reprlib.repr(found)}")


def check_keys(found: dict[str, Any], where: str, keys: Collection[str]) -> None:
    for key in keys:
        if key not in found:
            raise ValueError(f"{where}: {key!r} is missing")
    for key in found:
        if key not in keys:
            raise ValueError(f"{where}: {reprlib.repr(key)} does not belong there")


def read_list(found: Any, where: str, length: int) -> list[Any]:
    expect(type(found) is list, where, "a list", found)
    expect(len(found) == length, f"length of {where}", length, len(found))
    return list(found)


def is_finite(found: Any, low: float = -MAX) -> bool:
    return type(found) in (int, float) and low <= found <= MAX


def read_floats(found: Any, where: str, length: int, low: float = -MAX) -> list[float]:
    expected = "a finite number" if low < 0.0 else f"a finite number from {low:g}"
    for i, number in enumerate(read_list(found, where, length)):
        expect(is_finite(number, low), f"{where}[{i}]", expected, number)
    return list(map(float, found))


def read_matrices(found: dict[str, Any], where: str, config: Config, low: float = -MAX) -> Matrices:
    if len(found) < config.n_layer:
        raise ValueError(f"{where}: {len(found)} matrices, too few for n_layer {config.n_layer}")
    table = shapes(config)
    check_keys(found, where, table)
    return {
        name: [
            read_floats(row, f"{where}.{name}[{i}]", n_in, low)
            for i, row in enumerate(read_list(found[name], f"{where}.{name}", n_out))
        ]
        for name, (n_out, n_in) in table.items()
    }


def check_types(found: dict[str, Any], types: dict[str, type]) -> None:
    for name, kind in types.items():
        expect(type(found[name]) is kind, name, f"of type {kind.__name__}", found[name])


def read_config(found: dict[str, Any], vocab_size: int) -> Config:
    example = Config(vocab_size)
    check_keys(found, "config", vars(example))
    check_types(found, {name: type(value) for name, value in vars(example).items()})
    expect(found["vocab_size"] == vocab_size, "vocab_size", vocab_size, found["vocab_size"])
    return Config(**found)


def read_random(found: Any) -> random.Random:
    version, state, gauss_next = read_list(found, "random", 3)
    read_floats(state, "random[1]", 625)
    right = gauss_next is None or is_finite(gauss_next)
    expect(right, "random[2]", "a finite number or null", gauss_next)
    rng = random.Random()
    try:
        rng.setstate((version, tuple(state), gauss_next))
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"random: {error}") from None
    return rng


def read_adam(means: Matrices, squares: Matrices, params: Params, step: int) -> Adam:
    values = list(flatten(flatten(params.values())))
    mean_of = dict(zip(values, flatten(flatten(means.values()))))
    square_of = dict(zip(values, flatten(flatten(squares.values()))))
    adam = Adam(param_groups(params))
    adam.steps = step
    adam.means = [[mean_of[value] for value in group] for group, _ in adam.groups]
    adam.squares = [[square_of[value] for value in group] for group, _ in adam.groups]
    return adam


def read_content(found: Any) -> Checkpoint:
    expect(type(found) is dict and "version" in found, "the file", "a checkpoint", found)
    expect(found["version"] == VERSION, "version", VERSION, found["version"])
    check_keys(found, "checkpoint", FORMAT)
    check_types(found, FORMAT)
    for name, flag in found["flags"].items():
        expect(type(flag) is str or is_finite(flag), name, "a finite number or a word", flag)
    alphabet, step = found["alphabet"], found["step"]
    expect(list(alphabet) == sorted(set(alphabet)), "alphabet", "sorted characters", alphabet)
    expect(step == len(found["losses"]), "step", len(found["losses"]), step)
    config = read_config(found["config"], len(alphabet) + 1)
    weights = read_matrices(found["weights"], "weights", config)
    means = read_matrices(found["means"], "means", config)
    squares = read_matrices(found["squares"], "squares", config, low=0.0)
    params = {name: [list(map(Value, row)) for row in m] for name, m in weights.items()}
    return Checkpoint(
        flags=found["flags"],
        data=found["data"],
        tokenizer=Tokenizer(alphabet),
        config=config,
        losses=read_floats(found["losses"], "losses", step),
        rng=read_random(found["random"]),
        params=params,
        adam=read_adam(means, squares, params, step),
    )


def load(path: str | Path) -> Checkpoint:
    """ValueError that names what is wrong and where, OSError if the file cannot be read."""
    try:
        return read_content(json.loads(Path(path).read_bytes()))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: cut off, or not JSON: {error}") from None
    except RecursionError:
        raise ValueError(f"{path}: lists within lists, too deep for a checkpoint") from None
    except ValueError as error:
        raise ValueError(f"{path}: {str(error)[:300]}") from None
