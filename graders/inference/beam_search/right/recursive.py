# Style: a recursion over rounds; a key of sum, place in the beam and token instead of a stable sort.
import torch


def _round(step, prompt, beam, width, left, eos):
    live = [seq for seq, _ in beam if not (seq and seq[-1] == eos)]
    if left == 0 or not live:
        return beam
    rows = step(torch.as_tensor([prompt + seq for seq in live], dtype=torch.int64))
    table = {tuple(seq): row for seq, row in zip(live, rows.tolist())}
    entries = []
    for place, (seq, total) in enumerate(beam):
        row = table.get(tuple(seq))
        if row is None:
            entries.append((-total, place, 0, seq))
            continue
        entries += [(-(total + lp), place, t, [*seq, t]) for t, lp in enumerate(row) if lp > float("-inf")]
    entries.sort(key=lambda e: e[:3])
    return _round(step, prompt, [(e[3], -e[0]) for e in entries[:width]], width, left - 1, eos)


def beam_search(step, prompt, beam_width, max_new_tokens, eos_id, length_penalty=0.0):
    if min(beam_width, max_new_tokens) < 1:
        raise ValueError(f"beam_width {beam_width} or max_new_tokens {max_new_tokens} is below 1")
    if prompt == []:
        raise ValueError("an empty prompt")
    beam = _round(step, prompt, [([], 0.0)], beam_width, max_new_tokens, eos_id)
    scores = [total * len(seq) ** -length_penalty for seq, total in beam]
    order = sorted(range(len(beam)), key=lambda n: (-scores[n], n))
    return [(beam[n][0], scores[n]) for n in order]
