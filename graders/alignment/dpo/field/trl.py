# robust: Left-out tokens, Reference, Half precision: a product with the mask, a reference that the caller detaches, and
# margins in the dtype they come in.
"""In the style of TRL's DPOTrainer, with labels of -100 where a token is not one of the response."""

import torch
import torch.nn.functional as F


def sequence_logprobs(logits, token_ids, response_mask):
    labels = token_ids.masked_fill(~response_mask, -100)[:, 1:].clone()
    logits = logits[:, :-1, :]
    loss_mask = labels != -100
    labels[labels == -100] = 0  # a token that is left out below
    per_token_logps = torch.gather(logits.log_softmax(-1), dim=2, index=labels.unsqueeze(2)).squeeze(2)
    return (per_token_logps * loss_mask).sum(-1)


def dpo_loss(chosen_logps, rejected_logps, ref_chosen_logps, ref_rejected_logps, beta=0.1, label_smoothing=0.0):
    pi_logratios = chosen_logps - rejected_logps
    ref_logratios = ref_chosen_logps - ref_rejected_logps
    logits = pi_logratios - ref_logratios
    losses = -F.logsigmoid(beta * logits) * (1 - label_smoothing) - F.logsigmoid(-beta * logits) * label_smoothing
    return losses.mean()
