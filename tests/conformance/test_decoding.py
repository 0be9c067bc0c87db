"""Decoding against transformers' own."""

from __future__ import annotations

import copy
import itertools
import random
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor

from dojo.content import catalog
from tests.conformance.agreement import Rotary, agree, integers, neighbouring_pairs, normal, randomised, solution

transformers = pytest.importorskip("transformers", reason="transformers is part of the test extra")


def warped(logits: Tensor, temperature: float, top_k: int | None, top_p: float | None, min_p: float | None) -> Tensor:
    """The log-probabilities after transformers' warpers, in its order."""
    warpers = [transformers.TemperatureLogitsWarper(temperature)]
    warpers += [transformers.TopKLogitsWarper(top_k)] if top_k else []
    warpers += [transformers.TopPLogitsWarper(top_p)] if top_p else []
    warpers += [transformers.MinPLogitsWarper(min_p)] if min_p else []
    for warper in warpers:
        logits = warper(None, logits)
    return torch.log_softmax(logits, -1)


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p", "min_p"),
    [*itertools.product((0.4, 1.0, 1.9), (None, 1, 6), (None, 0.55, 0.93), (None, 0.07, 0.4))],
)
def test_what_is_kept_and_its_log_probabilities_are_transformers(
    temperature: float, top_k: int | None, top_p: float | None, min_p: float | None
) -> None:
    logits = normal(20, 13) * 2
    ours = solution("sampling").next_token_logprobs(logits, temperature, top_k, top_p, min_p)
    theirs = warped(logits, temperature, top_k, top_p, min_p)
    assert torch.equal(ours == -torch.inf, theirs == -torch.inf)
    agree(lambda dtype: theirs.exp().to(dtype), lambda dtype: ours.exp().to(dtype))


def test_sampling_has_its_known_values() -> None:
    ours = solution("sampling")
    logprobs = ours.next_token_logprobs(torch.tensor([0.4, 0.3, 0.2, 0.1]).log(), top_k=3, top_p=0.7)
    expected = torch.tensor([-0.5596, -0.8473, -torch.inf, -torch.inf])
    assert torch.allclose(logprobs, expected, atol=1e-4)
    assert ours.sample(logprobs.expand(2, 4), torch.tensor([0.5, 0.6])).tolist() == [0, 1]


@pytest.mark.parametrize("kv_heads", [6, 2, 1])
def test_attention_with_a_cache_is_llamas_with_a_dynamic_cache(kv_heads: int) -> None:
    config = transformers.LlamaConfig(
        hidden_size=24, num_attention_heads=6, num_key_value_heads=kv_heads, attn_implementation="sdpa"
    )
    llama = transformers.models.llama.modeling_llama
    attention = randomised(llama.LlamaAttention(config, 0), kv_heads)
    rotary, weights = Rotary(llama.LlamaRotaryEmbedding(config)), attention.state_dict()
    weights["q_proj.weight"] = neighbouring_pairs(weights["q_proj.weight"], 6)
    weights["k_proj.weight"] = neighbouring_pairs(weights["k_proj.weight"], kv_heads)
    x, draft = normal(2, 9, 24), normal(2, 3, 24, seed=2)
    steps = [x[:, :4], x[:, 4:5], draft, 5, x[:, 5:8], x[:, 8:]]  # a number rolls back

    def theirs(dtype: torch.dtype) -> Tensor:
        cache, module, found = transformers.DynamicCache(), copy.deepcopy(attention).to(dtype), []
        for step in steps:
            if isinstance(step, int):
                cache.crop(step - cache.get_seq_length())
                continue
            start, new = cache.get_seq_length(), step.shape[1]
            tables = rotary(step.to(dtype), torch.arange(start, start + new)[None])
            future = torch.full((new, start + new), -torch.inf, dtype=dtype).triu(1 + start)
            found.append(module(step.to(dtype), tables, future[None, None], cache)[0])
        return torch.cat(found, 1)

    def ours(dtype: torch.dtype) -> Tensor:
        made = solution("kv_cache")
        module = made.CachedAttention(24, 6, 64, num_kv_heads=kv_heads, dtype=dtype)
        module.load_state_dict(weights)
        cache, found = made.KVCache(2, kv_heads, 9, 4, dtype=dtype), []
        for step in steps:
            found += [cache.truncate(step)] if isinstance(step, int) else [module(step.to(dtype), cache)]
        return torch.cat([each for each in found if each is not None], 1)

    agree(theirs, ours, exact=1e-4)  # its tables are float32, as those of rope


def test_cached_attention_has_its_known_values() -> None:
    made = solution("kv_cache")
    module, cache = made.CachedAttention(2, 1, 4), made.KVCache(1, 1, 4, 2)
    module.load_state_dict(dict.fromkeys(module.state_dict(), torch.eye(2)))
    found = [module(torch.tensor([[token]]), cache).flatten() for token in ([1.0, 0.0], [0.0, 1.0])]
    assert torch.allclose(torch.stack(found), torch.tensor([[1.0, 0.0], [0.2138, 0.7862]]), atol=1e-4)


