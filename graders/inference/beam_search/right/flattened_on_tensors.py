# Style: sums plus log-probabilities, flattened; the place says parent and token. All in the dtype that step gives.
import torch


@torch.no_grad()
def beam_search(step, prompt, beam_width, max_new_tokens, eos_id, length_penalty=0.0):
    if beam_width < 1:
        raise ValueError(f"beam_width is {beam_width}")
    if max_new_tokens < 1:
        raise ValueError(f"max_new_tokens is {max_new_tokens}")
    if len(prompt) == 0:
        raise ValueError("the prompt is empty")
    tokens = torch.tensor(prompt, dtype=torch.long)[None]
    sums = torch.zeros(1)
    done = torch.zeros(1, dtype=torch.bool)
    length = torch.zeros(1, dtype=torch.long)
    for _ in range(max_new_tokens):
        if done.all():
            break
        live = (~done).nonzero().squeeze(-1)
        logprobs = step(tokens[live])
        vocab = logprobs.shape[-1]
        # A finished row has one candidate: itself, in the column of the end token.
        grid = torch.full((len(tokens), vocab), -torch.inf, dtype=logprobs.dtype)
        grid[live] = logprobs
        grid[done, eos_id] = 0.0
        total = (sums[:, None].to(grid) + grid).flatten()
        best = total.argsort(descending=True, stable=True)[:beam_width]
        best = best[total[best] > -torch.inf]
        parent, token = best // vocab, best % vocab
        length = length[parent] + (~done[parent])
        tokens = torch.cat([tokens[parent], token[:, None]], 1)
        sums, done = total[best], done[parent] | (token == eos_id)
    if len(tokens) == 0:
        return []
    score = sums / length.to(sums) ** length_penalty
    order = score.argsort(descending=True, stable=True).tolist()
    start = len(prompt)
    return [(tokens[i, start : start + int(length[i])].tolist(), score[i].item()) for i in order]
