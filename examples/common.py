"""What the example programs share: checked numbers on the command line, a progress line."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path

NAMES = Path(__file__).with_name("names.txt")


def whole(low: int) -> Callable[[str], int]:
    """An argparse type: a whole number from low."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = low - 1
        if number < low:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low}")
        return number

    return parse


def real(low: float, high: float = math.inf, *, above: bool = False) -> Callable[[str], float]:
    """An argparse type: a finite number from low (or above it) to below high."""

    def parse(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not (low < number if above else low <= number) or not number < high:
            bounds = f"{'above' if above else 'from'} {low:g}"
            bounds += f" to below {high:g}" if high < math.inf else ""
            raise argparse.ArgumentTypeError(f"{text!r} is not a number {bounds}")
        return number

    return parse


class Progress:
    """One line that renews itself on a terminal; ten lines in all where output goes to a file."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.start = self.shown = time.monotonic()
        self.live = sys.stdout.isatty()

    def show(self, done: int, text: str) -> None:
        now = time.monotonic()
        left = (now - self.start) / done * (self.total - done)
        line = f"step {done:{len(str(self.total))}d} of {self.total}  {text}  {left:4.0f} s left"
        if self.live and (now - self.shown > 0.1 or done == self.total):
            self.shown = now
            print(f"\r{line}", end="\n" if done == self.total else "", flush=True)
        elif not self.live and done % max(1, self.total // 10) == 0:
            print(line, flush=True)
