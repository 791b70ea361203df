# ruff: noqa: INP001 - scripts are run, never imported
"""Generate the gRPC code from ``proto/`` into ``services/pratique/admission/v1``.

Does nothing where the code at hand was made from these very contracts by these very generators. The code is
made aside and put in place whole, so that a refused contract leaves the code of the last good one.

Usage: ``python scripts/generate_protos.py``.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import shutil
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"
TARGET = ROOT / "services" / "pratique" / "admission" / "v1"
STAMP = TARGET / ".made-from"
GENERATORS = ("grpcio-tools", "mypy-protobuf", "protobuf")
INIT = '"""Generated from proto/ by scripts/generate_protos.py; not to be edited."""\n'


def fingerprint(contracts: list[Path]) -> str:
    """Sum up all that the generated code depends on."""
    digest = hashlib.sha256()
    for name in GENERATORS:
        digest.update(f"{name}=={version(name)}\n".encode())
    for path in (Path(__file__), *contracts):
        digest.update(f"{path.relative_to(ROOT)}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def generate(contracts: list[Path], target: Path) -> None:
    """Run protoc with its Python, gRPC and type stub generators.

    Raises:
        SystemExit: protoc refused the contracts; it has said why on standard error.
    """
    # half a second to import, which a run without changes does not need
    protoc = importlib.import_module("grpc_tools.protoc")
    arguments = [
        "protoc",
        f"--proto_path={PROTO}",
        f"--plugin=protoc-gen-mypy={find_plugin('protoc-gen-mypy')}",
        f"--plugin=protoc-gen-mypy_grpc={find_plugin('protoc-gen-mypy_grpc')}",
        *(f"--{kind}_out={target}" for kind in ("python", "grpc_python", "mypy", "mypy_grpc")),
        *("--mypy_opt=quiet", "--mypy_grpc_opt=quiet"),
        *map(str, contracts),
    ]
    if code := protoc.main(arguments):
        raise SystemExit(code)


def find_plugin(name: str) -> str:
    """Find one of mypy-protobuf's console scripts: beside the interpreter, or where pip builds wheels, on PATH.

    Raises:
        SystemExit: it is in neither place.
    """
    # an environment that is not activated is not on PATH
    places = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    found = shutil.which(name, path=places)
    if found is None:
        raise SystemExit(f"generate_protos: {name} is missing: pip install mypy-protobuf")
    return found


def put_in_place(made: Path, stamp: str, attic: Path) -> None:
    """Make packages of the generated folders and swap them for what is there, which moves to ``attic``."""
    for folder in (made, *(path for path in made.rglob("*") if path.is_dir())):
        (folder / "__init__.py").write_text(INIT)
    (made / STAMP.name).write_text(stamp)
    if TARGET.exists():
        TARGET.rename(attic)
    made.rename(TARGET)


def main() -> None:
    """Generate where anything has changed."""
    contracts = sorted(PROTO.rglob("*.proto"))
    stamp = fingerprint(contracts)
    if STAMP.exists() and STAMP.read_text() == stamp:
        return
    # beside the target, because a rename is atomic only within one file system
    with tempfile.TemporaryDirectory(dir=TARGET.parent, prefix=".protos-") as scratch:
        generate(contracts, Path(scratch))
        put_in_place(Path(scratch) / "pratique" / "admission" / "v1", stamp, Path(scratch) / "attic")


if __name__ == "__main__":
    main()
