"""What `schedule` must give. The oracle keeps no state: each step is derived from all that ran before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from dojo.contracts import Attempt, Draw, GeneratorContract, Label, Section, fail, robust, shorter
from dojo.judge.protocol import Args, Kwargs

Request = tuple[int, int, int]  # arrival, prompt, new
Scenario = tuple[list[Request], int, int, bool]
ROOM = 99  # slots or budget that are never short


def derived(requests: list[Request], num_slots: int, token_budget: int, chunked: bool = False) -> list[list]:
    """The steps, each in the order of the requests."""
    history: list[list[tuple[int, int]]] = []
    needs = [prompt + new - 1 for _, prompt, new in requests]
    while True:
        ran = [pair for step in history for pair in step]
        done, begun = Counter[int](), list(dict.fromkeys(index for index, _ in ran))
        for index, tokens in ran:
            done[index] += tokens
        if all(done[index] == need for index, need in enumerate(needs)):
            return [sorted(step) for step in history]
        step: list[tuple[int, int]] = []
        queue = sorted((requests[index][0], index) for index in range(len(requests)) if index not in begun)
        going = [(0, index) for index in begun if done[index] < needs[index]]
        for arrival, index in going + queue:
            left, prompt = token_budget - sum(tokens for _, tokens in step), requests[index][1]
            if index not in begun:
                fits = left >= (1 if chunked else prompt)
                if arrival > len(history) or not fits or len(step) == num_slots:
                    break
            step.append((index, min(max(prompt - done[index], 1), left)))
        history.append(step)


def drawn(
    d: Draw, slots: tuple[int, int] = (2, 4), budget: tuple[int, int] = (8, 12), chunked: bool = False,
    arrivals: int = 0, prompts: int = 8, new: int = 5, listed: bool = True, count: int = 12,
) -> list[Scenario]:  # fmt: skip
    """Scenarios of random requests; `arrivals` is the latest one, and `listed` says that they come in their order."""
    pick, found = d.random(), []
    for number in range(count):
        requests = [
            (pick.randint(0, arrivals), pick.randint(1, prompts), pick.randint(1, new)) for _ in range(4 + number % 5)
        ]
        requests = sorted(requests, key=lambda each: each[0]) if listed else requests
        found.append((requests, pick.randint(*slots), pick.randint(*budget), chunked))
    return found


def smaller(call: Args) -> Iterator[Args]:
    """The same with fewer requests, then with smaller numbers."""
    requests, *others = call
    yield from ((each, *others) for each in shorter(requests) if each)
    for index, request in enumerate(requests):
        for place, number in enumerate(request):
            for less in dict.fromkeys((int(place > 0), number // 2, number - 1)):
                if int(place > 0) <= less < number:
                    changed = (*request[:place], less, *request[place + 1 :])
                    yield [*requests[:index], changed, *requests[index + 1 :]], *others


class TestSchedule(GeneratorContract):
    name = "schedule"
    oracle = derived
    simpler = smaller
    holds = {
        "No overtaking": ("test_none_overtakes",),
        "Queue": ("test_equal_arrivals", "test_requests", "test_a_request_waits"),
        "Chunks": ("test_a_chunk", "test_a_cut"),
        "Decode": ("test_running", "test_a_finished", "test_a_request_alone"),
        "Idle steps": ("test_idle", "test_nothing"),
        "Cost": ("test_time",),
        "Errors": ("test_a_prompt_that",),
    }
    claims = {
        "a request alone decodes from the step after its prompt": [
            *(([(0, 3, new)], 1, 4, chunked) for new in (1, 2, 5) for chunked in (False, True)),
        ],
        "running requests come first and share the budget": lambda d: drawn(d, (ROOM, ROOM), (8, 10), prompts=6),
        "a finished request frees its slot for the next step": lambda d: drawn(d, (1, 3), (ROOM, ROOM)),
        "none overtakes the first of the queue": lambda d: drawn(d, (3, 5), (8, 9)),
        "equal arrivals begin by index": lambda d: drawn(d, (1, 2), (ROOM, ROOM), new=3),
        "a request waits for its arrival": lambda d: drawn(d, arrivals=3, new=6),
        "a chunk takes all of the budget that is left": lambda d: drawn(d, (2, 5), (3, 9), True, prompts=14),
    }
    edges = {
        "a cut prompt holds its slot": lambda d: drawn(d, (1, 2), (1, 5), True, arrivals=4, prompts=14),
        "requests may be listed in any order": lambda d: drawn(d, arrivals=5, listed=False),
        "idle steps are empty": lambda d: [
            ([(2, 3, 1)], 1, 4, False),
            ([(0, 1, 1), (4, 2, 2)], 2, 4, True),
            *drawn(d, (3, 4), (ROOM, ROOM), arrivals=40, new=2),
        ],
        "nothing to do takes no step": [([], 2, 4, False)],
    }
    refused = {
        "a prompt that is larger than the budget is refused": {
            (((0, 2, 1), (7, 9, 1)), 2, 8): (9, 8),
            (((0, 13, 1),), 2, 12, False): (13, 12),
        }
    }
    time_limit = 5.0

    @cached_property
    def timed(self) -> Args:
        return [(0, 1, 2)] * 8000, 2, 8, True

    def answer(self, attempt: Attempt, args: Args, kwargs: Kwargs) -> Any:
        """Each step in the order of its requests, where it is a list of pairs."""
        got = super().answer(attempt, args, kwargs)
        if not isinstance(got, (list, tuple)):
            return got
        plain = [all(isinstance(pair, (list, tuple)) and [*map(type, pair)] == [int, int] for pair in step)
                 if isinstance(step, (list, tuple)) else False for step in got]  # fmt: skip
        return [sorted(map(tuple, step)) if fine else step for step, fine in zip(got, plain, strict=True)]

    def picture(self, call: Args, got: Any, exact: Any) -> list[Section]:
        """The requests as a table."""
        rows = [("request", "arrival", "prompt", "new"), *((index, *each) for index, each in enumerate(call[0]))]
        return [Section(Label.MAP, "\n".join("".join(f"{value:>9}" for value in row) for row in rows))]

    @robust
    def test_requests_are_left_as_they_are(self, attempt: Attempt) -> None:
        """The server's list of requests is sorted, or emptied, behind its back."""
        requests, *others = drawn(Draw(1), arrivals=5, listed=False)[0]
        function = attempt.schedule
        left = function.ask(do="left_of", target=function.target, args=(requests, *others))["value"][0]
        if [*map(tuple, left)] != requests:
            fail("requests are left as they are", f"now {left}", call=self.words((requests, *others), {}))
