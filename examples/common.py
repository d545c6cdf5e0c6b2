"""What the example programs share: checked flags, progress, and a tidy end whatever happens."""

from __future__ import annotations

import argparse
import io
import math
import os
import shutil
import signal
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

NAMES = Path(__file__).with_name("names.txt")


def whole(low: int) -> Callable[[str], int]:
    """An argparse type: a whole number from low."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = low - 1
        if number < low:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low} up")
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
            bounds += f" to below {high:g}" if high < math.inf else " up"
            raise argparse.ArgumentTypeError(f"{text!r} is not a finite number {bounds}")
        return number

    return parse


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(message)  # which `run_main` says in one line


def printable(text: str) -> str:
    """The text without what would move the cursor or change the colours of a terminal."""
    return "".join(
        ascii(c)[1:-1] if unicodedata.category(c) in ("Cc", "Zl", "Zp") else c for c in text
    )


def clipped(text: str, width: int) -> str:
    """The text, cut to so many columns. Letters of East Asia take two."""
    sizes = [2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text]
    if sum(sizes) <= width:
        return text
    while sum(sizes) > width - 3:
        sizes.pop()
    return text[: len(sizes)] + "..."


def columns() -> int:
    """Of the terminal, or 80 in a pipe. Output is made for 40 or more."""
    return max(40, shutil.get_terminal_size().columns)


def duration(seconds: float) -> str:
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


class Progress:
    """One line that renews itself on a terminal; ten lines in all where output goes to a file."""

    def __init__(self, total: int, done: int = 0) -> None:
        self.total = total
        self.first = done
        self.start = self.shown = time.monotonic()
        self.live = sys.stdout.isatty()

    def show(self, done: int, text: str) -> None:
        now = time.monotonic()
        left = duration((now - self.start) / (done - self.first) * (self.total - done))
        line = f"step {done:{len(str(self.total))}d}/{self.total}  {text}  {left} left"
        if self.live and (now - self.shown > 0.1 or done == self.total):
            self.shown = now
            width = columns() - 1
            end = "\n" if done == self.total else ""
            print(f"\r{line[:width]:{width}}", end=end, flush=True)
        elif not self.live and done % max(1, self.total // 10) == 0:
            print(line, flush=True)

    def stop(self) -> None:
        """Before all steps are done: what comes next begins a line of its own."""
        if self.live:
            print()


def add_sampling_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("making up names").add_argument
    add("--samples", type=whole(0), default=20, metavar="N", help="how many (20)")
    add("--prompt", default="", metavar="TEXT", help="how each of them begins")
    add("--temperature", type=real(0), default=0.5, metavar="X", help="0: likeliest only (0.5)")
    add("--top-k", type=whole(0), default=0, metavar="N", help="of the N likeliest; 0: all (0)")


@contextmanager
def on_signals(handler: Callable[[int, object], None]) -> Iterator[None]:
    """Ctrl-C and SIGTERM call the handler."""
    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler_before in before.items():
            signal.signal(number, handler_before)


@contextmanager
def noted_signals() -> Iterator[list[int]]:
    """Ctrl-C and SIGTERM come into this list, to be looked at when it suits; a second one kills."""
    noted: list[int] = []

    def note(number: int, frame: object) -> None:
        if noted:
            os._exit(128 + number)
        noted.append(number)

    with on_signals(note):
        yield noted


def leave(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


def complain(error: Exception, status: int) -> int:
    named = isinstance(error, OSError) and error.filename is not None
    print(f"error: {f'{error.filename}: {error.strerror}' if named else error}", file=sys.stderr)
    return status


def run_main(main: Callable[[], int]) -> int:
    """The exit status of main: 1 if the maths overflowed, 2 for input that cannot be used."""
    sys.stdout = sys.stdout or io.TextIOWrapper(io.BytesIO())  # None after `>&-`
    sys.stdout.reconfigure(errors="backslashreplace")  # a name in Thai on a terminal without Thai
    try:
        with on_signals(leave):
            status = main()
            sys.stdout.flush()
    except SystemExit as end:
        status = end.code
    except BrokenPipeError:  # as in `| head`
        status = 128 + 13  # SIGPIPE
    except ArithmeticError as error:
        status = complain(error, 1)
    except (ValueError, OSError) as error:
        status = complain(error, 2)
    try:
        sys.stdout.flush()
    except OSError:  # nobody reads: let Python's own flush at the end go nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status
