"""Generating code from the contract: when it is needed, and whole or not at all."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from contract.schemas import PROTO, ROOT

REVIEW = "proto/pratique/admission/v1/review.proto"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of nothing but the contract and the script, which has run once."""
    shutil.copytree(PROTO, tmp_path / "proto")
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    (tmp_path / "services" / "pratique" / "admission").mkdir(parents=True)
    generate(tmp_path)
    return tmp_path


def generate(project: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(project / "scripts" / "generate_protos.py")]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def code_of(project: Path) -> dict[str, tuple[int, str]]:
    """Every generated file: when it was written, and what it holds."""
    folder = project / "services" / "pratique" / "admission"
    files = [path for path in folder.rglob("*") if path.suffix in {".py", ".pyi"}]
    return {str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_text()) for path in files}


def test_messages_services_and_their_types_are_generated(project: Path) -> None:
    names = set(code_of(project))
    assert "v1/__init__.py" in names
    for file in PROTO.rglob("*.proto"):
        assert {f"v1/{file.stem}_pb2.py", f"v1/{file.stem}_pb2.pyi", f"v1/{file.stem}_pb2_grpc.py"} <= names
    assert [path.name for path in (project / "services" / "pratique" / "admission").iterdir()] == ["v1"]


def test_nothing_is_written_where_nothing_has_changed(project: Path) -> None:
    before = code_of(project)
    assert generate(project).returncode == 0
    assert code_of(project) == before


def test_a_changed_contract_is_generated_anew(project: Path) -> None:
    path = project / REVIEW
    path.write_text(path.read_text().replace("bool dry_run = 15;", "bool dry_run = 15;\n  string more = 99;"))
    assert generate(project).returncode == 0
    assert "more" in code_of(project)["v1/review_pb2.pyi"][1]


def test_a_contract_that_is_gone_leaves_no_code(project: Path) -> None:
    (project / "proto/pratique/admission/v1/catalogue_service.proto").unlink()
    assert generate(project).returncode == 0
    assert not [name for name in code_of(project) if "catalogue" in name]


def test_a_broken_contract_leaves_the_code_of_the_last_good_one(project: Path) -> None:
    before = code_of(project)
    (project / REVIEW).write_text("message {")
    done = generate(project)
    assert done.returncode != 0
    assert "review.proto:1:" in done.stderr
    assert code_of(project) == before
