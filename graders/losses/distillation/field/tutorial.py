# robust: Stability, Half precision, Errors: the logarithm of a softmax that underflows, in the dtype of the logits.
"""In the style of PyTorch's tutorial on knowledge distillation: soft targets, and their logarithm, under no_grad."""

import torch
from torch import nn


def distillation_loss(student_logits, teacher_logits, targets, temperature=2.0, alpha=0.5, ignore_index=-100):
    vocab = student_logits.size(-1)
    student_logits, teacher_logits = student_logits.reshape(-1, vocab), teacher_logits.reshape(-1, vocab)
    labels = targets.reshape(-1)
    valid = labels != ignore_index
    student_logits, teacher_logits, labels = student_logits[valid], teacher_logits[valid], labels[valid]
    with torch.no_grad():
        soft_targets = nn.functional.softmax(teacher_logits / temperature, dim=-1)
    soft_prob = nn.functional.log_softmax(student_logits / temperature, dim=-1)
    soft_targets_loss = torch.sum(soft_targets * (soft_targets.log() - soft_prob)) / soft_prob.size(0) * temperature**2
    label_loss = nn.functional.cross_entropy(student_logits, labels)
    return alpha * soft_targets_loss + (1 - alpha) * label_loss