def small_llama(vocab: int, seed: int) -> torch.nn.Module:
    """A random model in float64, whose next tokens differ much in probability."""
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = transformers.LlamaConfig(vocab_size=vocab, attn_implementation="sdpa", **sizes)
    return randomised(transformers.LlamaForCausalLM(config), seed, std=0.6)


@pytest.mark.parametrize("penalty", [0.0, 1.0, 0.6])
@pytest.mark.parametrize(("vocab", "width", "eos"), [(11, 3, None), (11, 5, None), (4, 40, 2)])
def test_beam_search_is_transformers_where_nothing_finished_is_pruned(
    vocab: int, width: int, eos: int | None, penalty: float
) -> None:
    model, prompt, rounds = small_llama(vocab, seed=3), [1, 3, 0], 3
    with torch.no_grad():
        theirs = model.generate(
            torch.tensor([prompt]), attention_mask=torch.ones(1, 3, dtype=torch.long), do_sample=False,
            num_beams=width, num_return_sequences=width, max_new_tokens=rounds, length_penalty=penalty,
            early_stopping="never", eos_token_id=eos, pad_token_id=vocab, return_dict_in_generate=True,
            output_scores=True,
        )  # fmt: skip
        ours = solution("beam_search").beam_search(
            lambda prefixes: model(prefixes).logits[:, -1].log_softmax(-1), prompt, width, rounds,
            -1 if eos is None else eos, penalty,
        )  # fmt: skip
    found = [[token for token in row if token != vocab] for row in theirs.sequences[:, len(prompt) :].tolist()]
    assert [tokens for tokens, _ in ours] == found
    assert torch.allclose(torch.tensor([score for _, score in ours]), theirs.sequences_scores.float(), atol=1e-5)


def test_beam_search_has_its_known_values() -> None:
    table = torch.tensor([[0, 0.6, 0.4, 0, 0], [0, 0, 0, 0.55, 0.45], [0, 0, 0, 0.1, 0.9]]).log()
    for width, tokens, chance in ((1, [1, 3], 0.33), (2, [2, 4], 0.36)):
        found = solution("beam_search").beam_search(lambda rows: table[rows[:, -1]], [0], width, 2, eos_id=3)
        assert found[0][0] == tokens
        assert found[0][1] == pytest.approx(torch.tensor(chance).log().item())


def test_a_narrow_oracle_of_beam_search_is_the_exhaustive_one_where_the_beam_is_wide() -> None:
    grader = catalog.load(catalog.katas()["beam_search"].grader)
    for seed, penalty in itertools.product(range(5), (0.0, 0.7, 1.0)):
        arguments = (grader.Model(seed, 4, 2, 0.5), (1, 3))
        by_definition = grader.search(*arguments, 150, 4, 2, penalty)
        of_all = grader.search(*arguments, grader.WIDE, 4, 2, penalty)
        assert [tokens for tokens, _ in by_definition] == [tokens for tokens, _ in of_all]
        assert len(of_all) == 121


@pytest.mark.parametrize("seed", range(12))
def test_a_draft_is_verified_as_by_transformers(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    k, vocab = 3, 7
    q, p = normal(1, k, vocab, seed=seed).softmax(-1), normal(1, k + 1, vocab, seed=seed + 50).softmax(-1)
    tokens, uniform = integers(vocab, 1, k, seed=seed), (integers(99, 1, k, seed=seed) + 0.5) / 99
    drawn_from: list[Tensor] = []

    def multinomial(weights: Tensor, num_samples: int) -> Tensor:
        drawn_from.append(weights[0])
        return torch.zeros(1, 1, dtype=torch.int64)

    monkeypatch.setattr(torch, "rand_like", lambda like: uniform.double().reshape(like.shape))
    monkeypatch.setattr(torch, "multinomial", multinomial)
    verified = transformers.generation.utils._speculative_sampling(tokens, q.log(), k, p.log())
    monkeypatch.undo()
    numbers = (torch.arange(4000, dtype=torch.float64) + 0.5) / 4000
    rows = [each.expand(4000, *each.shape[1:]) for each in (tokens, q, p, uniform.double())]
    ours, lengths = solution("speculative").speculative_verify(*rows, numbers)
    accepted = int(verified[1])
    assert lengths.tolist() == [accepted + 1] * 4000
    assert ours[0, :accepted].tolist() == verified[0][0, :accepted].tolist()
    shares = torch.bincount(ours[:, accepted], minlength=vocab) / 4000
    assert torch.allclose(shares.double(), drawn_from[0], atol=1 / 4000)


def test_verifying_has_its_known_values() -> None:
    q, p, last = torch.tensor([[0.6, 0.3, 0.1], [0.3, 0.3, 0.4], [0.2, 0.5, 0.3]])
    for uniform, tokens, length in ((0.4, [0, 1], 2), (0.7, [2, -1], 1)):
        numbers = torch.tensor([[uniform]]), torch.tensor([0.5])
        target = torch.stack([p, last])[None]
        found = solution("speculative").speculative_verify(torch.tensor([[0]]), q[None, None], target, *numbers)
        assert [each.tolist() for each in found] == [[tokens], [length]]


def batch_of(lengths: list[int], vocab: int, pad: int, seed: int) -> tuple[Tensor, Tensor]:
    """Prompts of these lengths, padded on the left, and their mask."""
    places = torch.arange(max(lengths)) - (max(lengths) - torch.tensor(lengths)[:, None])
    return integers(vocab, len(lengths), max(lengths), seed=seed).masked_fill(places < 0, pad), places >= 0


@pytest.mark.parametrize("seed", range(8))
def test_decoding_a_padded_batch_is_transformers(seed: int) -> None:
    sizes = {"n_positions": 64, "n_embd": 16, "n_layer": 2, "n_head": 2}
    model = randomised(transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=23, **sizes)), seed, std=0.6)
    ids, mask = batch_of([3, 7, 1, 5], 23, pad=0, seed=seed)
    stops = [3, 8, 11]

    def step(ids: Tensor, positions: Tensor, mask: Tensor, cache: object) -> tuple[Tensor, object]:
        cache = transformers.DynamicCache() if cache is None else cache
        found = model(ids, position_ids=positions, attention_mask=mask.long(), past_key_values=cache, use_cache=True)
        return found.logits, found.past_key_values

    theirs = model.generate(
        ids, attention_mask=mask.long(), do_sample=False, max_new_tokens=20, eos_token_id=stops, pad_token_id=0
    )
    assert solution("generate").generate(step, ids, mask, 20, stops, 0).tolist() == theirs[:, 7:].tolist()


