"""In the style of minbpe, with chunks counted as in nanochat: a list of ids a chunk, all pairs counted in each round."""

import re
from collections import Counter

PRETOKEN = r"""'(?:[sdmt]|ll|ve|re)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+"""


def merge(ids, pair, idx):
    newids, i = [], 0
    while i < len(ids):
        both = i < len(ids) - 1 and ids[i] == pair[0] and ids[i + 1] == pair[1]
        newids.append(idx if both else ids[i])
        i += 2 if both else 1
    return newids


def train_bpe(text, vocab_size, special_tokens=()):
    if vocab_size < 256 + len(special_tokens):
        raise ValueError(f"vocab_size {vocab_size} is below 256 bytes and {len(special_tokens)} special tokens")
    special = sorted(special_tokens, key=len, reverse=True)
    parts = re.split("|".join(re.escape(k) for k in special), text) if special else [text]
    counts = Counter(ch for part in parts for ch in re.findall(PRETOKEN, part))
    ids = [list(ch.encode("utf-8")) for ch in counts]
    merges, vocab = [], {idx: bytes([idx]) for idx in range(256)}
    for i in range(vocab_size - 256 - len(special_tokens)):
        stats = {}
        for chunk_ids, count in zip(ids, counts.values()):
            for pair in zip(chunk_ids, chunk_ids[1:]):
                stats[pair] = stats.get(pair, 0) + count
        if not stats:
            break
        pair = max(stats, key=lambda p: (stats[p], vocab[p[0]], vocab[p[1]]))
        ids = [merge(chunk_ids, pair, 256 + i) for chunk_ids in ids]
        merges.append(pair)
        vocab[256 + i] = vocab[pair[0]] + vocab[pair[1]]
    return merges
