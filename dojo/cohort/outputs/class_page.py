"""The page about a class: who got how far, why attempts fail, and what a person must look at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import quote

from dojo.cohort.course.rubric import TIERS
from dojo.cohort.outputs.grades import HARMLESS, SOLVED, Class, Row, Stand, count, short, told
from dojo.verdict.page.html import esc
from dojo.verdict.screen.text import readable

MOST = 40  # rows of the tables of causes and checks
Pair = tuple[str, str, str, float]
SEARCH = """<div class="search" role="search"><label for="search">Search</label>
<input id="search" type="search" autocomplete="off" aria-describedby="searched"
 placeholder="a student, a kata, words of a cause"> <output id="searched" for="search"></output></div>"""


def body(found: Class, pairs: Iterable[Pair], pages: Mapping[str, str], side_by_side: bool = False) -> str:
    """The body of the page; `pages` are the feedback pages by student, and `alike.html` may have pairs side by side."""
    rows = list(found.rows.values())
    parts = [
        ("students", "Students and katas", _heat_map(found, pages)),
        ("tiers", "How far attempts get", _tiers(found)),
        ("causes", "The commonest causes", _causes(rows)),
        ("checks", "The hardest checks", _checks(rows)),
        ("person", "A person must look", _person(found)),
        ("decided", "Decided by a person", _decided(found)),
        ("late", "Late", _late(found)),
        ("odd", "Worth a look", _odd(found)),
        ("alike", "Alike", _alike(pairs, side_by_side)),
        ("problems", "What could not be read", _problems(found)),
    ]
    links = "".join(f'<li><a href="#{anchor}">{esc(title)}</a></li>' for anchor, title, _ in parts)
    sections = "".join(
        f'<section id="{a}" aria-labelledby="{a}-title"><h2 id="{a}-title">{esc(t)}</h2>{b}</section>'
        for a, t, b in parts
    )
    return f'<p>{_summary(found)}</p><nav aria-label="on this page"><ul>{links}</ul></nav>{SEARCH}{sections}'


def _summary(found: Class) -> str:
    stands = Counter(row.stand for row in found.rows.values())
    graded = sum(stands.values()) - stands[Stand.MISSING] - stands[Stand.PERSON] - stands[Stand.DECIDED]
    solved = sum(stands[stand] for stand in SOLVED)
    parts = [
        count(len(found.students), "student"),
        count(len(found.katas), "kata"),
        f"{count(graded, 'attempt')} judged, of which {solved} right"
        + (f" ({solved / graded:.0%}), {stands[Stand.PASSED]} of them passed" if graded else ""),
        f"{stands[Stand.MISSING]} missing",
        f"{stands[Stand.PERSON]} for a person to look at",
        *([f"{stands[Stand.DECIDED]} decided by a person"] if stands[Stand.DECIDED] else []),
    ]
    return " · ".join(parts)


def _heat_map(found: Class, pages: Mapping[str, str]) -> str:
    if not found.students:
        return "<p>Nobody has handed anything in.</p>"
    heads = ["student", *found.katas, "right", "passed", *(["points"] if found.rubric else [])]
    lines = []
    for student in found.students:
        rows = found.of(student)
        causes = " ".join(dict.fromkeys(row.first_cause for row in rows if row.first_cause))
        name = f'<th scope="row"><a href="{esc(quote(pages[student]))}">{_name(student)}</a></th>'
        cells = "".join(map(_cell, rows))
        for stands in (SOLVED, (Stand.PASSED,)):
            cells += f'<td class="n">{sum(row.stand in stands for row in rows)}</td>'
        if found.rubric:
            total, most = found.points(student)
            cells += f'<td class="n" data-sort="{total}">{short(total)} of {short(most)}</td>'
        lines.append(f'<tr data-search="{esc(causes)}">{name}{cells}</tr>')
    legend = "".join(f"<li>{_square(stand)} {esc(stand.word)}</li>" for stand in Stand)
    letters = "<p>C, R and F say that core, robust and fast hold. A name leads to what the student is told.</p>"
    return f'<ul class="key">{legend}</ul>{letters}{_table(heads, lines, "heat")}'


def _cell(row: Row) -> str:
    said = f"{row.stand.word}: {row.first_cause}" if row.first_cause else row.stand.word
    place = list(Stand).index(row.stand)
    return (
        f'<td class="h {row.stand.name.lower()}" data-sort="{place}" aria-label="{esc(said)}">{row.stand.letters}</td>'
    )


def _square(stand: Stand) -> str:
    return f'<span class="h {stand.name.lower()}" aria-hidden="true">{stand.letters}</span>'


def _tiers(found: Class) -> str:
    lines = []
    for kata in found.katas:
        stands = Counter(found.rows[student, kata].stand for student in found.students)
        bars = "".join(
            f'<i class="{stand.name.lower()}" style="width:{100 * stands[stand] / len(found.students):.2f}%"></i>'
            for stand in Stand
            if stands[stand]
        )
        numbers = "".join(f'<td class="n">{stands[stand]}</td>' for stand in Stand)
        drawn = f'<td class="bars" aria-hidden="true"><div>{bars}</div></td>'
        lines.append(f"<tr>{_head(esc(kata))}{drawn}{numbers}</tr>")
    return _table(["kata", "", *(stand.word for stand in Stand)], lines, "tiers")


def _causes(rows: Sequence[Row]) -> str:
    known = Counter(
        (row.kata, check["diagnosis"] or told(check), bool(check["diagnosis"])) for row in rows for check in _once(row)
    )
    known.update((row.kata, row.first_cause, False) for row in rows if row.stand is Stand.BROKEN)
    most = known.most_common(MOST)
    lines = []
    for (kata, cause, named), number in most:
        said = f"equals <b>{esc(cause)}</b>" if named else esc(cause)
        bar = f'<td class="bar" aria-hidden="true"><b style="width:{100 * number / most[0][1]:.0f}%"></b></td>'
        lines.append(f"<tr><td>{esc(kata)}</td>{_head(said, True)}{_number(str(number), number)}{bar}</tr>")
    rest = f"<p>{len(known) - len(most)} rarer causes are left out.</p>" if len(known) > len(most) else ""
    return _table(["kata", "cause", "students", ""], lines) + rest if lines else "<p>Nothing failed.</p>"


def _once(row: Row) -> Iterable[dict]:
    """The failed checks that tell a cause, one of those that say the same."""
    return {told(check): check for check in row.causes}.values()


def _checks(rows: Sequence[Row]) -> str:
    ran: Counter[tuple[str, str, str]] = Counter()
    failed: Counter[tuple[str, str, str]] = Counter()
    for row in rows:
        for check in row.checks:
            if check["outcome"] != "skipped":
                ran[row.kata, check["tier"], check["name"]] += 1
                failed[row.kata, check["tier"], check["name"]] += check["outcome"] not in HARMLESS
    hardest = sorted(
        (key for key in failed if failed[key]), key=lambda key: (-failed[key] / ran[key], -failed[key], key)
    )[:MOST]
    lines = []
    for key in hardest:
        kata, tier, name = key
        share = failed[key] / ran[key]
        cells = _number(f"{failed[key]} of {ran[key]}", failed[key]) + _number(f"{share:.0%}", share)
        which = f'<td>{esc(kata)}</td><td data-sort="{TIERS.index(tier)}">{tier}</td>'
        lines.append(f"<tr>{which}{_head(esc(readable(name)), True)}{cells}</tr>")
    return _table(["kata", "tier", "check", "failed", "share"], lines) if lines else "<p>No check failed.</p>"


def _person(found: Class) -> str:
    lines = [
        f"<tr>{_head(_name(row.student))}<td>{esc(row.kata)}</td>{_words(esc(row.why_a_person))}</tr>"
        for row in found.for_a_person()
    ]
    said = "<p>These have no verdict and no grade: they count neither for nor against anybody.</p>"
    return (
        said + _table(["student", "kata", "why"], lines) if lines else "<p>Nothing is left for a person to decide.</p>"
    )


def _decided(found: Class) -> str:
    lines = []
    for row in found.rows.values():
        if row.decision:
            points = _number(short(row.decision.points), row.decision.points)
            said = f"<td>{esc(row.stand.word)}</td>{_words(esc(row.decision.reason))}"
            lines.append(f"<tr>{_head(_name(row.student))}<td>{esc(row.kata)}</td>{points}{said}</tr>")
    said = "<p>These points stand above the verdicts.</p>"
    return said + _table(["student", "kata", "points", "verdict", "why"], lines) if lines else "<p>Nothing is.</p>"


def _late(found: Class) -> str:
    lines = [
        f"<tr>{_head(_name(row.student))}<td>{esc(row.kata)}</td>{_number(str(row.late.days), row.late.days)}"
        f"{_number(f'{row.late.lost:.0%}', row.late.lost)}{_words(esc(row.late.said))}</tr>"
        for row in found.rows.values()
        if row.late
    ]
    heads = ["student", "kata", "days", "lost", "in words"]
    return _table(heads, lines) if lines else "<p>Nothing came late, as far as is known.</p>"


def _odd(found: Class) -> str:
    """Attempts that mention what no answer needs."""
    lines = [
        f"<tr>{_head(_name(row.student))}<td>{esc(row.kata)}</td><td>{esc(row.verdict)}</td>"
        f"{_words(esc(', '.join(row.result.verdict['mentions'])))}</tr>"
        for row in found.rows.values()
        if row.result is not None and row.result.verdict.get("mentions")
    ]
    said = (
        "<p>These mention what no answer needs, and what ways around the judge are made of. It has changed no verdict: "
        "read them.</p>"
    )
    return said + _table(["student", "kata", "verdict", "mentions"], lines) if lines else "<p>None.</p>"


def _alike(pairs: Iterable[Pair], side_by_side: bool) -> str:
    lines = [
        f"<tr>{_head(_name(one))}<td>{_name(other)}</td><td>{esc(kata)}</td>{_number(f'{share:.0%}', share)}</tr>"
        for one, other, kata, share in sorted(pairs, key=lambda pair: (-pair[3], pair))
    ]
    said = (
        "<p>Attempts that are much the same up to names, order and comments. Short katas have few right answers, and "
        "this judges nobody: read both before you ask.</p>"
    )
    link = '<p><a href="alike.html">The likest side by side</a></p>' if side_by_side else ""
    return (
        said + link + _table(["student", "and", "kata", "matching tokens"], lines)
        if lines
        else "<p>No two attempts are much the same.</p>"
    )


def _problems(found: Class) -> str:
    lines = [
        f"<tr>{_head(_name(each.student) or 'nobody')}{_words(_name(each.path))}{_words(esc(each.why))}</tr>"
        for each in sorted(found.problems)
    ]
    return _table(["student", "file", "what is wrong"], lines) if lines else "<p>Everything could be read.</p>"


def _name(text: str) -> str:
    """Somebody's words, which keep their direction of writing to themselves."""
    return f"<bdi>{esc(text)}</bdi>" if text else ""


def _head(said: str, long: bool = False) -> str:
    return f'<th scope="row"{" class=long" * long}>{said}</th>'


def _words(said: str) -> str:
    return f'<td class="long">{said}</td>'


def _number(said: str, value: float) -> str:
    return f'<td class="n" data-sort="{value}">{said}</td>'


def _table(heads: Sequence[str], lines: Sequence[str], css: str = "") -> str:
    """A table to sort by each column that has a head, and to search."""
    head = "".join(
        f'<th scope="col" aria-sort="none"><button>{esc(name)}</button></th>' if name else "<td></td>" for name in heads
    )
    return (
        '<div class="wide" role="group" aria-label="a table to scroll" tabindex="0">'
        f'<table class="sortable searched {css}">'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )
