"""Fuzzes targets, one after another, each in a process of its own: ``python tests/fuzzing/fuzz.py --seconds 60``.

What crashes becomes a file beside the regression cases, which ``make test`` runs from then on.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import logging
import resource
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fuzzing.targets import Target

HERE = Path(__file__).resolve().parent
WORK = HERE.parents[1] / "build" / "fuzzing"
"""What fuzzing finds on its way; git does not hold it."""
HANGS_SECONDS = 20
"""When an attempt is stopped from outside; well before, it is told that it took too long, if it ever ends."""
LONGEST = 32 * 1024
"""Bytes of an input."""
KEPT_BYTES = 4 * 1024
"""Bytes of an input that is kept in the tree."""
INSTRUMENTED = [
    "pratique",
    "pratique_frontdoor",
    "pratique_cli",
    "pratique_mutator",
    "pratique_validator",
    "jsonpatch",
]


def main() -> int:
    """Fuzz, or keep what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--target", default="", help="one alone")
    parser.add_argument(
        "--keep", type=int, default=0, help="keep the best so many inputs of each in the tree, too"
    )
    parser.add_argument("--within", action="store_true", help=argparse.SUPPRESS)
    arguments, further = parser.parse_known_args()
    sys.path.insert(0, str(HERE.parent))
    if arguments.within:
        return _fuzz_here(arguments.target, further)
    failed = []
    for name in _names(arguments.target):
        if not _fuzz(name, arguments.seconds):
            failed.append(name)
        elif arguments.keep:
            _keep(name, arguments.keep)
    for name in failed:
        sys.stderr.write(f"fuzz: {name}: crashed; what crashes it is in {_data(name, 'crashes')}\n")
    return 1 if failed else 0


def _names(wanted: str) -> list[str]:
    from fuzzing.targets import TARGETS

    names = [target.name for target in TARGETS]
    if wanted and wanted not in names:
        sys.exit(f"fuzz: there is no target {wanted}; there are {', '.join(names)}")
    return [wanted] if wanted else names


def _data(name: str, kind: str) -> Path:
    return HERE.parent / "data" / "fuzzing" / kind / name


def _fuzz(name: str, seconds: int) -> bool:
    crashes, found, seeds = _data(name, "crashes"), WORK / "corpus" / name, WORK / "seeds" / name
    for folder in (crashes, found, seeds):
        folder.mkdir(parents=True, exist_ok=True)
    kept = [folder for folder in (_data(name, "corpus"), crashes) if folder.is_dir()]
    begun = _process(name, f"-max_total_time={seconds}", f"-artifact_prefix={crashes}/", found, seeds, *kept)
    if not any(crashes.iterdir()):
        crashes.rmdir()
    return begun == 0


def _keep(name: str, most: int) -> None:
    """Put the inputs into the tree that reach what no other one does, the shortest first."""
    corpus = _data(name, "corpus")
    corpus.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as merged:
        _process(name, "-merge=1", merged, corpus, WORK / "corpus" / name)
        found = sorted(Path(merged).iterdir(), key=lambda file: (file.stat().st_size, file.name))
        short = [file for file in found if file.stat().st_size <= KEPT_BYTES]
        for file in itertools.islice(short, 0, None, max(1, len(short) // most)):
            (corpus / file.name).write_bytes(file.read_bytes())


def _process(name: str, *arguments: object) -> int:
    command = [sys.executable, __file__, "--within", "--target", name, *map(str, arguments)]
    return subprocess.run(command, check=False).returncode


def _fuzz_here(name: str, arguments: list[str]) -> int:
    """Fuzz one target in this process, which libFuzzer ends."""
    import atheris  # type: ignore[import-untyped] # it has no types, and is not there where nobody fuzzes

    with atheris.instrument_imports(include=INSTRUMENTED, enable_loader_override=False):
        from fuzzing.limits import GROWTH_MIB
        from fuzzing.targets import TARGETS

        target = next(one for one in TARGETS if one.name == name)
        _write_seeds(target)
        folder = tempfile.TemporaryDirectory()
        opened = target.open(Path(folder.name))
        attempt = opened.__enter__()  # libFuzzer ends the process: there is no after
        for seed in target.seeds():
            attempt(seed)  # what is imported on the way is watched, too
    logging.disable(logging.CRITICAL)
    used_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    limits = [f"-rss_limit_mb={used_mib + GROWTH_MIB}", f"-timeout={HANGS_SECONDS}", f"-max_len={LONGEST}"]
    custom = {"custom_mutator": _json_mutator(atheris)} if target.is_json else {}
    atheris.Setup([_written_again(name), *limits, *arguments], _limited(attempt, target.crashes), **custom)
    atheris.Fuzz()
    return 0


def _written_again(name: str) -> str:
    """A program that fuzzes this target: libFuzzer starts itself again by its own name where it merges."""
    program = WORK / f"again-{name}"
    words = shlex.join((sys.executable, __file__, "--within", "--target", name))
    program.write_text(f'#!/bin/sh\nexec {words} "$@"\n', "utf-8")
    program.chmod(0o700)
    return str(program)


def _json_mutator(atheris: Any) -> Callable[[bytes, int, int], bytes]:
    from fuzzing.json_mutations import mutated

    return lambda data, largest, seed: mutated(data, largest, seed, atheris.Mutate)


def _limited(attempt: Callable[[bytes], bool], crashes: Path) -> Callable[[bytes], None]:
    from fuzzing.limits import limited

    def one(data: bytes) -> None:
        try:
            with limited():
                attempt(data)
        except BaseException:
            # libFuzzer does so, too, unless something else has ended the process by then
            (crashes / f"crash-{hashlib.sha1(data, usedforsecurity=False).hexdigest()}").write_bytes(data)
            raise

    return one


def _write_seeds(target: Target) -> None:
    folder = WORK / "seeds" / target.name
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds()):
        (folder / f"{number:04}").write_bytes(seed)


if __name__ == "__main__":
    sys.exit(main())
