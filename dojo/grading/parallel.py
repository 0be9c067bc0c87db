"""Gradings at once: a process for each processor, which takes a kata, or a share of the checks of a single one."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from dojo.content import master
from dojo.grading.options import Entry, Options
from dojo.grading.run import conclude, run
from dojo.judge.fork_server import ForkServer, FreshStarts
from dojo.judge.pool import WorkerPool, processors

if TYPE_CHECKING:
    from dojo.content.catalog import Kata
    from dojo.verdict.screen.terminal import Screen
    from dojo.verdict.types import Check, Verdict

MOST_JUDGES = 8  # at once: with its worker each takes some 30 MB, and more would hardly be quicker
Part = tuple[Entry, Options]
Server = TypeVar("Server", ForkServer, ForkServer | FreshStarts)


def side_by_side(
    entries: list[Entry], options: Options, server: ForkServer | FreshStarts, screen: Screen
) -> list[Verdict]:
    """Grade all entries, side by side where there are processors for it, and show how far it is."""
    # A GPU is one for all, a debugger sits at one terminal, and what comes first must be known to stop there.
    alone = options.device == "cuda" or options.debug or options.stop_at_first
    count = judges()
    server = warmed([entry.kata for entry in entries], server)
    names = [entry.kata.name for entry in entries]
    if alone or count == 1 or not isinstance(server, ForkServer):
        # nothing may draw where a debugger asks
        with nullcontext() if options.debug else screen.progress(names) as progress:
            return run(entries, options, server, progress.done if progress else lambda _: None)
    import_all()
    parts = shared_out(entries, options, count)
    size = min(count, len(parts))
    with WorkerPool(run_part, server, size) as pool, screen.progress(names[::-1], size) as progress:
        # Later katas are made of the earlier ones and take longer: what is begun last should be over soon.
        verdicts = pool.map(parts[::-1], lambda verdict: progress.done(verdict.kata))[::-1]
    return verdicts if len(entries) == len(parts) else [joined(verdicts, options)]


def warmed(katas: list[Kata], server: Server) -> Server:
    """One that has loaded what the katas' programs use; else each worker waits for torch's optimizers."""
    needs = any("test" in master.names(kata) or "torch.optim" in master.read_text(kata.master) for kata in katas)
    return server.warm() if needs and isinstance(server, ForkServer) else server


def judges() -> int:
    """How many judges work at once here."""
    return min(processors(), MOST_JUDGES)


def shared_out(entries: list[Entry], options: Options, count: int, before: Verdict | None = None) -> list[Part]:
    """What several judges do at once: a kata each, or every one a share of the checks of a single kata.

    The verdict on an earlier attempt at it tells how long each check takes.
    """
    if len(entries) > 1 or entries[0].step:
        return [(entry, options) for entry in entries]
    if before is None or not before.checks:
        return [(entries[0], replace(options, part=(number, count))) for number in range(count)]
    shares: list[tuple[float, set[str]]] = [(0.0, set()) for _ in range(count)]
    for check in sorted(before.checks, key=lambda check: -check.seconds):
        index = min(range(count), key=lambda number: shares[number][0])
        shares[index][1].add(check.name)
        shares[index] = (shares[index][0] + check.seconds, shares[index][1])
    return [(entries[0], replace(options, only=frozenset(names))) for _, names in shares]


def run_part(part: Part, server: ForkServer, checked: Callable[[Check], None] = lambda check: None) -> Verdict:
    """Grade one part; `checked` hears of each check as it ends."""
    return run([part[0]], part[1], server, checked=checked)[0]


def joined(parts: list[Verdict], options: Options) -> Verdict:
    """The verdict on a kata whose checks were shared out."""
    whole = parts[0]
    if whole.verdict in ("empty", "broken"):
        return whole
    checks = sorted((check for part in parts for check in part.checks), key=lambda check: check.place)
    whole.message = next((part.message for part in parts if part.message), "")
    whole.remarks = [*dict.fromkeys(remark for part in parts for remark in part.remarks)]
    whole.let_through = [name for part in parts for name in part.let_through]
    whole.error_ratio = max(part.error_ratio for part in parts)
    spent = max(part.seconds for part in parts)  # they ran side by side
    conclude(whole, checks, options)
    whole.seconds = spent
    return whole


def import_all() -> None:
    """What every judge needs, imported once before there are several."""
    import torch

    import dojo.contracts
    import dojo.grading.pytest_plugin  # noqa: F401

    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()  # modules stay: no collection need walk all of torch
