"""Shells complete commands, flags and values: bash, and zsh and fish where they are installed."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from cli.conftest import clean_environment, read_terminal
from pratique.hosting.catalogue import load_catalogue
from support.forked_commands import PROGRAM

Program: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"


def with_program_in_path() -> dict[str, str]:
    return clean_environment(PATH=f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}")


def program_of(shell: str) -> str:
    """Where a shell is; the test is skipped where it is not."""
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed")
    return found


def completed(words: str) -> list[str]:
    """What bash offers for the last of some words, after a Tab."""
    script = (
        'eval "$(pratique completion bash)"; compopt() { :; }\n'
        f"COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n"
        '_pratique_completion pratique; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    ran = subprocess.run(
        ["bash", "--norc", "-c", script],
        env=with_program_in_path(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("pratique rev", ["review"]),
        ("pratique serve va", ["validator"]),
        ("pratique new p", ["policy"]),
        ("pratique review --blam", ["--blame"]),
        ("pratique review -o js", ["json", "jsonl"]),
        ("pratique check -o sa", ["sarif"]),
        ("pratique review --only d", ["denied"]),
        ("pratique completion f", ["fish"]),
        ("pratique review --admission-control LimitRanger,alwaysd", ["LimitRanger,AlwaysDeny"]),
        ("pratique up --enable-admission-plugins Nobody", []),
    ],
)
def test_bash_offers_what_fits(words: str, offered: list[str]) -> None:
    assert completed(words) == offered


def test_every_controller_is_offered_once() -> None:
    names = {controller.name for controller in load_catalogue()} - {"LimitRanger"}
    offered = completed("pratique review --disable-admission-plugins LimitRanger,")
    assert sorted(offered) == sorted(f"LimitRanger,{name}" for name in names)


def shown_after_typing(shell: list[str], typed: bytes, home: Path, **variables: str) -> str:
    """What a terminal shows after somebody has typed into a shell that runs on it."""
    ours, theirs = pty.openpty()
    environment = clean_environment(TERM="xterm", HOME=str(home), **variables)
    with subprocess.Popen(
        shell, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    ):
        os.close(theirs)
        os.write(ours, typed)
        shown = b"".join(iter(lambda: read_terminal(ours), b"")).decode()
    os.close(ours)
    return shown


def test_a_tab_on_a_terminal_completes_a_command(tmp_path: Path) -> None:
    start = tmp_path / "start"
    start.write_text(f'PATH="{PROGRAM.parent}:$PATH"\neval "$(pratique completion bash)"\nPS1="ready> "\n')
    command = ["bash", "--noprofile", "--rcfile", str(start), "-i"]
    shown = shown_after_typing(command, b"pratique versi\t\nexit\n", tmp_path, INPUTRC="/dev/null")
    assert "pratique version \r\n" in shown
    assert "pratique 0." in shown


@pytest.mark.parametrize(("shell", "registered"), [("zsh", "compdef"), ("fish", "complete --no-files")])
def test_other_shells_get_a_script(pratique: Program, shell: str, registered: str) -> None:
    ran = pratique("completion", shell)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert registered in ran.stdout


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("pratique rev", ["review"]),
        ("pratique serve va", ["validator"]),
        ("pratique review -o js", ["json", "jsonl"]),
        ("pratique review --admission-control LimitRanger,alwaysd", ["LimitRanger,AlwaysDeny"]),
    ],
)
def test_fish_offers_what_fits(words: str, offered: list[str]) -> None:
    fish = program_of("fish")
    script = f'pratique completion fish | source; complete -C "{words}"'
    ran = subprocess.run(
        [fish, "--no-config", "-c", script],
        env=with_program_in_path(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    # fish shows a summary after a tab
    assert [line.partition("\t")[0] for line in ran.stdout.splitlines()] == offered


def test_a_tab_in_zsh_completes_a_command(tmp_path: Path) -> None:
    (tmp_path / ".zshrc").write_text(
        f'PATH="{PROGRAM.parent}:$PATH"\nautoload -Uz compinit; compinit -u\n'
        'eval "$(pratique completion zsh)"\nPS1="ready> "\n'
    )
    shown = shown_after_typing(
        [program_of("zsh"), "-d", "-i"], b"pratique versi\t\nexit\n", tmp_path, ZDOTDIR=str(tmp_path)
    )
    assert "\npratique 0." in shown


def test_zsh_gets_the_summaries(pratique: Program) -> None:
    ran = pratique(_PRATIQUE_COMPLETE="zsh_complete", COMP_WORDS="pratique bud", COMP_CWORD="1")
    assert ran.stdout == "plain\nbudget\nShow how long each kind of request may take in admission.\n"


def test_another_shell_is_refused(pratique: Program) -> None:
    ran = pratique("completion", "powershell")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "'bash', 'zsh', 'fish'" in ran.stderr


def test_completing_starts_neither_grpc_nor_an_engine() -> None:
    code = (
        "import sys, contextlib\nfrom pratique_cli.main import main\n"
        "with contextlib.suppress(SystemExit): main([])\n"
        "print(*sorted({'grpc', 'asyncio', 'rich', 'pratique_frontdoor'} & set(sys.modules)))"
    )
    environment = clean_environment(
        _PRATIQUE_COMPLETE="bash_complete", COMP_WORDS="pratique rev", COMP_CWORD="1"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines() == ["plain,review", ""]
