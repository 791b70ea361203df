"""The contract's files, and what ``buf`` makes of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from google.protobuf import descriptor_pb2

ROOT = Path(__file__).resolve().parent.parent.parent
PROTO = ROOT / "proto"
BASELINE = PROTO / "baseline.binpb"


def buf(*arguments: str, folder: Path = PROTO) -> subprocess.CompletedProcess[bytes]:
    """Run buf in a folder that has a ``buf.yaml``."""
    command = [str(Path(sys.executable).parent / "buf"), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=120)


def files_of(image: bytes) -> dict[str, descriptor_pb2.FileDescriptorProto]:
    """The files of a buf image, by name, without what only buf knows of them."""
    files = descriptor_pb2.FileDescriptorSet.FromString(image)
    files.DiscardUnknownFields()
    for file in files.file:
        for message in file.message_type:
            _forget_json_names(message)
    return {file.name: file for file in files.file}


def _forget_json_names(message: descriptor_pb2.DescriptorProto) -> None:
    # Derived from the fields' names; protoc leaves them out of the code that it generates.
    for field in message.field:
        field.ClearField("json_name")
    for nested in message.nested_type:
        _forget_json_names(nested)
