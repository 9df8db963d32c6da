"""The example, the program of the demonstration, and the README: what they say is what runs."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from mustela import App, TopologyTestDriver
from mustela_dev.demo import wordcount as demo_program

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "e01_wordcount.py"
LINES = ["to be or not to be", "", "that is the question", "to be"]
EXPECTED = {
    **{"to": 3, "be": 3, "or": 1, "not": 1},
    **{"that": 1, "is": 1, "the": 1, "question": 1},
}


def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("example_wordcount", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=["example", "demo"])
def app(request: pytest.FixtureRequest) -> App:
    return example().app if request.param == "example" else demo_program.app


def test_words_are_counted(app: App) -> None:
    """Every word, in every line, whatever its key."""
    with TopologyTestDriver(app) as driver:
        lines = driver.create_input_topic("lines")
        for number, text in enumerate(LINES):
            lines.pipe_input(f"file{number}", text)
        counts = driver.create_output_topic("counts").read_key_values_to_list()
    assert dict(counts) == EXPECTED


def test_the_demo_copies_every_line() -> None:
    """The side stream is the input, unchanged."""
    with TopologyTestDriver(demo_program.app) as driver:
        lines = driver.create_input_topic("lines")
        for number, text in enumerate(LINES):
            lines.pipe_input(f"file{number}", text)
        copies = driver.create_output_topic("lines-copy").read_key_values_to_list()
    assert [tuple(copy) for copy in copies] == [
        (f"file{number}", text) for number, text in enumerate(LINES)
    ]


def test_the_readme_shows_the_example() -> None:
    """Line by line, from the import to the end."""
    source = EXAMPLE.read_text(encoding="utf-8")
    program = source[source.index("from mustela import") :]
    assert program.rstrip() in (ROOT / "README.md").read_text(encoding="utf-8")
