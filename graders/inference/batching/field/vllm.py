"""As vLLM's scheduler: requests with `num_computed_tokens`, first `self.running`, then `self.waiting` while budget lasts."""

from collections import deque
from dataclasses import dataclass


@dataclass
class Request:
    request_id: int
    arrival_time: int
    num_prompt_tokens: int
    max_tokens: int
    num_computed_tokens: int = 0
    num_output_tokens: int = 0

    @property
    def num_tokens(self):
        return self.num_prompt_tokens + self.num_output_tokens


class Scheduler:
    def __init__(self, max_num_seqs, max_num_batched_tokens, enable_chunked_prefill):
        self.max_num_running_reqs = max_num_seqs
        self.max_num_scheduled_tokens = max_num_batched_tokens
        self.enable_chunked_prefill = enable_chunked_prefill
        self.waiting, self.running = deque(), []

    def schedule(self):
        num_scheduled_tokens = {}
        token_budget = self.max_num_scheduled_tokens
        for request in self.running:
            num_new_tokens = min(request.num_tokens - request.num_computed_tokens, token_budget)
            num_scheduled_tokens[request.request_id] = num_new_tokens
            token_budget -= num_new_tokens
        while self.waiting and token_budget > 0:
            if len(self.running) == self.max_num_running_reqs:
                break
            request = self.waiting[0]
            num_new_tokens = request.num_tokens - request.num_computed_tokens
            if not self.enable_chunked_prefill and num_new_tokens > token_budget:
                break
            num_new_tokens = min(num_new_tokens, token_budget)
            self.running.append(self.waiting.popleft())
            num_scheduled_tokens[request.request_id] = num_new_tokens
            token_budget -= num_new_tokens
        return num_scheduled_tokens

    def update_from_output(self, num_scheduled_tokens):
        for request in self.running:
            request.num_computed_tokens += num_scheduled_tokens[request.request_id]
            if request.num_computed_tokens == request.num_tokens:
                request.num_output_tokens += 1
        self.running = [request for request in self.running if request.num_output_tokens < request.max_tokens]


def schedule(requests, num_slots, token_budget, chunked=False):
    if not chunked and any(prompt > token_budget for _, prompt, _ in requests):
        raise ValueError(f"prompts of {max(p for _, p, _ in requests)} tokens, max_num_batched_tokens={token_budget}")
    todo = sorted((Request(i, *each) for i, each in enumerate(requests)), key=lambda request: request.arrival_time)
    arriving, scheduler, steps = deque(todo), Scheduler(num_slots, token_budget, chunked), []
    while arriving or scheduler.waiting or scheduler.running:
        while arriving and arriving[0].arrival_time <= len(steps):
            scheduler.waiting.append(arriving.popleft())
        output = scheduler.schedule()
        scheduler.update_from_output(output)
        steps.append(list(output.items()))
    return steps
