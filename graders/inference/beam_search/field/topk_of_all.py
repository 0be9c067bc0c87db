# robust: of equal sums `topk` takes any.
"""As tensor libraries write it: sums plus log-probabilities, flattened, and `topk` over all of them."""

import torch


def beam_search(step, prompt, beam_width, max_new_tokens, eos_id, length_penalty=0.0):
    if beam_width < 1 or max_new_tokens < 1 or not prompt:
        raise ValueError(f"{prompt=}, {beam_width=}, {max_new_tokens=}")
    sequences = torch.tensor([prompt])
    sums, lengths, finished = torch.zeros(1), torch.zeros(1), torch.zeros(1, dtype=torch.bool)
    for _ in range(max_new_tokens):
        if finished.all():
            break
        live = step(sequences[~finished]).float()
        vocab = live.shape[-1]
        logprobs = torch.full((len(sequences), vocab), -torch.inf)
        logprobs[finished, eos_id] = 0.0
        logprobs[~finished] = live
        candidates = (sums[:, None] + logprobs).flatten()
        sums, places = candidates.topk(min(beam_width, len(candidates)))
        sums, places = sums[sums > -torch.inf], places[sums > -torch.inf]
        parents, tokens = places // vocab, places % vocab
        sequences = torch.cat([sequences[parents], tokens[:, None]], dim=1)
        lengths = lengths[parents] + ~finished[parents]
        finished = finished[parents] | (tokens == eos_id)
    scores, order = (sums / lengths**length_penalty).topk(len(sums))
    found = zip(sequences[order].tolist(), lengths[order].int().tolist(), scores.tolist(), strict=True)
    return [(tokens[len(prompt) : len(prompt) + length], score) for tokens, length, score in found]
