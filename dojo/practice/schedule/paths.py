"""Three orders through the katas, day by day: what to take in which order, and how many minutes it takes.

What a kata builds on comes before it, as far as it is on the path at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dojo.content.catalog import Kata
from dojo.practice.schedule.standing import Standing


@dataclass(frozen=True)
class Route:
    """An order through the katas, in sittings."""

    title: str
    about: str  # a sentence
    sittings: tuple[tuple[str, ...], ...]

    @property
    def names(self) -> list[str]:
        """Its katas in their order."""
        return [name for sitting in self.sittings for name in sitting]

    def hours(self, katas: Mapping[str, Kata]) -> str:
        """How many hours all of it takes, at par."""
        return f"{sum(katas[name].minutes for name in self.names) / 60:.0f}"

    def tally(self, standings: Mapping[str, Standing]) -> str:
        """How many of its katas are solved, in words."""
        names = self.names
        return f"{sum(standings[name].solved for name in names)} of {len(names)} katas solved"


def _route(title: str, about: str, sittings: str) -> Route:
    return Route(title, about, tuple(tuple(line.split()) for line in sittings.strip().splitlines()))


ROUTES = (
    _route(
        "A first week",
        "From a softmax to a language model that writes, an hour or so a day.",
        """
        softmax linear embedding rmsnorm
        causal_mask sdpa mha
        rope mqa gqa
        activations swiglu causal_attention
        block lm
        cross_entropy lm_loss adamw
        sampling debug_lm
        """,
    ),
    _route(
        "An interview in ten days",
        "What is asked most, and at the end as it is asked: in stages, against the clock.",
        """
        softmax sdpa causal_mask mha
        rope mqa gqa
        rmsnorm swiglu block lm
        cross_entropy lm_loss sampling
        kv_cache generate
        bpe_train bpe_encode beam_search
        lora dpo ppo grpo
        debug_lm adamw gradients schedules
        gpt_screen
        attention_ladder decoding_ladder
        """,
    ),
    _route(
        "A serving engineer",
        "Caches, batches, memory and fewer bits: what stands between a model and its users.",
        """
        softmax sdpa rope
        gqa causal_attention kv_cache
        sampling generate batching
        paged_attention speculative
        flash_attention window_attention
        mla quantize
        accounting rope_scaling tensor_parallel
        debug_decoding decoding_ladder
        """,
    ),
)


def lines(katas: Mapping[str, Kata], standings: Mapping[str, Standing]) -> list[str]:
    """The routes in Markdown, a list of sittings each, with minutes and with what is solved."""
    found = []
    for route in ROUTES:
        found += [f"## {route.title}", "", f"{route.about} {route.tally(standings)}.", ""]
        for number, sitting in enumerate(route.sittings, 1):
            minutes = sum(katas[name].minutes for name in sitting)
            told = ", ".join(f"{name} ✓" if standings[name].solved else name for name in sitting)
            found.append(f"{number}. {told} ({minutes} min)")
        found += ["", f"{route.hours(katas)} hours in all, at par.", ""]
    return found
