# Style: as decoding libraries write it, a scorer class, an init that checks, running sums, finished rows masked by pad.
from typing import Optional

import torch
from torch import Tensor


class BeamScorer:
    def __init__(self, num_beams: int, max_length: int, eos_token_id: int, length_penalty: float):
        if not num_beams >= 1:
            raise ValueError(f"`beam_width` has to be an integer strictly greater than 0, but is {num_beams}.")
        if not max_length >= 1:
            raise ValueError(f"`max_new_tokens` has to be greater than 0, but is {max_length}.")
        self.num_beams, self.max_length = num_beams, max_length
        self.eos_token_id, self.length_penalty = eos_token_id, length_penalty

    def process(self, sequences: list[Tensor], beam_scores: Tensor, scores: Optional[Tensor], alive: Tensor):
        parents, tokens, values = [], [], []
        row = 0
        for beam_idx in range(len(sequences)):
            if not bool(alive[beam_idx]):
                parents.append(torch.tensor([beam_idx]))
                tokens.append(torch.tensor([-1]))
                values.append(beam_scores[beam_idx : beam_idx + 1])
                continue
            allowed = (scores[row] > -float("inf")).nonzero()[:, 0]
            parents.append(torch.full_like(allowed, beam_idx))
            tokens.append(allowed)
            values.append(beam_scores[beam_idx] + scores[row, allowed])
            row += 1
        parent, token, value = torch.cat(parents), torch.cat(tokens), torch.cat(values)
        value, order = torch.sort(value, descending=True, stable=True)
        return parent[order[: self.num_beams]], token[order[: self.num_beams]], value[: self.num_beams]

    def finalize(self, sequences: list[Tensor], beam_scores: Tensor):
        lengths = torch.tensor([float(len(s)) for s in sequences], dtype=beam_scores.dtype)
        final = beam_scores / lengths.pow(self.length_penalty)
        final, order = torch.sort(final, descending=True, stable=True)
        return [(sequences[i].tolist(), s) for i, s in zip(order.tolist(), final.tolist())]


def beam_search(step, prompt, beam_width, max_new_tokens, eos_id, length_penalty=0.0):
    scorer = BeamScorer(beam_width, max_new_tokens, eos_id, length_penalty)
    if len(prompt) < 1:
        raise ValueError(f"`prompt` must hold at least one id, got {prompt}")
    input_ids = torch.LongTensor(prompt)
    sequences = [input_ids.new_empty(0)]
    beam_scores = torch.zeros(1, dtype=torch.float64)
    for _ in range(scorer.max_length):
        alive = torch.tensor([s.numel() == 0 or int(s[-1]) != eos_id for s in sequences])
        if not alive.any():
            break
        rows = [torch.cat((input_ids, s)) for s, a in zip(sequences, alive) if a]
        parent, token, beam_scores = scorer.process(sequences, beam_scores, step(torch.stack(rows)), alive)
        sequences = [
            sequences[p] if t < 0 else torch.cat((sequences[p], torch.tensor([t])))
            for p, t in zip(parent.tolist(), token.tolist())
        ]
        if not sequences:
            return []
    return scorer.finalize(sequences, beam_scores)
