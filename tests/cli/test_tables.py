"""Tables: by rich on terminals, plain elsewhere, and the same facts in both."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import pytest

from cli.conftest import clean_environment
from pratique_cli.outputs.columns import Column, Row, display_width, table_text
from pratique_cli.terminal import Palette

Program: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"
Shown: TypeAlias = "Callable[..., str]"

PLAIN = Palette()
SCREEN = Palette(terminal=True, width=40)
COLOURS = Palette(terminal=True, width=40, colour=True)
COLUMNS = (Column("NAME"), Column("COUNT", right=True), Column("DOES", keep=False))
STYLE = re.compile(r"\x1b\[[0-9;]*m")

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: a, image: b}]}\n"
HOOK = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: slow}
webhooks:
- name: a.example.com
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  clientConfig: {url: https://127.0.0.1:1/}
  timeoutSeconds: 30
  sideEffects: None
  admissionReviewVersions: [v1]
"""


def rows(*cells: Sequence[str], style: str = "") -> list[Row]:
    return [Row(row, (style,) if style else ()) for row in cells]


@pytest.mark.parametrize("palette", [PLAIN, SCREEN], ids=["pipe", "terminal"])
def test_columns_are_as_wide_as_their_widest_cell(palette: Palette) -> None:
    assert table_text(COLUMNS, rows(("a", "1", "x"), ("long", "200", "y")), palette) == (
        "NAME  COUNT  DOES\na         1  x\nlong    200  y\n"
    )


@pytest.mark.parametrize("palette", [PLAIN, SCREEN], ids=["pipe", "terminal"])
def test_wide_and_combining_characters_take_the_columns_that_they_have_on_a_screen(palette: Palette) -> None:
    lines = table_text(COLUMNS, rows(("日本", "1", "x"), ("e\u0301t", "1", "x")), palette).splitlines()
    assert lines == ["NAME  COUNT  DOES", "日本      1  x", "e\u0301t        1  x"]
    assert {display_width(line) for line in lines[1:]} == {14}


@pytest.mark.parametrize("palette", [PLAIN, SCREEN], ids=["pipe", "terminal"])
def test_foreign_text_controls_neither_the_terminal_nor_the_markup(palette: Palette) -> None:
    shown = table_text(COLUMNS, rows(("\x1b[31m", "1", "[red]not markup[/red] :bomb:")), palette)
    assert "\x1b" not in shown
    assert "[red]not markup[/red] :bomb:" in " ".join(shown.split())


def test_a_terminal_wraps_the_longest_column_and_loses_nothing() -> None:
    words = [f"word{number}" for number in range(20)]
    shown = table_text(COLUMNS, rows(("pods", "1", " ".join(words))), SCREEN)
    assert max(map(len, shown.splitlines())) <= 40
    assert shown.split() == ["NAME", "COUNT", "DOES", "pods", "1", *words]


def test_a_pipe_gets_one_line_for_each_row() -> None:
    assert len(table_text(COLUMNS, rows(("pods", "1", "word " * 100)), PLAIN).splitlines()) == 2


def test_a_name_longer_than_the_terminal_is_shown_whole() -> None:
    name = "n" * 100
    shown = table_text((Column("OBJECT", keep=False), Column("OK")), rows((name, "yes")), SCREEN)
    assert "".join(shown.split()).count("n") == 100


def test_colour_is_on_the_first_cell_and_changes_no_width() -> None:
    plain = table_text(COLUMNS, rows(("a", "1", "x")), SCREEN)
    coloured = table_text(COLUMNS, rows(("a", "1", "x"), style="red"), COLOURS)
    assert "\x1b[31ma" in coloured
    stripped = [line.rstrip() for line in STYLE.sub("", coloured).splitlines()]
    assert stripped == plain.splitlines()


def test_a_table_without_rows_is_its_head() -> None:
    assert table_text(COLUMNS, [], SCREEN) == table_text(COLUMNS, [], PLAIN) == "NAME  COUNT  DOES\n"


def test_a_terminal_without_rich_gets_the_plain_table() -> None:
    code = (
        "import sys; sys.modules['rich'] = None\n"
        "from pratique_cli.outputs.columns import Column, Row, table_text\n"
        "from pratique_cli.terminal import Palette\n"
        "print(table_text([Column('A')], [Row(['x'])], Palette(terminal=True)), end='')"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "A\nx\n"


COMMANDS = [
    ("review", "-o", "table", "--admission-control", "AlwaysDeny", "pod.yaml"),
    ("check", "-o", "table", "hook.yaml"),
    ("budget", "-o", "table", "hook.yaml"),
    ("bench", "-o", "table", "--seconds", "100ms", "pod.yaml"),
    ("plugins", "-o", "table"),
    ("quotas", "-o", "table"),
]


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    (tmp_path / "pod.yaml").write_text(POD)
    (tmp_path / "hook.yaml").write_text(HOOK)
    return tmp_path


@pytest.mark.usefixtures("inputs")
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_every_table_fits_a_narrow_terminal(on_terminal: Shown, command: tuple[str, ...]) -> None:
    shown = STYLE.sub("", on_terminal(*command, COLUMNS="90", PRATIQUE_NO_PROGRESS="1"))
    assert re.search(r"^ *[A-Z]+ +[A-Z]", shown, re.MULTILINE)
    table = shown.partition("\n\n")[2] if command[0] == "bench" else shown
    assert all(len(line) <= 90 for line in table.splitlines() if not line.startswith("pratique: "))


@pytest.mark.usefixtures("inputs")
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_no_table_loads_rich_or_writes_colours_into_a_pipe(inputs: Path, command: tuple[str, ...]) -> None:
    code = (
        "import sys, contextlib\nfrom pratique_cli.main import main\n"
        f"with contextlib.suppress(SystemExit): main({list(command)!r})\n"
        "assert 'rich' not in sys.modules"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=inputs,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout
    assert "\x1b" not in ran.stdout


@pytest.mark.usefixtures("inputs")
@pytest.mark.parametrize(
    ("variables", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_a_terminal_gets_a_coloured_table_unless_it_says_otherwise(
    on_terminal: Shown, *, variables: dict[str, str], coloured: bool
) -> None:
    assert importlib.util.find_spec("rich") is not None
    shown = on_terminal("review", "-o", "table", "--admission-control", "AlwaysDeny", "pod.yaml", **variables)
    assert ("\x1b[1;31mdenied" in shown) is coloured
    assert "denied" in shown
