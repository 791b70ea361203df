"""R-70: what Pratique is made of is known, comes from where it says, and can be made again to the byte."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

DIGEST = f"python@sha256:{'5c' * 32}"
PROGRAMS = (
    b"\x7fELF",
    b"MZ",
    b"\xcf\xfa\xed\xfe",
    b"\xca\xfe\xba\xbe",
    b"\0asm",
    b"PK\x03\x04",
    b"\x1f\x8b",
    b"!<arch>",
)
"""How programs begin, and archives that could hold some: ELF, PE, Mach-O, Java, WebAssembly, zip, gzip, ar."""
SECRETS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----\s+[A-Za-z0-9+/=]{40}"
    r"|\b(AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{36}|xox[abp]-[A-Za-z0-9-]{20,})"
)


def bill(root: Path, *arguments: str) -> Any:
    command = [sys.executable, str(root / "scripts" / "write_sbom.py"), *arguments]
    return json.loads(subprocess.check_output(command, text=True))


def pinned(root: Path, lock: str) -> dict[str, set[str]]:
    """The hashes of each package, by name and version; read otherwise than the bill does."""
    found: dict[str, set[str]] = {}
    current = ""
    for word in (root / "scripts" / "requirements" / f"{lock}.txt").read_text().split():
        if "==" in word and word[0].isalnum():
            current = word
        elif word.startswith("--hash=sha256:"):
            found.setdefault(current, set()).add(word.removeprefix("--hash=sha256:"))
    return found


@pytest.mark.parametrize("lock", ["run", "build", "dev", "fuzz"])
def test_the_bill_of_materials_lists_all_that_is_locked_with_its_hashes(lock: str, root: Path) -> None:
    components = bill(root, str(root / "scripts" / "requirements" / f"{lock}.txt"))["components"]
    listed = {
        f"{each['name']}=={each['version']}": {one["content"] for one in each["hashes"]}
        for each in components
    }
    assert listed == pinned(root, lock)
    assert all(each["purl"] == f"pkg:pypi/{each['name']}@{each['version']}" for each in components)


def test_the_bill_tells_what_pratique_itself_asks_for(root: Path) -> None:
    told = bill(root)
    [own] = told["dependencies"]
    known = {each["bom-ref"] for each in told["components"]}
    assert own["ref"] == told["metadata"]["component"]["bom-ref"]
    assert set(own["dependsOn"]) < known
    assert {"grpcio", "msgspec", "uvicorn"} <= {
        reference.split("/")[1].split("@")[0] for reference in own["dependsOn"]
    }


def test_the_same_lock_gives_the_same_bill(root: Path) -> None:
    assert bill(root) == bill(root)
    assert (
        bill(root)["serialNumber"]
        != bill(root, str(root / "scripts" / "requirements" / "dev.txt"))["serialNumber"]
    )


def test_a_package_without_a_hash_gets_no_bill(root: Path, tmp_path: Path) -> None:
    (tmp_path / "lock.txt").write_text("a==1 \\\n    --hash=sha256:" + "0" * 64 + "\nb==2\n")
    command = [sys.executable, str(root / "scripts" / "write_sbom.py"), str(tmp_path / "lock.txt")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode != 0
    assert "no hash for b" in ran.stderr


def wheel(root: Path, folder: Path, umask: int, mtime: int) -> Path:
    """Build the wheel of a copy in a folder that holds no generated code."""
    generated = root / "services" / "pratique" / "admission" / "v1"
    for name in ("proto", "scripts", "services"):
        shutil.copytree(root / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(folder / generated.relative_to(root))
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE", ".gitignore"):
        shutil.copy(root / name, folder / name)
    for path in folder.rglob("*"):
        os.utime(path, (mtime, mtime))
        path.chmod(0o755 if path.is_dir() else 0o644 & ~umask)
    command = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "--target",
        "wheel",
        "--directory",
        str(folder / "out"),
    ]
    environment = os.environ | {"SOURCE_DATE_EPOCH": "1700000000", "PYTHONHASHSEED": str(mtime)}
    done = subprocess.run(
        command, cwd=folder, env=environment, umask=umask, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    [built] = (folder / "out").glob("*.whl")
    return built


def test_two_builds_give_the_same_wheel(root: Path, tmp_path: Path) -> None:
    first = wheel(root, tmp_path / "here", umask=0o022, mtime=1_600_000_000)
    second = wheel(root, tmp_path / "somewhere else", umask=0o077, mtime=1_650_000_000)
    assert first.read_bytes() == second.read_bytes()


def test_a_wheel_holds_the_generated_code(root: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel(root, tmp_path, umask=0o022, mtime=1_600_000_000)) as built:
        held = {name.removeprefix("pratique/admission/v1/") for name in built.namelist()}
    assert {"review_pb2.py", "review_pb2.pyi", "mutator_service_pb2_grpc.py"} < held


def test_a_wheel_installs_only_packages_of_our_name(root: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel(root, tmp_path, umask=0o022, mtime=1_600_000_000)) as built:
        folders = {name.split("/")[0] for name in built.namelist() if ".dist-info/" not in name}
    services = ("frontdoor", "mutator", "validator", "cli")
    assert folders == {"pratique", *(f"pratique_{service}" for service in services)}


def test_a_base_can_be_named_by_its_digest(root: Path) -> None:
    planned = subprocess.check_output(
        ["make", "--dry-run", "image", f"BASE_IMAGE={DIGEST}"],
        cwd=root,
        env={"PATH": os.environ["PATH"]},
        text=True,
    )
    assert f"--build-arg BASE_IMAGE={DIGEST}" in planned
    # the argument is all that is built on
    bases = re.findall(r"^FROM (\S+)", (root / "Dockerfile").read_text(), re.MULTILINE)
    assert set(bases) == {"${BASE_IMAGE}"}


def test_an_image_can_be_built_for_other_machines(root: Path) -> None:
    planned = subprocess.check_output(
        ["make", "--dry-run", "image", "PLATFORM=linux/arm64"],
        cwd=root,
        env={"PATH": os.environ["PATH"]},
        text=True,
    )
    assert "docker build --platform linux/arm64 " in planned


def test_every_image_of_compose_can_be_named_by_its_digest(root: Path) -> None:
    services = yaml.safe_load((root / "compose.yaml").read_text())["services"]
    assert {service["image"].partition(":-")[0] for service in services.values()} == {
        "${IMAGE",
        "${LEDGER_IMAGE",
    }
    bases = [service["build"]["args"]["BASE_IMAGE"] for service in services.values() if "build" in service]
    assert all(base.startswith("${BASE_IMAGE:-") for base in bases)


def test_nothing_in_the_tree_is_compiled(root: Path, git: Callable[..., str]) -> None:
    names = git("ls-files", "-z", "--others", "--exclude-standard").split("\0")
    files = [root / name for name in names if (root / name).is_file()]
    assert not [file for file in files if file.read_bytes().startswith(PROGRAMS)]
    assert not [file for file in files if file.suffix in {".so", ".pyc", ".pyd", ".dll", ".whl", ".jar"}]


def test_nothing_in_the_tree_is_a_secret(texts: dict[str, str]) -> None:
    assert not {name for name, text in texts.items() if SECRETS.search(text)}


@pytest.mark.parametrize("text", ["-----BEGIN PRIVATE KEY-----\n" + "A" * 64, "AKIA" + "A" * 16])
def test_a_secret_would_be_seen(text: str) -> None:
    assert SECRETS.search(text)
