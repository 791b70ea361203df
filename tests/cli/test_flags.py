from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from pratique.configuration.settings import ChainSettings, Release
from pratique_cli.chain_options import chain_arguments, chain_flags, chain_variables
from pratique_cli.options import PORT, ExistingPath, NameList, Number, Seconds, WholeNumber, flag


def chain_of(*arguments: str, env: dict[str, str] | None = None) -> ChainSettings:
    """Parse chain flags as every command does."""
    parsed: list[ChainSettings] = []

    @click.command()
    @chain_flags
    def command(chain: ChainSettings) -> None:
        parsed.append(chain)

    result = CliRunner(env=env).invoke(command, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return parsed[0]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "chain"),
    [
        ("", ChainSettings()),
        ("--config a --config b", ChainSettings(config=(Path("a"), Path("b")))),
        ("--cluster a", ChainSettings(cluster=(Path("a"),))),
        ("--enable-admission-plugins A,B", ChainSettings(enable_admission_plugins=("A", "B"))),
        (
            "--enable-admission-plugins A --enable-admission-plugins B",
            ChainSettings(enable_admission_plugins=("A", "B")),
        ),
        ("--disable-admission-plugins A", ChainSettings(disable_admission_plugins=("A",))),
        ("--admission-control B,A", ChainSettings(admission_control=("B", "A"))),
        ("--admission-control-config-file a", ChainSettings(admission_control_config_file=Path("a"))),
        ("--release v1.10.2", ChainSettings(release=Release(1, 10))),
        ("--first-denial-only", ChainSettings(first_denial_only=True)),
        (
            "--default-not-ready-toleration-seconds 0 --ir-namespace-only true",
            ChainSettings(
                plugin_flags={
                    "DefaultTolerationSeconds": {"default-not-ready-toleration-seconds": 0},
                    "InitialResources": {"ir-namespace-only": True},
                }
            ),
        ),
    ],
)
def test_chain_flags_and_settings_convert_both_ways(arguments: str, chain: ChainSettings) -> None:
    assert chain_of(*arguments.split()) == chain
    assert chain_of(*chain_arguments(chain), env=chain_variables(chain)) == chain
    assert not any(flag.startswith("--ir-") for flag in chain_arguments(chain))


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("variables", "chain"),
    [
        ({"PRATIQUE_CONFIG": "a:b"}, ChainSettings(config=(Path("a"), Path("b")))),
        ({"PRATIQUE_ENABLE_ADMISSION_PLUGINS": "A, B"}, ChainSettings(enable_admission_plugins=("A", "B"))),
        ({"PRATIQUE_ADMISSION_CONTROL": "B,A"}, ChainSettings(admission_control=("B", "A"))),
        ({"PRATIQUE_RELEASE": "1.10"}, ChainSettings(release=Release(1, 10))),
        ({"PRATIQUE_FIRST_DENIAL_ONLY": "1"}, ChainSettings(first_denial_only=True)),
        ({"PRATIQUE_FIRST_DENIAL_ONLY": "false"}, ChainSettings()),
        ({"PRATIQUE_CONFIG": "", "PRATIQUE_CLUSTER": ""}, ChainSettings()),
    ],
)
def test_environment_variables_become_settings(variables: dict[str, str], chain: ChainSettings) -> None:
    assert chain_of(env=variables) == chain


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (NameList(), "A", ("A",)),
        (NameList(), " A , B ", ("A", "B")),
        (WholeNumber(1, 4), "4", 4),
        (PORT, "0", 0),
        (Number(min=0), "0.5", 0.5),
        (Seconds(), "10s", 10.0),
        (Seconds(), "1m30s", 90.0),
        (Seconds(), "500ms", 0.5),
        (Seconds(), "10", 10.0),
        (Seconds(), "0.25", 0.25),
    ],
)
def test_flag_values_are_parsed(kind: click.ParamType[Any], text: str, value: object) -> None:
    assert kind.convert(text, None, None) == value


@pytest.mark.parametrize(
    ("kind", "text", "reported"),
    [
        (NameList(), "", "empty name"),
        (NameList(), "A,", "empty name"),
        (WholeNumber(1, 4), "5", "'5' is not a whole number from 1 to 4"),
        (WholeNumber(1, 4), "1.5", "'1.5' is not a whole number from 1 to 4"),
        (PORT, "-1", "from 0 to 65535"),
        (Number(min=0), "-0.1", "from 0 up"),
        (Number(min=0), "inf", "'inf' is not a number"),
        (Seconds(), "", "invalid duration"),
        (Seconds(), "10 s", "unknown unit"),
        (Seconds(), "0.0", "is not a positive duration"),
        (Seconds(), "1e3", "unknown unit"),
        (Seconds(), "99999999999h", "invalid duration"),
        (ExistingPath(), "", "the path is empty"),
        (ExistingPath(), "/nowhere/at/all", "does not exist"),
        (ExistingPath(), "-", "does not exist"),
        (ExistingPath(folders=False), "/", "is a directory"),
    ],
)
def test_invalid_flag_values_are_reported(kind: click.ParamType[Any], text: str, reported: str) -> None:
    with pytest.raises(click.BadParameter, match=reported.replace("(", r"\(")):
        kind.convert(text, None, None)


def test_an_invalid_environment_variable_is_named() -> None:
    @click.command()
    @flag("-n", "--some-number", type=PORT)
    def command(some_number: int | None) -> None:
        raise AssertionError(some_number)

    runner = CliRunner()
    by_variable = runner.invoke(command, [], env={"PRATIQUE_SOME_NUMBER": "x"})
    assert "environment variable PRATIQUE_SOME_NUMBER: 'x'" in by_variable.output
    by_flag = runner.invoke(command, ["-n", "x"], env={"PRATIQUE_SOME_NUMBER": "1"})
    assert "'-n' / '--some-number': 'x'" in by_flag.output
