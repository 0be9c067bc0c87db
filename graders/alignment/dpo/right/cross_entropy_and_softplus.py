import torch
from torch import nn


def sequence_logprobs(logits, token_ids, response_mask):
    b, s, v = logits.shape
    for name, x in (("token_ids", token_ids), ("response_mask", response_mask)):
        if x.shape != (b, s):
            raise ValueError("%s is %s, not %s" % (name, list(x.shape), [b, s]))
    targets = torch.where(response_mask, token_ids, -100)[:, 1:]
    x = logits[:, :-1].float() if logits.dtype != torch.float64 else logits[:, :-1]
    nll = nn.CrossEntropyLoss(reduction="none", ignore_index=-100)(x.reshape(-1, v), targets.reshape(-1))
    return -nll.reshape(b, s - 1).sum(1).to(logits.dtype)


def dpo_loss(policy_chosen, policy_rejected, ref_chosen, ref_rejected, beta=0.1, label_smoothing=0.0):
    if beta <= 0 or not (0 <= label_smoothing < 0.5):
        raise ValueError("beta %s, label_smoothing %s" % (beta, label_smoothing))
    policy = torch.stack([policy_chosen, policy_rejected]).to(torch.promote_types(policy_chosen.dtype, torch.float32))
    ref = torch.stack([ref_chosen, ref_rejected]).detach().to(policy.dtype)
    chosen_reward, rejected_reward = beta * (policy - ref)
    m = chosen_reward - rejected_reward
    loss = nn.functional.softplus(-m) * (1 - label_smoothing) + nn.functional.softplus(m) * label_smoothing
    return loss.mean().to(policy_chosen.dtype)
