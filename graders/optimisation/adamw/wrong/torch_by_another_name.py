import torch

_made = {name: value for name, value in vars(torch.optim).items() if isinstance(value, type)}
AdamW = type("AdamW", (_made["Adam" + "W"],), {})
