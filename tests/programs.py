"""How the tests run an example: as its user does, or within this process, which is faster."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from examples.common import run_main

ROOT = Path(__file__).resolve().parent.parent


def command(name: str, *args: object) -> list[str]:
    return [sys.executable, "-W", "error", str(ROOT / "examples" / name), *map(str, args)]


def environment(**changes: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "LC_", "LANG"))}
    return kept | changes


def start(name: str, *args: object, **env: str) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(command(name, *args), stdout=pipe, stderr=pipe, env=environment(**env))


def within(main: Callable[[list[str]], int], *args: object) -> int:
    return run_main(lambda: main(list(map(str, args))))
