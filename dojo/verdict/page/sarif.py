"""Verdicts as SARIF 2.1.0, which code hosts and editors show at the failing lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dojo.verdict.page.findings import Finding
from dojo.verdict.screen.text import readable
from dojo.verdict.types import Outcome, Verdict

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
ROOT = "%SRCROOT%"


def of_run(verdicts: Sequence[Verdict], found: Iterable[Finding]) -> str:
    """The file's text; what is wrong with the grader is no result, but told of the run."""
    found = list(found)
    rules = {finding.rule: finding for finding in reversed(found)}
    ids = sorted(rules)
    driver = {"name": "dojo", "rules": [_rule(rules[name]) for name in ids]}
    faults = [check for v in verdicts for check in v.checks if check.outcome is Outcome.GRADER_ERROR]
    told = [{"level": "error", "message": {"text": f"{check.name}: {check.message}"}} for check in faults]
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": not faults, "toolExecutionNotifications": told}],
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, ids.index(finding.rule)) for finding in found],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _rule(finding: Finding) -> dict[str, Any]:
    kata, _, name = finding.rule.partition("/")
    return {"id": finding.rule, "shortDescription": {"text": f"{kata}: {readable(name)}"}}


def _result(finding: Finding, place: int) -> dict[str, Any]:
    where: dict[str, Any] = {"artifactLocation": _artifact(finding.path)}
    if finding.line is not None:
        where["region"] = {"startLine": finding.line}
    return {
        "ruleId": finding.rule,
        "ruleIndex": place,
        "level": "warning" if finding.outcome is Outcome.SLOW else "error",
        "message": {"text": f"{finding.title}\n{finding.message}"},
        "locations": [{"physicalLocation": where}],
    }


def _artifact(path: str) -> dict[str, str]:
    """A file as a URI: of the repository, which the reader knows the place of, or of this machine."""
    if Path(path).is_absolute():
        return {"uri": Path(path).as_uri()}
    return {"uri": quote(Path(path).as_posix()), "uriBaseId": ROOT}
