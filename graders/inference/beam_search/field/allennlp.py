"""As AllenNLP's BeamSearch: the best of each node, then of all; a finished beam goes on by its end token at no cost."""

import torch


def beam_search(step, prompt, beam_width, max_new_tokens, eos_id, length_penalty=0.0):
    start = torch.tensor([prompt])
    log_probs = step(start)
    last_log_probs, last = log_probs[0].topk(min(beam_width, log_probs.size(-1)))
    predictions = torch.cat([start.expand(len(last), -1), last[:, None]], dim=1)
    only_end = torch.full((log_probs.size(-1),), float("-inf"), dtype=log_probs.dtype)
    only_end[eos_id] = 0.0
    for _ in range(max_new_tokens - 1):
        if (last == eos_id).all():
            break
        cleaned = torch.where((last == eos_id).unsqueeze(-1), only_end, step(predictions))
        top_log_probs, classes = cleaned.topk(min(beam_width, cleaned.size(-1)))
        summed = (top_log_probs + last_log_probs.unsqueeze(-1)).reshape(-1)
        last_log_probs, indices = summed.topk(min(beam_width, len(summed)))
        backpointers = torch.div(indices, classes.size(1), rounding_mode="trunc")
        last = classes.reshape(-1)[indices]
        predictions = torch.cat([predictions[backpointers], last[:, None]], dim=1)
    found, valid = [], last_log_probs.isfinite()  # the beam may be wider than transitions of probability > 0 are many
    for sequence, total in zip(predictions[valid, len(prompt) :].tolist(), last_log_probs[valid].tolist(), strict=True):
        tokens = sequence[: sequence.index(eos_id) + 1] if eos_id in sequence else sequence
        found.append((tokens, total / len(tokens) ** length_penalty))
    return sorted(found, key=lambda pair: pair[1], reverse=True)
