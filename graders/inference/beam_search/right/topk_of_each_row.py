# Style: from each row only its best beam_width can stay; finished ones wait in the same list. float32.
import torch


def top(row, k):
    """The best k of a row as pairs, lower ids first where they are equal."""
    values, ids = torch.sort(row, descending=True, stable=True)
    return [(i, v) for i, v in zip(ids[:k].tolist(), values[:k].tolist()) if v != float("-inf")]


def beam_search(step, prompt, beam_width, max_new_tokens, eos_id, length_penalty=0.0):
    if beam_width <= 0 or max_new_tokens <= 0 or not len(prompt):
        raise ValueError(f"bad arguments: beam_width {beam_width}, max_new_tokens {max_new_tokens}, prompt {prompt}")
    beams = [(0.0, [])]
    for _ in range(max_new_tokens):
        alive = [number for number, (_, seq) in enumerate(beams) if not seq or seq[-1] != eos_id]
        if len(alive) == 0:
            break
        batch = torch.stack([torch.tensor(prompt + beams[number][1]) for number in alive])
        scores = dict(zip(alive, step(batch).float()))
        nxt = []
        for number, (total, seq) in enumerate(beams):
            if number not in scores:
                nxt.append((total, seq))
            else:
                nxt.extend((total + v, seq + [i]) for i, v in top(scores[number], beam_width))
        nxt.sort(key=lambda pair: pair[0], reverse=True)
        beams = nxt[:beam_width]
    result = [(seq, total / (len(seq) ** length_penalty)) for total, seq in beams]
    result.sort(key=lambda pair: pair[1], reverse=True)
    return result
