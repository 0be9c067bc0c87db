import torch
import torch.nn.functional as F


def gae(rewards, values, dones, last_value, gamma=0.99, lam=0.95):
    """An associative scan: after k rounds each step knows the next 2^k ones."""
    shapes = [tuple(x.shape) for x in (rewards, values, dones)]
    if len(set(shapes)) != 1 or tuple(last_value.shape) != shapes[0][:1]:
        raise ValueError("shapes do not fit: %s and %s" % (shapes, tuple(last_value.shape)))
    if min(gamma, lam) < 0 or max(gamma, lam) > 1:
        raise ValueError("gamma %s, lam %s" % (gamma, lam))
    with torch.no_grad():
        r, v, last = (t.double() for t in (rewards, values, last_value))
        factor = gamma * lam * (~dones).double()
        total = r - v + gamma * (~dones) * torch.cat((v, last.unsqueeze(1)), 1)[:, 1:]
        width = 1
        while width < r.shape[1]:
            ahead = F.pad(total, (0, width))[:, width:]
            total = total + factor * ahead
            factor = factor * F.pad(factor, (0, width))[:, width:]
            width *= 2
        return total.to(rewards.dtype), (total + v).to(rewards.dtype)
