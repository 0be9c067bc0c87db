"""Verdicts as JUnit XML, which any CI shows: a suite for each kata, a case for each check."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from xml.etree import ElementTree

from dojo.verdict.screen.text import readable
from dojo.verdict.types import Check, Outcome, Verdict

NO_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # what XML has no way to write
ELEMENTS = {Outcome.SKIPPED: "skipped", Outcome.UNDECIDED: "skipped", Outcome.GRADER_ERROR: "error"}
COUNTED = {"failure": "failures", "error": "errors", "skipped": "skipped"}


def of_run(verdicts: Sequence[Verdict]) -> str:
    """The file's text."""
    suites = [_suite(verdict) for verdict in verdicts]
    root = ElementTree.Element("testsuites", name="dojo", time=_seconds(sum(v.seconds for v in verdicts)))
    for name in ("tests", "failures", "errors"):
        root.set(name, str(sum(int(suite.get(name, 0)) for suite in suites)))
    root.extend(suites)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, "unicode") + "\n"


def _suite(verdict: Verdict) -> ElementTree.Element:
    checks = verdict.selected
    same = Counter((check.tier, readable(check.name)) for check in checks)  # cases of one name count once for some
    cases = [_case(verdict.kata, check, same[check.tier, readable(check.name)] > 1) for check in checks]
    cases = cases or [_ungraded(verdict)]
    suite = ElementTree.Element("testsuite", name=verdict.kata, file=_text(verdict.attempt), tests=str(len(cases)))
    ends = Counter(child.tag for case in cases for child in case)
    for tag, name in COUNTED.items():
        suite.set(name, str(ends[tag]))
    suite.set("time", _seconds(verdict.seconds))
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in (("seed", verdict.seed), ("torch", verdict.torch), ("device", verdict.device)):
        ElementTree.SubElement(properties, "property", name=name, value=str(value))
    suite.extend(cases)
    return suite


def _case(kata: str, check: Check, by_its_own_name: bool) -> ElementTree.Element:
    name = check.name if by_its_own_name else readable(check.name)
    case = ElementTree.Element(
        "testcase", classname=f"{kata}.{check.tier}", name=_text(name), time=_seconds(check.seconds)
    )
    if check.outcome is not Outcome.PASSED:
        named = check.diagnosis and f"equals “{check.diagnosis}”"
        tag = ELEMENTS.get(check.outcome, "failure")
        message = named or check.message.partition("\n")[0] or check.outcome.value
        end = ElementTree.SubElement(case, tag, type=check.outcome.value, message=_text(message))
        end.text = _text("\n".join(filter(None, [named, check.message])))
    return case


def _ungraded(verdict: Verdict) -> ElementTree.Element:
    """The one case of a file of which no check could run."""
    case = ElementTree.Element("testcase", classname=verdict.kata, name="can be graded", time="0.000")
    first = verdict.message.partition("\n")[0] or verdict.state
    tag = "failure" if verdict.verdict == "broken" else "skipped"
    end = ElementTree.SubElement(case, tag, type=verdict.state, message=_text(first))
    end.text = _text(verdict.message)
    return case


def _text(text: str) -> str:
    return NO_XML.sub("�", text)


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f}"
