"""``pratique check``."""

from __future__ import annotations

import collections
import difflib
import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pratique.configuration.settings import ChainSettings
from pratique_cli.chain_options import chain_flags
from pratique_cli.exit_codes import ExitCode
from pratique_cli.loading import EXCLUDE_HINT, exclusion_notes, left_out_notes, load_chain
from pratique_cli.options import ExistingPath, NameList, exclude_flag, flag, flattened, format_flag
from pratique_cli.terminal import palette_for, print_problem

if TYPE_CHECKING:
    from pratique.lint.rules import LintFinding

EPILOG = """\b
Examples:
  pratique check webhooks/
  pratique check webhooks/ --cluster cluster/ --admission-control-config-file admission.yaml
  pratique check webhooks/ --strict --disable-rules wildcard-rules
  pratique check webhooks/ -o sarif >check.sarif
  pratique check --list-rules

\b
In text, problems and warnings go to standard error. Each problem is one line,
with file, document and field; so is each warning, with the reasons indented
below it, such as an expression that does not fit the schema of a kind that
its policy matches. --cluster supplies the schemas of custom resources. Other
formats (-o) write everything to standard output, with file and line.

\b
Violations of good practice are reported with the name of the rule and a fix.
An example is a deadlock: a webhook that blocks the start of its own server
once that is down. --cluster supplies the workloads and certificates behind
Services. A comment in the YAML disables rules, above a field for that field
and above a document for all of it:
  # pratique: disable=timeout-too-long

\b
Exit codes: 0 no problem, with or without warnings, 1 warnings and --strict,
2 problems.
"""


@click.command("check", epilog=EPILOG)
@click.argument("paths", metavar="PATH...", type=ExistingPath(dash=True), nargs=-1)
@flag("--strict", is_flag=True, help="Exit with 1 if there is a warning, or a rule's error or warning.")
@flag("--rules", type=NameList(), multiple=True, help="Check only these rules of good practice.")
@flag("--disable-rules", type=NameList(), multiple=True, help="Rules of good practice to skip.")
@flag("--list-rules", is_flag=True, help="List the rules of good practice and exit.")
@flag(
    "--allow-none",
    is_flag=True,
    help="Leave out each PATH that holds no configuration, such as among the changed files of a commit.",
)
@exclude_flag
@format_flag("text", "table", "json", "jsonl", "yaml", "junit", "sarif", "github")
@chain_flags
def command(  # noqa: PLR0913 - one for each flag
    paths: tuple[Path, ...],
    chain: ChainSettings,
    *,
    output: str,
    strict: bool,
    rules: tuple[tuple[str, ...], ...],
    disable_rules: tuple[tuple[str, ...], ...],
    list_rules: bool,
    allow_none: bool,
    exclude: tuple[tuple[str, ...], ...],
) -> ExitCode:
    """Validate configurations and policies, and everything else that the chain flags name.

    PATH holds webhook configurations and policies; what else lies beside them is left out. Also reports violations of
    good practice.
    """
    if list_rules:
        click.echo(_describe_rules(), nl=False)
        return ExitCode.ADMITTED
    chosen = _chosen_rules(flattened(rules), flattened(disable_rules))
    if not paths and chain == type(chain)():
        raise click.UsageError("Missing argument 'PATH...': name a configuration, or give a chain flag.")
    excluded = flattened(exclude)
    loaded = load_chain(chain, paths, excluded, required=not allow_none)
    for note in exclusion_notes(paths, excluded):
        print_problem(note)
    warnings, findings = loaded.warnings(), loaded.findings(chosen)
    for note in left_out_notes(loaded.left_out):
        print_problem(note)
    _report(loaded.problems, warnings, findings, output)
    if loaded.unreadable:
        print_problem(EXCLUDE_HINT)
    if loaded.problems:
        return ExitCode.BAD_INPUT
    is_bad = warnings or any(finding.lint_rule.severity.value != "info" for finding in findings)
    return ExitCode.DENIED if strict and is_bad else ExitCode.ADMITTED


def _report(
    problems: Sequence[str], warnings: Sequence[str], findings: Sequence[LintFinding], output: str
) -> None:
    if output != "text":
        _write_findings(problems, warnings, findings, output)
        return
    for text in (*problems, *warnings, *map(str, findings)):
        print_problem(*text.split("\n"))
    if not problems:
        click.echo(_summary(len(warnings), findings))


def _write_findings(
    problems: Sequence[str], warnings: Sequence[str], findings: Sequence[LintFinding], output: str
) -> None:
    from pratique_cli.outputs.checks import (  # noqa: PLC0415 - text needs none
        check_findings,
        encode_findings,
        findings_table,
    )

    found = check_findings(problems, warnings, findings)
    if output != "table":
        click.echo(encode_findings(found, output), nl=False)
        return
    palette = palette_for(sys.stdout, colour=None)
    click.echo(findings_table(found, palette), nl=False, color=palette.colour)


def _chosen_rules(only: Collection[str], disabled: Collection[str]) -> frozenset[str]:
    """The rules to check: those of ``only``, or all if it is empty, without the disabled ones.

    Raises:
        click.BadParameter: no rule has this name.
    """
    from pratique.lint.registry import RULE_NAMES  # noqa: PLC0415 - the help does not need them

    for name, rules in (("--rules", only), ("--disable-rules", disabled)):
        for rule in rules:
            if rule not in RULE_NAMES:
                raise click.BadParameter(_unknown_rule_text(rule, RULE_NAMES), param_hint=name)
    return frozenset(only or RULE_NAMES) - frozenset(disabled)


def _unknown_rule_text(rule: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(rule, sorted(known), n=1)
    hint = f"did you mean {close[0]!r}?" if close else "see --list-rules"
    return f"{rule!r} is not a rule; {hint}"


def _describe_rules() -> str:
    """List every rule with its severity, its reason and its fix."""
    from pratique.lint.registry import LINT_RULES  # noqa: PLC0415 - the help does not need them

    return "".join(
        f"{lint_rule.name} ({lint_rule.severity.value})\n    {lint_rule.explanation}\n    fix: {lint_rule.fix}\n"
        for lint_rule in LINT_RULES
    )


def _summary(warnings: int, findings: Iterable[LintFinding]) -> str:
    """Summarise a valid chain: ``no problems found``, or ``valid, with 1 error, 2 warnings``."""
    counts = collections.Counter(finding.lint_rule.severity.value for finding in findings)
    counts["warning"] += warnings
    parts = [
        f"{counts[severity]} {severity}{'s' if counts[severity] > 1 and severity != 'info' else ''}"
        for severity in ("error", "warning", "info")
        if counts[severity]
    ]
    return f"valid, with {', '.join(parts)}" if parts else "no problems found"
