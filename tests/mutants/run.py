"""Break security-critical lines one by one and see whether a test notices: ``make mutants ARGS=--help``.

``targets.toml`` says which modules to break, which of their functions, and which tests have to notice. Cosmic Ray makes
the mutants. Each one is tried in a copy of the repository, so your working tree stays as it is, and by a process forked
from one that has imported what tests need: starting pytest anew would take as long as most of these tests do.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import difflib
import hashlib
import importlib.util
import multiprocessing
import os
import pickle
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click
import pytest
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.ast.ast_query import ASTQuery
from cosmic_ray.mutating import MutationVisitor
from cosmic_ray.plugins import get_operator, operator_names

from mutants.meanings import meaning_of

ROOT = Path(__file__).resolve().parents[2]
TARGETS = Path(__file__).with_name("targets.toml")
_SLOWER = 4
"""A mutant may take this many times as long as the unbroken code; one that takes longer hangs, which is noticed."""
_GRACE_SECONDS = 60.0
"""Added to that, so that a busy machine does not make a mutant look as if it were noticed."""
_UNBROKEN_SECONDS = 600.0
_IMPORTED = (
    "__main__",
    "_pytest.assertion",
    "cryptography.x509",
    "grpc",
    "hypothesis.strategies",
    "msgspec",
    "pytest",
)
"""Imported before forking; nothing of this repository but this file, for that is what gets broken."""
_REPLACED = {
    "Comparison": "Eq_NotEq Eq_LtE Eq_GtE NotEq_Eq NotEq_Lt NotEq_Gt Lt_LtE Lt_NotEq Gt_GtE Gt_NotEq LtE_Lt LtE_Eq"
    " GtE_Gt GtE_Eq Is_IsNot IsNot_Is In_NotIn NotIn_In",
    "Binary": "Add_Sub Sub_Add Mul_Add Div_Mul FloorDiv_Mul Mod_Mul Pow_Mul BitOr_BitAnd BitAnd_BitOr BitXor_BitOr"
    " LShift_RShift RShift_LShift",
    "Unary": "Delete_Not Delete_USub Delete_Invert",
}
"""Replacements of operators that are tried. A test that notices these notices the others, too (G. Kaminski, P. Ammann
and J. Offutt, "Improving logic-based testing", 2013), or they are no Python."""
_SURVIVED, _KILLED, _HUNG = "NOT NOTICED", "noticed", "noticed, as it hung"


@dataclasses.dataclass(frozen=True)
class Target:
    """One module to break."""

    module: str
    tests: tuple[str, ...]
    definitions: tuple[str, ...] = ()
    """The functions and classes to break; empty means the whole module."""
    by_hand: tuple[dict[str, str], ...] = ()
    """Mutants that no tool would think of: each replaces the text ``before``, found once, by ``after``."""
    harmless: tuple[dict[str, str], ...] = ()
    """Mutants that change nothing anyone could notice: the line ``before`` and ``after``, and ``why``."""

    def excuses(self, mutant: Mutant) -> bool:
        """Tell whether the mutant is listed as harmless."""
        return any(_places(entry) == (mutant.before, mutant.after) for entry in self.harmless)


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One way to break a module."""

    target: Target
    line: int
    definition: str
    before: str
    after: str
    code: str

    def lot(self, seed: int) -> bytes:
        """Where it stands when mutants are sampled: the same place whatever becomes of other mutants."""
        drawn = (seed, self.target.module, self.definition, self.before, self.after)
        return hashlib.sha256(repr(drawn).encode()).digest()

    def __str__(self) -> str:
        """Say what is broken, and how, the way a diff does."""
        where = f"{self.target.module}:{self.line}" + (f" in {self.definition}" if self.definition else "")
        return f"{where}\n    - {self.before}\n    + {self.after}"


