"""Writing the Python code of an expression: lines, names, constants, and the cost that lines have yet to charge.

Only words of ours, numbered names, and numbers of ours go into the code. Everything that comes from the expression is a
constant, which the code receives as the default value of a parameter.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

from pratique.cel.values import Value

MAX_LINES = 600
"""The most lines of one expression's code. A typical expression takes 10 to 40, and a thousand take 5 ms to compile."""
MAX_CONSTANTS = 300
"""The most constants of one expression's code; each call of the code copies them, at 1 ns each."""
MAX_INDENT = 14
"""The deepest block. Python allows 20 loops within each other, and 100 blocks."""
_MAX_TEXT = 100
"""The longest text that becomes part of another; a longer one gets a name, so that code never nests deeply."""
_MAX_TERMS = 8
"""The most terms of one sum, which nests them."""

COST, WORK = "@cost", "@work"
"""Where the code keeps cost and uncounted work: in local variables, or in a frame if a function needs one."""


class OversizedCodeError(Exception):
    """The code of an expression would be too large."""


class CodeValue(NamedTuple):
    """A value in the code."""

    text: str
    """A name, or an expression that may be evaluated once."""
    kind: type | None = None
    """Its type, if that is certain."""
    is_name: bool = False
    """Whether it may be used several times."""


class Charges(NamedTuple):
    """What the code has done but not yet charged."""

    cost: int = 0
    terms: tuple[str, ...] = ()
    """Costs that depend on values."""
    work: int = 0


NOTHING = Charges()


class CodeWriter:
    """Writes the code of one expression."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.constants: list[Value] = []
        self.charges = NOTHING
        self.mappings: set[str] = set()
        """The names whose values are certainly JSON objects."""
        self.has_loops = False
        self.needs_frame = False
        self.has_work = False
        self.steps_called = 0
        """How many steps the code calls; they read comprehension variables from the frame."""
        self._texts: dict[str, CodeValue] = {}
        self._names = 0
        self._indent = 1

    @property
    def is_deep(self) -> bool:
        """Whether no further block may be nested."""
        return self._indent >= MAX_INDENT

    def line(self, text: str) -> None:
        """Write a line. Raises OversizedCodeError if there are too many."""
        if len(self.lines) >= MAX_LINES:
            raise OversizedCodeError
        self.lines.append(" " * self._indent + text)

    def insert(self, place: int, texts: list[str], *, indent: int = 0) -> None:
        """Write lines before those from ``place`` on, ``indent`` blocks deeper than the current one."""
        self.lines[place:place] = [" " * (self._indent + indent) + text for text in texts]

    @contextlib.contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Write a block, whose charges are settled at its end; what it learns of names is forgotten after it."""
        self.line(head)
        mappings = self.mappings
        self.mappings = set(mappings)
        self._indent += 1
        before = len(self.lines)
        yield
        self.settle()
        if len(self.lines) == before:
            self.line("pass")
        self._indent -= 1
        self.mappings = mappings

    def constant(self, value: Value) -> CodeValue:
        """Refer to a constant. Raises OversizedCodeError if there are too many."""
        if type(value) is str and value in self._texts:
            return self._texts[value]
        if len(self.constants) >= MAX_CONSTANTS:
            raise OversizedCodeError
        operand = CodeValue(f"k{len(self.constants)}", type(value), is_name=True)
        self.constants.append(value)
        if type(value) is str:
            self._texts[value] = operand
        return operand

    def new_name(self) -> str:
        """Make a name that the code does not use yet."""
        self._names += 1
        return f"v{self._names}"

    def named(self, operand: CodeValue) -> CodeValue:
        """Give a value a name, so that it can be used several times."""
        if operand.is_name:
            return operand
        name = self.new_name()
        self.line(f"{name} = {operand.text}")
        return CodeValue(name, operand.kind, is_name=True)

    def shortened(self, operand: CodeValue) -> CodeValue:
        """Give a value with a long text a name."""
        return self.named(operand) if len(operand.text) > _MAX_TEXT else operand

    def charge(self, cost: int, *terms: str, work: int = 0) -> None:
        """Remember to charge."""
        charges = self.charges
        self.charges = Charges(charges.cost + cost, charges.terms + terms, charges.work + work)
        if len(self.charges.terms) > _MAX_TERMS:
            self.settle()

    def settle(self) -> None:
        """Charge what has not been charged yet."""
        cost, terms, work = self.charges
        self.charges = NOTHING
        if cost or terms:
            self.line(f"{COST} += {' + '.join([*([str(cost)] if cost else []), *terms])}")
        if work:
            self.add_work(str(work))

    def check(self) -> None:
        """Charge, and end the evaluation if that exceeds the limit."""
        self.settle()
        self.line(f"if {COST} > limit: return None, {COST}, {WORK}")

    def check_all(self) -> None:
        """Charge, and end the evaluation if that exceeds a limit, before something is done that can be noticed."""
        self.check()
        if self.has_work:
            self.line(f"if {WORK} > work_limit: return None, {COST}, {WORK}")

    def add_work(self, amount: str, condition: str = "") -> None:
        """Count work that depends on a value."""
        self.has_work = True
        self.line(f"{condition}{WORK} += {amount}")

    def known_text(self, value: CodeValue) -> str | None:
        """The text that a value certainly is."""
        return next((text for text, known in self._texts.items() if known.text == value.text), None)

    def frame(self) -> str:
        """Refer to the frame, before a function is called that charges it or does much."""
        self.needs_frame = True
        self.check_all()
        return "frame"

    def source(self, result: CodeValue, slots: int) -> str:
        """The whole function."""
        self.settle()
        head = ["variables", "limit", "work_limit", "until", *(f"k{n}" for n in range(len(self.constants)))]
        start = [" cost = work = 0"]
        if self.needs_frame:
            start = [f" frame = Frame(variables, {slots}, limit, work_limit, until)", " slots = frame.slots"]
        if self.has_loops:
            start.append(" steps = 0")
        end = f" return {result.text}, {COST}, {WORK}"
        text = "\n".join([f"def expression({', '.join(head)}):", *start, *self.lines, end])
        cost, work = ("frame.cost", "frame.uncounted_work") if self.needs_frame else ("cost", "work")
        return text.replace(COST, cost).replace(WORK, work)
