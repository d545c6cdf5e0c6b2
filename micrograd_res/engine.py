"""A number that remembers how it was made, so that calculus can be run backwards through it."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from numbers import Real
from typing import Any


def real_number(x: object) -> float:
    if not isinstance(x, Real):
        raise TypeError(f"a Value holds a real number, not {x!r} of type {type(x).__name__}")
    return float(x)


def compute(form: str, function: Callable[..., Any], *numbers: float) -> Any:
    """function(*numbers), or an error that says which operation on which numbers has no answer."""
    try:
        result = function(*numbers)
    except (ValueError, ZeroDivisionError, OverflowError) as error:
        raise type(error)(f"{form.format(*numbers)} is not a finite real number") from None
    if isinstance(result, complex):
        raise ValueError(f"{form.format(*numbers)} is not a real number")
    return result


def power_slopes(a: float, b: float, power: float) -> tuple[float, float]:
    """d(a**b)/da = b a**(b-1) and d(a**b)/db = a**b log(a), which counts as 0 at a = 0."""
    if a == 0.0:
        slope = 0.0 if b == 0.0 or b > 1.0 else math.inf if b < 1.0 else b  # b is 1, or NaN
        return slope, 0.0
    try:
        slope = b * a ** (b - 1.0)
    except OverflowError:
        slope = b * power / a  # the same product, in an order that cannot raise
    return slope, power * math.log(a) if a > 0.0 else math.nan


class Value:
    """A real number `data` and, after `backward`, the slope `grad` of the result at this number.

    A Value that you make is a leaf. A computed one also keeps its inputs and, beside each, the
    derivative of this Value with respect to that input; or the Fused operation that made it
    together with others.
    """

    __slots__ = ("data", "grad", "_inputs", "_local_grads")

    def __init__(self, data: float, inputs: Any = (), local_grads: Any = ()) -> None:
        self.data: float = data if type(data) is float else real_number(data)
        self.grad = 0.0
        self._inputs = inputs  # (), a tuple of Values, or one Fused
        self._local_grads = local_grads  # a slope for each input; after a Fused, which output

    # Each operation in one line: its value, its inputs, the derivative with respect to each.

    def __add__(self, other: Value | float) -> Value:
        other = other if isinstance(other, Value) else Value(other)
        return Value(self.data + other.data, (self, other), (1.0, 1.0))

    __radd__ = __add__

    def __sub__(self, other: Value | float) -> Value:
        other = other if isinstance(other, Value) else Value(other)
        return Value(self.data - other.data, (self, other), (1.0, -1.0))

    def __mul__(self, other: Value | float) -> Value:
        other = other if isinstance(other, Value) else Value(other)
        return Value(self.data * other.data, (self, other), (other.data, self.data))

    __rmul__ = __mul__

    def __truediv__(self, other: Value | float) -> Value:
        other = other if isinstance(other, Value) else Value(other)
        ratio = compute("{} / {}", operator.truediv, self.data, other.data)
        return Value(ratio, (self, other), (1.0 / other.data, -ratio / other.data))

    def __pow__(self, other: Value | float) -> Value:
        other = other if isinstance(other, Value) else Value(other)
        power = compute("{} ** {}", operator.pow, self.data, other.data)
        return Value(power, (self, other), power_slopes(self.data, other.data, power))

    def __neg__(self) -> Value:
        return Value(-self.data, (self,), (-1.0,))

    def exp(self) -> Value:
        e = compute("exp({})", math.exp, self.data)
        return Value(e, (self,), (e,))

    def log(self) -> Value:
        return Value(compute("log({})", math.log, self.data), (self,), (1.0 / self.data,))

    def tanh(self) -> Value:
        t = math.tanh(self.data)
        return Value(t, (self,), (1.0 - t * t,))

    def relu(self) -> Value:
        off = self.data <= 0.0  # False for NaN: a run that diverged must not look healthy
        return Value(0.0 if off else self.data, (self,), (0.0 if off else 1.0,))

    def __rsub__(self, other: float) -> Value:
        return Value(other) - self

    def __rtruediv__(self, other: float) -> Value:
        return Value(other) / self

    def __rpow__(self, other: float) -> Value:
        return Value(other) ** self

    def _operations(self) -> tuple[list[Value | Fused], dict[Value | Fused, list[Value]]]:
        """The operations behind this Value, inputs first; and of each the outputs that lead here,
        once for each use.

        A Value that was not made by a Fused is the one output of an operation of its own. Depth
        first, on a stack of its own: recursion would end 1,000 deep.
        """
        order: list[Any] = []
        outputs: dict[Value | Fused, list[Value]] = {}
        stack: list[tuple[Any, Iterator[Value]]] = [(None, iter([self]))]  # None: backward, last
        while stack:
            operation, inputs = stack[-1]
            source: Any = None  # of the input before: most come in rows from one Fused
            for value in inputs:  # from where it stopped the last time
                made_by = value._inputs
                if not made_by:
                    continue
                if made_by is not source:
                    source = made_by if isinstance(made_by, Fused) else value
                    if source not in outputs:
                        outputs[source] = [value]
                        stack.append((source, iter(source._inputs)))
                        break
                    made = outputs[source]
                made.append(value)
            else:
                order.append(operation)
                stack.pop()
        return order[:-1], outputs

    def backward(self) -> None:
        """Set `grad` of every Value behind this one to d self / d that Value.

        Leaves add it to the `grad` they have. Computed Values start afresh at each call; what is
        not behind this Value keeps its `grad`.
        """
        order, outputs = self._operations()
        for made in outputs.values():
            for value in made:
                value.grad = 0.0
        self.grad += 1.0
        for operation in reversed(order):
            if isinstance(operation, Fused):
                dy = [0.0] * operation.n_output
                for value in outputs[operation]:
                    dy[value._local_grads] = value.grad
                grads = operation.pull(dy)
            else:  # the chain rule
                grads = [local * operation.grad for local in operation._local_grads]
            for value, grad in zip(operation._inputs, grads, strict=True):
                value.grad += grad  # the paths from a value to self add up

    def __float__(self) -> float:
        return float(self.data)  # somebody may have set it to an int

    def __repr__(self) -> str:
        return f"Value(data={self.data}, grad={self.grad})"

    def __reduce__(self) -> tuple[Any, ...]:  # for copy and pickle
        if self._inputs:
            raise TypeError(f"only a leaf can be copied or pickled, and {self} was computed")
        return type(self), (self.data,), (None, {"grad": self.grad})


class Fused:
    """One operation that made `n_output` Values at once; fused.py is full of them.

    `pull` turns the gradients of the outputs into those of the inputs. The outputs refer to their
    operation but never it to them: a cycle would outlive the graph that it belongs to.
    """

    __slots__ = ("_inputs", "pull", "n_output")

    def __init__(
        self, inputs: list[Value], pull: Callable[[list[float]], Iterable[float]], n_output: int
    ) -> None:
        self._inputs = inputs
        self.pull = pull
        self.n_output = n_output

    def make_outputs(self, data: Iterable[float]) -> list[Value]:
        """The `n_output` Values, without the checks of Value(), which would take a third."""
        values = list(map(object.__new__, repeat(Value, self.n_output)))
        for i, (value, number) in enumerate(zip(values, data, strict=True)):
            value.data = number * 1.0  # a float, also where somebody has set `data` to an int
            value.grad = 0.0
            value._inputs = self
            value._local_grads = i
        return values
