"""Three orders through the katas: each can be walked, and is what its title says."""

from __future__ import annotations

import pytest

from dojo.content import catalog
from dojo.practice import progress
from dojo.practice.schedule import asked, paths
from dojo.practice.schedule.paths import ROUTES, Route

KATAS = catalog.katas()
each_route = pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.title)


@each_route
def test_what_a_kata_builds_on_comes_before_it(route: Route) -> None:
    names = route.names
    assert len(set(names)) == len(names)
    for name in names:
        later = [each for each in KATAS[name].builds_on if each in names and names.index(each) > names.index(name)]
        assert not later, f"{name} builds on {later}, which come after it"


@each_route
def test_a_sitting_fits_into_a_day(route: Route) -> None:
    for sitting in route.sittings:
        assert 20 <= sum(KATAS[name].minutes for name in sitting) <= 120, sitting


def test_the_titles_say_how_many_days() -> None:
    week, ten_days, _ = ROUTES
    assert (len(week.sittings), len(ten_days.sittings)) == (7, 10)


def test_ten_days_hold_what_is_asked_most() -> None:
    most = [name for name, (weight, _) in asked.ASKED.items() if weight == 3]
    assert not set(most) - set(ROUTES[1].names)


def test_all_three_are_shown_with_their_minutes() -> None:
    text = "\n".join(paths.lines(KATAS, progress.standings(KATAS.values(), [])))
    assert text.count("## ") == 3
    assert "1. softmax, linear, embedding, rmsnorm (34 min)" in text
    assert "0 of 20 katas solved" in text
