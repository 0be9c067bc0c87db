"""The losses and layers beyond language models against transformers."""

from __future__ import annotations

import torch
from transformers.models.clip.modeling_clip import image_text_contrastive_loss

from tests.conformance.agreement import agree, normal, solution


def test_clip_loss_is_that_of_transformers() -> None:
    image, text, log_scale = normal(5, 7), normal(5, 7, seed=2), torch.tensor(2.6592).double()

    def theirs(dtype: torch.dtype) -> torch.Tensor:
        i, t = (x.to(dtype) / x.to(dtype).norm(dim=-1, keepdim=True) for x in (image, text))
        return image_text_contrastive_loss(t @ i.T * log_scale.to(dtype).exp())[None]

    ours = solution("contrastive").clip_loss
    agree(theirs, lambda dtype: ours(image.to(dtype), text.to(dtype), log_scale.to(dtype))[None])


def test_clip_loss_has_its_known_value() -> None:
    image, text = torch.tensor([[3.0, 0], [0, 2]]), torch.tensor([[1.0, 0], [0, 5]])
    found = solution("contrastive").clip_loss(image, text, torch.tensor(0.0))
    assert torch.allclose(found, torch.tensor(0.31326), atol=1e-5)
