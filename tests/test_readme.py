"""The README says what the code of today says."""

import doctest
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import micrograd_res
from micrograd_res import model

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
MODULES = re.findall(r"^\| (\d+) \| \[`(\w+)\.py`\]\((\S+)\) \| (\d+) \|", README, re.MULTILINE)
COMMANDS = sorted(set(re.findall(r"python (examples/\w+\.py(?: [^`#\n]*)?)", README)))


def code(name):
    """The lines of a module that are neither blank, nor comment, nor docstring."""
    return (ROOT / "micrograd_res" / f"{name}.py").read_text(encoding="utf-8").splitlines()


def test_the_session_gives_what_it_shows():
    assert doctest.testfile(str(ROOT / "README.md"), module_relative=False).failed == 0


def test_block_is_shown_as_it_is():
    body = inspect.getsource(model.block).split('"""')[2].strip("\n")
    assert body in README


def test_the_files_are_listed_in_reading_order():
    names = [name for _, name, _, _ in MODULES]
    listed = re.findall(r"^ ?(\d+) (\w+)\.py", micrograd_res.__doc__ or "", re.MULTILINE)
    assert [(number, name) for number, name, _, _ in MODULES] == listed
    there = {path.stem for path in (ROOT / "micrograd_res").glob("*.py")} - {"__init__"}
    assert set(names) == there


@pytest.mark.parametrize(("number", "name", "link", "lines"), MODULES)
def test_a_file_has_about_as_many_lines_as_said(number, name, link, lines):
    assert link == f"micrograd_res/{name}.py"
    assert len(code(name)) == pytest.approx(int(lines), rel=0.1)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_has_the_flags_that_are_named(command):
    script, *words = command.split()
    if "pytorch" in script:
        pytest.importorskip("torch")
    text = subprocess.run(
        [sys.executable, ROOT / script, "--help"], capture_output=True, check=True, encoding="utf-8"
    ).stdout
    for word in words:
        if word.startswith("--"):
            assert word in text


def test_every_flag_named_anywhere_exists():
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "examples").glob("*.py")]
    for flag in re.findall(r"--[a-z][a-z-]*", README):
        assert any(f'"{flag}"' in text for text in texts), flag


def test_every_picture_and_every_link_to_a_file_is_there():
    for link in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / link).exists(), link


def test_every_experiment_is_shown():
    programs = {path.name for path in (ROOT / "examples").glob("*.py")} - {"common.py", "lab.py"}
    assert {name for name in programs if f"examples/{name}" in README} == programs


def test_it_is_short():
    assert len(README.splitlines()) <= 200
