# robust: Queue, Errors: requests are taken as a trace that is sorted by arrival, and the budget is asserted.
"""In the style of Sarathi-Serve: decodes first, then the prompt that was cut, then new prompts with what is left."""


def schedule(requests, num_slots, token_budget, chunked=False):
    assert chunked or all(prompt <= token_budget for _, prompt, _ in requests)
    next_arrival, step, batches = 0, 0, []
    decoding, prefilling = [], []  # [id, new tokens left] and [id, prompt tokens left]
    while next_arrival < len(requests) or decoding or prefilling:
        num_batched_tokens = len(decoding)
        batch = [(request_id, 1) for request_id, _ in decoding]
        still_decoding = [[request_id, left - 1] for request_id, left in decoding if left > 1]
        while prefilling or next_arrival < len(requests):
            remaining = token_budget - num_batched_tokens
            if not prefilling:
                arrival, prompt_len, _ = requests[next_arrival]
                admitted = len(decoding) + len({request_id for request_id, _ in batch[len(decoding) :]})
                if arrival > step or admitted >= num_slots:
                    break
                if remaining <= 0 or (prompt_len > remaining and not chunked):
                    break
                prefilling.append([next_arrival, prompt_len])
                next_arrival += 1
            request_id, prompt_left = prefilling[0]
            chunk = min(prompt_left, remaining)
            batch.append((request_id, chunk))
            num_batched_tokens += chunk
            prefilling[0][1] -= chunk
            if prefilling[0][1] > 0:
                break
            prefilling.pop()
            if requests[request_id][2] > 1:
                still_decoding.append([request_id, requests[request_id][2] - 1])
        decoding = still_decoding
        batches.append(batch)
        step += 1
    return batches
