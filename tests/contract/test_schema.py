"""The generated code is that of the contract, and the contract keeps what it has promised."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from contract.schemas import BASELINE, PROTO, buf, files_of

NAMES = sorted(str(path.relative_to(PROTO)) for path in PROTO.rglob("*.proto"))


def generated(name: str) -> descriptor_pb2.FileDescriptorProto:
    module = importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    file = descriptor_pb2.FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)
    return file


@pytest.fixture(scope="module")
def schema() -> dict[str, descriptor_pb2.FileDescriptorProto]:
    built = buf("build", "--exclude-source-info", "--output", "-")
    assert built.returncode == 0, built.stderr.decode()
    return files_of(built.stdout)


@pytest.mark.parametrize("name", NAMES)
def test_the_generated_code_is_that_of_the_contract(
    name: str, schema: dict[str, descriptor_pb2.FileDescriptorProto]
) -> None:
    assert generated(name) == schema[name]


def fields_of(file: descriptor_pb2.FileDescriptorProto) -> dict[str, tuple[int, int, int, str]]:
    """Every field by its full name: number, type, label, and the message or enum that it holds."""
    found: dict[str, tuple[int, int, int, str]] = {}

    def collect(prefix: str, messages: list[descriptor_pb2.DescriptorProto]) -> None:
        for message in messages:
            name = f"{prefix}.{message.name}"
            for field in message.field:
                found[f"{name}.{field.name}"] = (field.number, field.type, field.label, field.type_name)
            collect(name, list(message.nested_type))

    collect(file.package, list(file.message_type))
    return found


def test_every_field_of_the_baseline_is_as_it_was() -> None:
    for name, file in files_of(BASELINE.read_bytes()).items():
        now = fields_of(generated(name))
        for field, facts in fields_of(file).items():
            assert now[field] == facts, field


def everything_in(files: dict[str, descriptor_pb2.FileDescriptorProto]) -> set[str]:
    """Every message, field, enum, value, service and method, by its full name, with what callers rely on."""
    found: set[str] = set()

    def collect(prefix: str, messages: Any, enums: Any) -> None:
        for enum in enums:
            found.update(f"{prefix}.{enum.name}.{value.name} = {value.number}" for value in enum.value)
        for message in messages:
            name = f"{prefix}.{message.name}"
            found.add(name)
            found.update(
                f"{name}.{field.name} = {field.number}: {field.type} {field.label} {field.type_name}"
                for field in message.field
            )
            collect(name, message.nested_type, message.enum_type)

    for file in files.values():
        collect(file.package, file.message_type, file.enum_type)
        for service in file.service:
            found.update(
                f"{service.name}/{one.name}({one.client_streaming} {one.input_type}) "
                f"{one.server_streaming} {one.output_type}"
                for one in service.method
            )
    return found


def test_the_baseline_promises_all_that_is_in_the_contract(
    schema: dict[str, descriptor_pb2.FileDescriptorProto],
) -> None:
    missing = everything_in(schema) - everything_in(files_of(BASELINE.read_bytes()))
    assert not missing, "run `make baseline`, so that what callers come to rely on is guarded"


def test_the_services_have_the_names_that_clients_call() -> None:
    methods = {
        f"/{file.package}.{service.name}/{method.name}"
        for file in files_of(BASELINE.read_bytes()).values()
        for service in file.service
        for method in service.method
    }
    assert methods == {
        "/pratique.admission.v1.MutatorService/Mutate",
        "/pratique.admission.v1.MutatorService/MutateStream",
        "/pratique.admission.v1.ValidatorService/Validate",
        "/pratique.admission.v1.ValidatorService/ValidateStream",
        "/pratique.admission.v1.CatalogueService/Describe",
    }


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the contract, to be spoiled."""
    return shutil.copytree(PROTO, tmp_path / "proto")


def guard(folder: Path) -> tuple[int, str]:
    done = buf("breaking", "--against", str(BASELINE), folder=folder)
    return done.returncode, done.stdout.decode()


def test_the_guard_lets_the_contract_pass(copied: Path) -> None:
    assert guard(copied) == (0, "")


@pytest.mark.parametrize(
    ("file", "was", "becomes"),
    [
        ("review", "string uid = 1;", "string uid = 99;"),
        ("review", "bytes object = 12;", "string object = 12;"),
        ("review", "  // True means that nothing will be stored", "  reserved 15;\n  // "),
        ("outcome", "Failed failed = 5;", "Failed broken = 5;"),
        ("mutator_service", "rpc Mutate(", "rpc Change("),
        ("mutator_service", "rpc MutateStream(", "rpc ChangeStream("),
        ("stream", "uint64 id = 1;", "uint64 id = 9;"),
        ("stream", "CallStatus status = 3;", "CallStatus status = 4;"),
        ("outcome", "repeated Part parts = 9;", "repeated Part parts = 10;"),
        ("review", "Again again = 3;", "Again again = 5;"),
        ("outcome", "ENDING_DENIED = 4;", "ENDING_DENIED = 14;"),
        ("digest", "string digest = 1;", "string digest = 5;"),
        ("validator_service", "string uid = 2;", "string uid = 4;"),
    ],
    ids=[
        *("number", "type", "removal", "name", "method", "stream method", "id of a call", "status of a call"),
        *("parts", "second round", "ending", "digest", "echoed uid"),
    ],
)
def test_the_guard_stops_what_would_break_clients(copied: Path, file: str, was: str, becomes: str) -> None:
    path = copied / "pratique" / "admission" / "v1" / f"{file}.proto"
    before = path.read_text()
    assert was in before
    after = before.replace(was, becomes)
    if becomes.startswith("  reserved"):
        after = after.replace("  bool dry_run = 15;\n", "")
    path.write_text(after)
    code, words = guard(copied)
    assert code != 0
    assert f"{file}.proto" in words


def test_a_new_field_breaks_nobody(copied: Path) -> None:
    path = copied / "pratique" / "admission" / "v1" / "review.proto"
    path.write_text(path.read_text().replace("bool dry_run = 15;", "bool dry_run = 15;\n  string more = 99;"))
    assert guard(copied) == (0, "")
