"""In the style of OpenRLHF: log-probabilities as logits less their logsumexp, the loss of implicit rewards."""

import torch
import torch.nn.functional as F


def log_probs_from_logits(logits, labels):
    logits = logits.float()
    logits_labels = torch.gather(logits, dim=-1, index=labels.unsqueeze(-1)).squeeze(-1)
    return logits_labels - torch.logsumexp(logits, dim=-1)


def sequence_logprobs(logits, token_ids, response_mask):
    per_token_logps = log_probs_from_logits(logits[:, :-1, :], token_ids[:, 1:])
    return per_token_logps.masked_fill(~response_mask[:, 1:], 0.0).sum(-1).type_as(logits)


def dpo_loss(policy_chosen, policy_rejected, ref_chosen, ref_rejected, beta=0.1, label_smoothing=0.0):
    chosen_rewards = beta * (policy_chosen.float() - ref_chosen.detach().float())
    reject_rewards = beta * (policy_rejected.float() - ref_rejected.detach().float())
    margin = chosen_rewards - reject_rewards
    loss = -((1 - label_smoothing) * F.logsigmoid(margin) + label_smoothing * F.logsigmoid(-margin))
    return loss.mean().type_as(policy_chosen)
