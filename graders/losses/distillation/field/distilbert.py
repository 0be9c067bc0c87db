# robust: Teacher, Half precision, Errors, memory layout: no detach, no cast, a `view`; its caller sees to all that.
"""In the style of DistilBERT's distiller: rows selected by the mask, then nn.KLDivLoss with batchmean."""

import torch.nn as nn
import torch.nn.functional as F


def distillation_loss(student_logits, teacher_logits, targets, temperature=2.0, alpha=0.5, ignore_index=-100):
    ce_loss_fct = nn.KLDivLoss(reduction="batchmean")
    lm_loss_fct = nn.CrossEntropyLoss(ignore_index=ignore_index)
    mask = targets != ignore_index
    s_logits_slct = student_logits[mask]
    t_logits_slct = teacher_logits[mask]
    loss_ce = (
        ce_loss_fct(F.log_softmax(s_logits_slct / temperature, dim=-1), F.softmax(t_logits_slct / temperature, dim=-1))
        * temperature**2
    )
    loss_mlm = lm_loss_fct(student_logits.view(-1, student_logits.size(-1)), targets.view(-1))
    return alpha * loss_ce + (1 - alpha) * loss_mlm
