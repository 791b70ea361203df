"""Ctrl-C ends a command by its signal, even where something in between drops the interrupt."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

CATCHING = """
from pratique_cli.exit_codes import handling_interrupts
import time

with handling_interrupts():
    while True:
        try:
            print("ready", flush=True)
            time.sleep(60)
        except KeyboardInterrupt:
            print("caught", flush=True)
"""
IN_A_CALLBACK = """
from pratique_cli.exit_codes import handling_interrupts
import time, weakref

class Watched:
    pass

def sleep(_):
    print("ready", flush=True)
    time.sleep(3600)

with handling_interrupts():
    watched = Watched()
    reference = weakref.ref(watched, sleep)
    del watched
    time.sleep(3600)
"""


@pytest.mark.parametrize(
    ("program", "said"),
    [(CATCHING, "caught\n"), (IN_A_CALLBACK, "")],
    ids=["caught", "dropped by Python"],
)
def test_an_interrupt_that_is_lost_ends_the_process_all_the_same(program: str, said: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == -signal.SIGINT
        assert process.stdout.read().startswith(said)


def test_the_handler_of_before_is_there_behind_a_command() -> None:
    program = """
import signal
from pratique_cli.main import main

before = signal.getsignal(signal.SIGINT)  # what runs in the background may ignore it
try:
    main(["version"])
except SystemExit:
    print(signal.getsignal(signal.SIGINT) is before, signal.getitimer(signal.ITIMER_REAL))
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    assert ran.stdout.splitlines()[-1] == "True (0.0, 0.0)"
