"""Saving: what was found, as a suite for ``pratique test``, which fails until it is put right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.manifests import KUBECTL_USER
from pratique.reviews import Operation
from pratique_cli.chain_flags import chain_variables
from pratique_cli.proofs.verdicts import TITLES
from pratique_cli.proofs.violations import Defect
from pratique_cli.suites.writing import WrittenCase, suite_text

if TYPE_CHECKING:
    from pathlib import Path

    from pratique.json_values import JSON, JSONObject
    from pratique.settings import ChainSettings
    from pratique_cli.proofs.findings import Finding, Report

_EXPECTED: dict[Defect, tuple[str, str, JSONObject]] = {
    Defect.FAILS: ("is decided", "mutate", {"allowed": True}),
    Defect.NOT_IDEMPOTENT: ("is not changed again", "mutate", {"fixedPoint": True}),
    Defect.REFUSES_OWN: ("is let through again", "mutate", {"fixedPoint": True}),
    Defect.NOT_SETTLED: ("is not changed again by others", "mutate", {"fixedPoint": True}),
    Defect.REFUSED: ("is let through by validators", "", {"allowed": True}),
}
"""What a case is called, what it goes through, and what has to come of it. Other defects take two chains or two
moments to be seen, which a case does not have."""


def saved(report: Report, chain: ChainSettings, folder: Path) -> str:
    """Write the suite, for a file in ``folder``."""
    cases = [
        _case(number, finding)
        for number, finding in enumerate(report.findings, start=1)
        if finding.violation.defect in _EXPECTED
    ]
    return suite_text(
        "proved",
        cases,
        config=chain.config,
        cluster=chain.cluster,
        flags=_flags(chain),
        folder=folder,
        comment=_comment(report),
    )


def writable(report: Report) -> bool:
    """Whether anything was found that a case can tell."""
    return any(finding.violation.defect in _EXPECTED for finding in report.findings)


def _case(number: int, finding: Finding) -> WrittenCase:
    name, phase, expected = _EXPECTED[finding.violation.defect]
    kind = finding.document.get("kind", "object")
    by = " and ".join(map(str, finding.violation.mutators))
    return WrittenCase(
        name=f"{number}. {by}: a {kind} {name}",
        manifest=finding.document,
        request=_request(finding),
        phase=phase,
        expect=expected,
    )


def _request(finding: Finding) -> JSONObject:
    """What the request says that the object does not."""
    case = finding.case
    request: JSONObject = {}
    if case.operation is not Operation.CREATE:
        request["operation"] = case.operation.value
    if case.recorded is not None:
        asked = case.recorded
        request["subresource"] = asked.subresource
        request["namespace"] = asked.namespace
        if asked.user != KUBECTL_USER:
            request |= {"user": asked.user.username, "groups": list(asked.user.groups)}
        request["old"] = asked.old_object_document.data
    elif case.operation is Operation.UPDATE:
        request["old"] = finding.document
    if case.dry_run:
        request["dryRun"] = True
    return {name: value for name, value in request.items() if value}


def _comment(report: Report) -> str:
    left = [one for one in report.findings if one.violation.defect not in _EXPECTED]
    lines = [
        f"Found by `pratique prove`, seed {report.seed}. Each case fails until what it tells is put right."
    ]
    for finding in left:
        names = " and ".join(map(str, finding.violation.mutators))
        lines.append(f"Found, and nothing that a case can tell: {TITLES[finding.violation.defect]}: {names}")
    return "\n".join(lines)


def _flags(chain: ChainSettings) -> dict[str, JSON]:
    lists = {
        "enable-admission-plugins": chain.enable_admission_plugins,
        "disable-admission-plugins": chain.disable_admission_plugins,
        "admission-control": chain.admission_control,
    }
    flags: dict[str, JSON] = {name: list(names) for name, names in lists.items() if names}
    if chain.admission_control_config_file is not None:
        # Paths in a suite are relative to it, and this one is not.
        flags["admission-control-config-file"] = str(chain.admission_control_config_file.resolve())
    if chain.release is not None:
        flags["release"] = str(chain.release)
    variables = chain_variables(chain).items()
    return flags | {_flag(name): value for name, value in variables}


def _flag(variable: str) -> str:
    return variable.removeprefix("PRATIQUE_").lower().replace("_", "-")