def main() -> int:
    """Try mutants; 0 where every one is noticed or listed as harmless, 1 otherwise."""
    arguments = _arguments()
    targets = [target for target in read_targets() if arguments.module in target.module]
    if not targets:
        sys.exit(f"mutants: no target's path contains {arguments.module!r}; {TARGETS.name} lists them")
    mutants = [mutant for target in targets for mutant in mutants_of(target)]
    stale = [] if arguments.module else list(_stale(targets, mutants))
    mutants = [mutant for mutant in mutants if not mutant.target.excuses(mutant)]
    made = len(mutants)
    if arguments.sample:
        mutants = sorted(mutants, key=lambda mutant: mutant.lot(arguments.seed))[: arguments.sample]
    if arguments.list:
        click.echo("\n".join(map(str, mutants)))
        return 0
    survivors = _try_all(mutants, arguments.workers)
    for survivor in survivors:
        click.echo(f"mutants: no test noticed {survivor}")
    for entry in stale:
        click.echo(f"mutants: no such mutant any more, take it out of {TARGETS.name}: {entry}")
    killed = len(mutants) - len(survivors)
    click.echo(f"mutants: {killed} of {len(mutants)} noticed ({made} made, seed {arguments.seed})")
    return 1 if survivors or stale else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--module", default="", help="only targets whose path contains this")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="try N mutants; 0 tries all")
    parser.add_argument("--seed", type=int, default=1, help="chooses the sample (default: 1)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="how many to try at a time")
    parser.add_argument("--list", action="store_true", help="list the mutants without trying them")
    return parser.parse_args()


def read_targets() -> tuple[Target, ...]:
    """Read ``targets.toml``."""
    with TARGETS.open("rb") as file:
        entries = tomllib.load(file)["target"]
    return tuple(
        Target(
            entry["module"],
            tuple(entry["tests"]),
            tuple(entry.get("definitions", ())),
            tuple(entry.get("by_hand", ())),
            tuple(entry.get("harmless", ())),
        )
        for entry in entries
    )


def mutants_of(target: Target) -> Iterator[Mutant]:
    """Make every mutant of a module that behaves in another way, once.

    Mutants of annotations, of imports for type checkers, and of how a dataclass is stored are left out.
    """
    source = (ROOT / target.module).read_text("utf-8")
    yield from _by_hand(target, source)
    tree, seen = get_ast(source), {meaning_of(source)}
    pickled, nodes = pickle.dumps(tree), list(ast_nodes(tree))
    for name in operator_names():
        operator = get_operator(name)
        if operator.arguments() or not _is_tried(name):
            continue
        made = operator()
        positions = ((node, start) for node in nodes for start, _ in made.mutation_positions(node))
        for occurrence, (node, start) in enumerate(positions):
            definition = ASTQuery(node).get_definition_name() or ""
            if target.definitions and definition not in target.definitions:
                continue
            # an operator changes a tree for good; reading one anew takes a fifth of what parsing does
            visitor = MutationVisitor(occurrence, operator())
            try:
                code = visitor.walk(pickle.loads(pickled)).get_code()
            except AttributeError:
                continue  # Cosmic Ray cannot replace an exception that is written with a dot
            meaning = meaning_of(code)
            if not meaning or meaning in seen:
                continue
            seen.add(meaning)
            before, after = _difference(source, code)
            yield Mutant(target, start[0], definition, before, after, code)


def _is_tried(name: str) -> bool:
    _, replaced, pair = name.partition("Operator_")
    kind = name.removeprefix("core/Replace").removesuffix(f"Operator_{pair}")
    return not replaced or pair in _REPLACED[kind].split()


def _by_hand(target: Target, source: str) -> Iterator[Mutant]:
    for entry in target.by_hand:
        before, after = _places(entry)
        if source.count(before) != 1:
            sys.exit(f"mutants: {target.module} has to hold this text once: {before}")
        line = source[: source.index(before)].count("\n") + 1
        yield Mutant(target, line, "", before.strip(), after.strip(), source.replace(before, after))


def _difference(source: str, code: str) -> tuple[str, str]:
    lines = list(difflib.ndiff(source.splitlines(), code.splitlines()))
    removed, added = (
        " ".join(word for line in lines if line.startswith(sign) for word in line[2:].split())
        for sign in ("- ", "+ ")
    )
    return removed, added


def _places(entry: dict[str, str]) -> tuple[str, str]:
    return entry["before"], entry["after"]


def _stale(targets: Sequence[Target], mutants: Sequence[Mutant]) -> Iterator[str]:
    """The entries of harmless mutants that nobody can make any more."""
    for target in targets:
        there = {(mutant.before, mutant.after) for mutant in mutants if mutant.target is target}
        yield from (
            f"{target.module}: {entry['before']}" for entry in target.harmless if _places(entry) not in there
        )


def _try_all(mutants: Sequence[Mutant], workers: int) -> list[Mutant]:
    """Try mutants in copies of the repository; gives those that no test noticed."""
    with tempfile.TemporaryDirectory(prefix="pratique-mutants-") as folder:
        copies: queue.SimpleQueue[Path] = queue.SimpleQueue()
        for number in range(workers):
            copies.put(_copy(Path(folder) / str(number)))
        limits = _limits({mutant.target.tests for mutant in mutants}, copies)

        def attempt(mutant: Mutant) -> tuple[Mutant, str]:
            copy = copies.get()
            try:
                return mutant, _try(mutant, copy, limits[mutant.target.tests])
            finally:
                copies.put(copy)

        survivors = []
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            running = [pool.submit(attempt, mutant) for mutant in mutants]
            for number, done in enumerate(concurrent.futures.as_completed(running), 1):
                mutant, verdict = done.result()
                click.echo(f"[{number}/{len(mutants)}] {verdict}: {mutant}", err=True)
                if verdict is _SURVIVED:
                    survivors.append(mutant)
        return survivors


def _copy(folder: Path) -> Path:
    """Copy what git knows, the generated code, and the bytecode of both, if there is any; nothing else."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    generated = (ROOT / "services/pratique/admission/v1").glob("*.py*")
    for source in (*map(ROOT.joinpath, filter(None, listed.split("\0"))), *generated):
        _copy_file(source, folder / source.relative_to(ROOT))
        if source.suffix == ".py":
            compiled = (
                Path(importlib.util.cache_from_source(file))
                for file in (source, folder / source.relative_to(ROOT))
            )
            _copy_file(*compiled)
    return folder


def _copy_file(source: Path, copied: Path) -> None:
    if source.is_file():
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, copied, follow_symlinks=False)


def _limits(sets: Iterable[Sequence[str]], copies: queue.SimpleQueue[Path]) -> dict[Sequence[str], float]:
    """How long each set of tests may take with a mutant, in seconds. The unbroken code has to pass first."""
    copy = copies.get()
    limits: dict[Sequence[str], float] = {}
    for tests in sets:
        begun = time.monotonic()
        if _run(tests, copy, _UNBROKEN_SECONDS) is not _SURVIVED:
            sys.exit(
                f"mutants: {' '.join(tests)} fail without any mutant:\n{_output(copy).read_text('utf-8')}"
            )
        limits[tests] = _SLOWER * (time.monotonic() - begun) + _GRACE_SECONDS
    copies.put(copy)
    return limits


def _try(mutant: Mutant, copy: Path, seconds: float) -> str:
    file = copy / mutant.target.module
    original = file.read_bytes()
    # Bytecode is told by second and size, which two mutants can share.
    compiled = Path(importlib.util.cache_from_source(file))
    file.write_text(mutant.code, "utf-8")
    compiled.unlink(missing_ok=True)
    try:
        return _run(mutant.target.tests, copy, seconds)
    finally:
        file.write_bytes(original)
        compiled.unlink(missing_ok=True)


def _run(tests: Sequence[str], copy: Path, seconds: float) -> str:
    """Run tests on what ``copy`` holds."""
    forked = multiprocessing.get_context("forkserver")
    forked.set_forkserver_preload(list(_IMPORTED))
    process = forked.Process(target=_run_pytest, args=(copy, tests))
    process.start()
    process.join(seconds)
    if process.exitcode is not None:
        return _KILLED if process.exitcode else _SURVIVED
    os.killpg(process.pid or 0, signal.SIGKILL)
    process.join()
    return _HUNG


def _run_pytest(copy: Path, tests: Sequence[str]) -> None:
    """Run tests in a session of their own, so that a test that hangs ends with all the services that it started."""
    os.setsid()
    os.chdir(copy)
    with _output(copy).open("wb") as file:
        for descriptor in (1, 2):
            os.dup2(file.fileno(), descriptor)
    # The copy comes before the installed package, for the tests and for the services that they start.
    services = copy / "services"
    sources = [str(services), *(str(services / name) for name in ("mutator", "validator", "frontdoor"))]
    os.environ["PYTHONPATH"] = os.pathsep.join(sources)
    # Nothing but the module that is broken is to be compiled again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    sys.path[:0] = sources
    # What is imported already cannot have its assertions explained.
    options = [
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-W",
        "ignore::pytest.PytestAssertRewriteWarning",
    ]
    sys.exit(pytest.main([*options, "--rootdir", str(copy), *(str(copy / test) for test in tests)]))


def _output(copy: Path) -> Path:
    return copy.with_name(f"{copy.name}.log")


if __name__ == "__main__":
    sys.exit(main())
