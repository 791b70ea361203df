"""What the allocator keeps, by the pages that a process has to get again."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries are left alone")

PROGRAM = """
import resource
from pratique.processes.allocator import {setting}

{setting}()
small = [b"x" * 50_000 for _ in range(200)]  # as any process has allocated, so that its heap has grown
del small
for number in range(120):
    if number == 20:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    buffers = [b"x" * 500_000 for _ in range(4)]
    del buffers
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 100)
"""
FULL_HEAP = """
import ctypes, resource
from pratique.processes import allocator

allocator.keep_freed_memory_beside_connections()
library = ctypes.CDLL(None)
library.mallinfo2.restype = type("Info", (ctypes.Structure,), {{"_fields_": [("sizes", ctypes.c_size_t * 10)]}})
small = [b"x" * 50_000]
while library.mallinfo2().sizes[9] > 500_000:  # what is left at the end of the heap
    small.append(b"x" * 50_000)
for number in range(120):
    if number == 20:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    {statement}
    buffers = [b"x" * 500_000 for _ in range(4)]
    del buffers
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 100)
"""
PAGES = 4 * 500_000 / 4096
"""What the four buffers of a round take."""
RETURNING = {"MALLOC_TRIM_THRESHOLD_": "0", "MALLOC_TOP_PAD_": "0", "MALLOC_MMAP_THRESHOLD_": "65536"}


def faults_a_round(program: str, **variables: str) -> float:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    ran = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=environment | variables,
    )
    return float(ran.stdout)


@pytest.mark.parametrize("setting", ["keep_freed_memory", "keep_freed_memory_beside_connections"])
def test_the_memory_of_one_review_is_used_for_the_next(setting: str) -> None:
    assert faults_a_round(PROGRAM.format(setting=setting)) < PAGES / 10


def test_whoever_sets_the_allocator_by_variables_knows_better() -> None:
    assert faults_a_round(PROGRAM.format(setting="keep_freed_memory"), **RETURNING) > PAGES / 2


def test_a_heap_without_room_for_large_buffers_is_extended() -> None:
    assert faults_a_round(FULL_HEAP.format(statement="")) > PAGES / 2
    assert faults_a_round(FULL_HEAP.format(statement="allocator.make_room()")) < PAGES / 10


def test_no_room_is_made_where_variables_set_the_allocator() -> None:
    assert faults_a_round(FULL_HEAP.format(statement="allocator.make_room()"), **RETURNING) > PAGES / 2
