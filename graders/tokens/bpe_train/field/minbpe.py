# robust: Ties, Short text, Errors: the pair that is seen first, `max` of no counts, and an assertion.
"""In the style of minbpe: a list of ids a chunk, all pairs counted in each round, `max(stats, key=stats.get)`."""

import re

PRETOKEN = r"""'(?:[sdmt]|ll|ve|re)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+"""


def merge(ids, pair, idx):
    newids, i = [], 0
    while i < len(ids):
        both = i < len(ids) - 1 and ids[i] == pair[0] and ids[i + 1] == pair[1]
        newids.append(idx if both else ids[i])
        i += 2 if both else 1
    return newids


def train_bpe(text, vocab_size, special_tokens=()):
    assert vocab_size >= 256 + len(special_tokens)
    parts = re.split("|".join(re.escape(k) for k in special_tokens), text) if special_tokens else [text]
    ids = [list(ch.encode("utf-8")) for part in parts for ch in re.findall(PRETOKEN, part)]
    merges = []
    for i in range(vocab_size - 256 - len(special_tokens)):
        stats = {}
        for chunk_ids in ids:
            for pair in zip(chunk_ids, chunk_ids[1:]):
                stats[pair] = stats.get(pair, 0) + 1
        pair = max(stats, key=stats.get)
        ids = [merge(chunk_ids, pair, 256 + i) for chunk_ids in ids]
        merges.append(pair)
    return merges
