# robust: Short text, Special tokens, Errors: `max` of no counts, overlapping special tokens, and no look at the size.
"""In the manner of CS336's students: words as tuples of bytes with their counts, the greater pair where counts tie."""

import re
from collections import Counter, defaultdict

PRETOKEN = re.compile(r"""'(?:[sdmt]|ll|ve|re)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+""")


def merge_word(word, pair):
    out, i = [], 0
    while i < len(word):
        both = word[i : i + 2] == pair
        out.append(pair[0] + pair[1] if both else word[i])
        i += 2 if both else 1
    return tuple(out)


def train_bpe(text, vocab_size, special_tokens=()):
    docs = re.split("|".join(map(re.escape, special_tokens)), text) if special_tokens else [text]
    matches = (match.group() for doc in docs for match in PRETOKEN.finditer(doc))
    freqs = Counter(tuple(bytes([b]) for b in match.encode("utf-8")) for match in matches)
    ids, merges = {bytes([i]): i for i in range(256)}, []
    while len(ids) + len(special_tokens) < vocab_size:
        pairs = defaultdict(int)
        for word, freq in freqs.items():
            for pair in zip(word, word[1:]):
                pairs[pair] += freq
        best = max(pairs, key=lambda p: (pairs[p], p))
        merges.append((ids[best[0]], ids[best[1]]))
        ids[best[0] + best[1]] = len(ids)
        freqs = {merge_word(word, best): freq for word, freq in freqs.items()}
    return merges
