# robust: of pairs seen equally often it takes the one that was seen first, as `max` over a dict does.
"""As lectures write it: pieces as tuples of ids, all pairs counted in each round, `max(counts, key=counts.get)`."""

import re
from collections import Counter
from itertools import pairwise

PRETOKEN = r"""'(?:[sdmt]|ll|ve|re)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+"""


def get_stats(words):
    counts = Counter()
    for ids, times in words.items():
        for pair in pairwise(ids):
            counts[pair] += times
    return counts


def merge(ids, pair, new):
    out, i = [], 0
    while i < len(ids):
        if i + 1 < len(ids) and (ids[i], ids[i + 1]) == pair:
            out.append(new)
            i += 2
        else:
            out.append(ids[i])
            i += 1
    return tuple(out)


def train_bpe(text, vocab_size, special_tokens=()):
    if vocab_size < 256 + len(special_tokens):
        raise ValueError(f"vocab_size {vocab_size} is below 256 + {len(special_tokens)}")
    if "" in special_tokens or len(set(special_tokens)) < len(special_tokens):
        raise ValueError(f"empty or repeated special tokens: {special_tokens}")
    parts = [text]
    if special_tokens:
        parts = re.split("|".join(re.escape(s) for s in sorted(special_tokens, key=len, reverse=True)), text)
    words = Counter(tuple(piece.encode()) for part in parts for piece in re.findall(PRETOKEN, part))
    merges = []
    for _ in range(vocab_size - 256 - len(special_tokens)):
        counts = get_stats(words)
        if not counts:
            break
        best = max(counts, key=counts.get)
        merged = Counter()
        for ids, times in words.items():
            merged[merge(ids, best, 256 + len(merges))] += times
        words = merged
        merges.append(best)
    return merges