def test_decoding_has_its_known_values() -> None:
    said = {(5,): 4, (5, 4): 2, (7, 8, 9): 6, (7, 8, 9, 6): 3, (7, 8, 9, 6, 3): 2}
    calls: list[list[list[int]]] = []

    def step(ids: Tensor, positions: Tensor, mask: Tensor, cache: Tensor | None) -> tuple[Tensor, Tensor]:
        calls.append(positions.tolist())
        whole = ids if cache is None else torch.cat([cache, ids], 1)
        texts = [tuple(row[real].tolist()) for row, real in zip(whole, mask, strict=True)]
        best = torch.tensor([[said.get(text, 0)] for text in texts])
        return torch.nn.functional.one_hot(best, 10).double().expand(-1, ids.shape[1], -1), whole

    ids = torch.tensor([[1, 1, 5], [7, 8, 9]])
    found = solution("generate").generate(step, ids, torch.tensor([[False, False, True], [True] * 3]), 9, [2], 1)
    assert found.tolist() == [[4, 2, 1], [6, 3, 2]]
    assert calls == [[[0, 0, 0], [0, 1, 2]], [[1], [3]], [[2], [4]]]


def by_transformers(requests: list[tuple[int, int, int]], slots: int, budget: int) -> list[list[tuple[int, int]]]:
    """The steps of its first-in-first-out scheduler, over a cache that is never full."""
    batching = pytest.importorskip("transformers.generation.continuous_batching.scheduler")
    cache = Mock(max_blocks_per_request=0, max_decode_fast_path_length=0, use_prefix_sharing=False, read_cache_limit=0)
    cache.compute_free_capacity.return_value = 1.0
    scheduler = batching.FIFOScheduler(cache, safety_margin=0.0, max_requests_per_batch=slots)
    steps: list[list[tuple[int, int]]] = []
    arriving = sorted(range(len(requests)), key=lambda index: requests[index][0])
    while arriving or scheduler.has_pending_requests():
        while arriving and requests[arriving[0]][0] <= len(steps):
            index = arriving.pop(0)
            _, prompt, new = requests[index]
            scheduler.add_waiting_request(batching.RequestState(str(index), [1] * prompt, max_new_tokens=new))
        batch = scheduler.schedule_batch(budget, cache_budget=10**6)[0]
        steps.append(sorted((int(each.state.request_id), len(each.state.tokens_to_process)) for each in batch))
        for each in batch:
            if each.has_new_token and each.state.update_and_check_completion(1, None):
                scheduler.finish_request(each.state.request_id)
    return steps


@pytest.mark.parametrize("seed", range(40))
def test_continuous_batching_is_transformers_with_chunks(seed: int) -> None:
    pick = random.Random(seed)
    requests = [(pick.randint(0, 9), pick.randint(1, 14), pick.randint(1, 6)) for _ in range(pick.randint(1, 12))]
    slots, budget = pick.randint(1, 6), pick.randint(1, 12)
    ours = solution("batching").schedule(requests, slots, budget, chunked=True)
    assert [sorted(step) for step in ours] == by_transformers(requests, slots, budget)


def test_continuous_batching_has_its_known_values() -> None:
    schedule, requests = solution("batching").schedule, [(0, 3, 2), (0, 4, 1)]
    assert schedule(requests, 2, 5) == [[(0, 3)], [(0, 1), (1, 4)]]
    assert schedule(requests, 2, 5, chunked=True) == [[(0, 3), (1, 2)], [(0, 1), (1, 2)]]
