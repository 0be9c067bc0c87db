"""In the style of TRL's DPOTrainer: logits cast to float32, selective_log_softmax, what is left out set to zero."""

import torch
import torch.nn.functional as F


def selective_log_softmax(logits, index):
    logps = F.log_softmax(logits, dim=-1)
    return torch.gather(logps, dim=-1, index=index.unsqueeze(-1)).squeeze(-1)


def sequence_logprobs(logits, input_ids, completion_mask):
    shift_logits = logits[..., :-1, :].float()
    shift_labels = input_ids[..., 1:]
    shift_completion_mask = completion_mask[..., 1:]
    per_token_logps = selective_log_softmax(shift_logits, shift_labels)
    per_token_logps[shift_completion_mask == 0] = 0.0  # mask out non-completion tokens
    return per_token_logps.sum(dim=1).to(logits.dtype)


def dpo_loss(chosen_logps, rejected_logps, ref_chosen_logps, ref_rejected_logps, beta=0.1, label_smoothing=0.0):
    with torch.no_grad():
        ref_logratios = ref_chosen_logps.float() - ref_rejected_logps.float()
    delta_score = chosen_logps.float() - rejected_logps.float() - ref_logratios
    per_sequence_loss = (
        -F.logsigmoid(beta * delta_score) * (1 - label_smoothing) - F.logsigmoid(-beta * delta_score) * label_smoothing
    )
    return per_sequence_loss.mean().to(chosen_logps.dtype)
