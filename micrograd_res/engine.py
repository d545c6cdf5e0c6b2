"""A number that remembers how it was made, so that calculus can be run backwards through it."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any


class Value:
    """A real number `data` and, after `backward`, the slope `grad` of the result at this number.

    A leaf is a Value that you made. A computed Value also keeps its inputs and, beside each, the
    derivative of this Value with respect to that input.
    """

    __slots__ = ("data", "grad", "_inputs", "_local_grads")

    def __init__(self, data: float, inputs: Any = (), local_grads: Any = ()) -> None:
        self.data = data if type(data) is float else _real_number(data)
        self.grad = 0.0
        self._inputs = inputs
        self._local_grads = local_grads

    # Each operation in one line: its value, its inputs, the derivative with respect to each.

    def __add__(self, other: Value | float) -> Value:
        other = _as_value(other)
        return Value(self.data + other.data, (self, other), (1.0, 1.0))

    def __sub__(self, other: Value | float) -> Value:
        other = _as_value(other)
        return Value(self.data - other.data, (self, other), (1.0, -1.0))

    def __mul__(self, other: Value | float) -> Value:
        other = _as_value(other)
        return Value(self.data * other.data, (self, other), (other.data, self.data))

    def __truediv__(self, other: Value | float) -> Value:
        other = _as_value(other)
        ratio = _compute("{} / {}", operator.truediv, self.data, other.data)
        return Value(ratio, (self, other), (1.0 / other.data, -ratio / other.data))

    def __pow__(self, other: Value | float) -> Value:
        other = _as_value(other)
        power = _compute("{} ** {}", operator.pow, self.data, other.data)
        return Value(power, (self, other), _power_slopes(self.data, other.data, power))

    def __neg__(self) -> Value:
        return Value(-self.data, (self,), (-1.0,))

    def exp(self) -> Value:
        e = _compute("exp({})", math.exp, self.data)
        return Value(e, (self,), (e,))

    def log(self) -> Value:
        return Value(_compute("log({})", math.log, self.data), (self,), (1.0 / self.data,))

    def tanh(self) -> Value:
        t = math.tanh(self.data)
        return Value(t, (self,), (1.0 - t * t,))

    def relu(self) -> Value:
        off = self.data <= 0.0  # False for NaN: a diverged run must not look healthy
        return Value(0.0 if off else self.data, (self,), (0.0 if off else 1.0,))

    def __radd__(self, other: float) -> Value:
        return _as_value(other) + self

    def __rsub__(self, other: float) -> Value:
        return _as_value(other) - self

    def __rmul__(self, other: float) -> Value:
        return _as_value(other) * self

    def __rtruediv__(self, other: float) -> Value:
        return _as_value(other) / self

    def __rpow__(self, other: float) -> Value:
        return _as_value(other) ** self

    def backward(self) -> None:
        """Give every Value behind this one its `grad`: d self / d that Value.

        Leaves add it to the `grad` they have; computed Values start afresh at each call.
        Loops instead of recursion, so that a graph may be of any depth.
        """
        if not self._inputs:
            self.grad += 1.0
            return
        # Down the graph once. The sources of an operation are the operations that made its
        # inputs; each source awaits a gradient from every operation that it is a source of.
        last = _operation(self)
        sources: dict[Operation, list[Operation]] = {}
        awaited: dict[Operation, int] = {last: 0}
        outputs: dict[Operation, list[Value]] = {last: [self]}
        found = [last]
        for operation in found:  # grows on the way
            computed = [value for value in operation._inputs if value._inputs]
            for value in computed:
                value.grad = 0.0
            sources[operation] = list(dict.fromkeys([
                value._inputs if isinstance(value._inputs, Fused) else value for value in computed
            ]))
            for source in sources[operation]:
                if source not in awaited:
                    awaited[source] = 0
                    outputs[source] = []
                    found.append(source)
                awaited[source] += 1
                if isinstance(source, Fused):
                    outputs[source] += [value for value in computed if value._inputs is source]
        # Down again: an operation passes its gradient on once all of it has arrived.
        self.grad = 1.0
        ready = [last]
        while ready:
            operation = ready.pop()
            if isinstance(operation, Fused):
                dy = [0.0] * operation.size
                for value in outputs[operation]:
                    dy[value._local_grads] = value.grad
                grads = operation.pull(dy)
            else:
                grads = [local * operation.grad for local in operation._local_grads]
            for value, grad in zip(operation._inputs, grads):
                value.grad += grad
            for source in sources[operation]:
                awaited[source] -= 1
                if awaited[source] == 0:
                    ready.append(source)

    def __float__(self) -> float:
        return self.data

    def __repr__(self) -> str:
        return f"Value(data={self.data}, grad={self.grad})"

    def __reduce__(self) -> tuple[Any, ...]:  # what copy and pickle ask for
        if self._inputs:
            raise TypeError(f"only a leaf can be copied or pickled; {self} was computed")
        return Value, (self.data,), (None, {"grad": self.grad})


class Fused:
    """An operation that makes many Values at once: its inputs, and a function from the gradients
    of its outputs to the gradients of its inputs."""

    __slots__ = ("_inputs", "pull", "size")

    def __init__(self, inputs: list[Value], pull: Callable[[list[float]], Sequence[float]], size: int) -> None:
        self._inputs = inputs
        self.pull = pull
        self.size = size


Operation = Value | Fused


def _operation(value: Value) -> Operation:
    """What made this Value: a Fused operation, or the one of which it is the only output."""
    return value._inputs if isinstance(value._inputs, Fused) else value


def _as_value(x: Value | float) -> Value:
    return x if isinstance(x, Value) else Value(x)


def _real_number(x: object) -> float:
    if not isinstance(x, Real):
        raise TypeError(f"a Value holds a real number, not {x!r} ({type(x).__name__})")
    return float(x)


def _compute(name: str, function: Callable[..., Any], *numbers: float) -> float:
    """function(*numbers), or an error that says which operation on which numbers failed."""
    try:
        result = function(*numbers)
    except (ValueError, ZeroDivisionError, OverflowError) as error:
        raise type(error)(f"{name.format(*numbers)} has no finite real value") from None
    if isinstance(result, complex):
        raise ValueError(f"{name.format(*numbers)} has no real value")
    return result


def _power_slopes(a: float, b: float, power: float) -> tuple[float, float]:
    """d(a ** b)/da and d(a ** b)/db, with their limits where the formula divides zero by zero."""
    if a == 0.0:
        return (0.0 if b == 0.0 or b > 1.0 else 1.0 if b == 1.0 else math.inf), 0.0
    return b * power / a, power * math.log(a) if a > 0.0 else math.nan
