# Tokens are bytes until the end, words are tuples of them: as in CS336.
import re
from collections import Counter

PRETOKEN = r"""'(?:[sdmt]|ll|ve|re)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+"""


def apply(word, a, b):
    out, i = [], 0
    while i < len(word):
        step = 2 if word[i : i + 2] == (a, b) else 1
        out.append(b"".join(word[i : i + step]))
        i += step
    return tuple(out)


def train_bpe(text, vocab_size, special_tokens=()):
    special_tokens = list(special_tokens)
    for i, token in enumerate(special_tokens):
        if token == "":
            raise ValueError(f"special token {i} is empty: {token!r}")
        if token in special_tokens[:i]:
            raise ValueError(f"special token {token!r} is repeated")
    if vocab_size - len(special_tokens) < 256:
        raise ValueError(f"vocab_size must be at least {256 + len(special_tokens)}, got {vocab_size}")
    special_tokens.sort(key=len, reverse=True)
    docs = re.split("|".join(map(re.escape, special_tokens)), text) if special_tokens else [text]
    words = Counter()
    for doc in docs:
        words.update(tuple(bytes([b]) for b in m.group(0).encode()) for m in re.finditer(PRETOKEN, doc))
    pairs = Counter()
    for word, n in words.items():
        for pair in zip(word, word[1:]):
            pairs[pair] += n
    learnt = []
    while len(learnt) < vocab_size - 256 - len(special_tokens):
        pairs = Counter({pair: n for pair, n in pairs.items() if n > 0})
        if not pairs:
            break
        (a, b), _ = max(pairs.items(), key=lambda item: (item[1], item[0]))
        learnt.append((a, b))
        for word in [w for w in words if (a, b) in zip(w, w[1:])]:
            n, new = words.pop(word), apply(word, a, b)
            words[new] += n
            pairs.subtract({pair: n * k for pair, k in Counter(zip(word, word[1:])).items()})
            pairs.update({pair: n * k for pair, k in Counter(zip(new, new[1:])).items()})
    ids = {bytes([i]): i for i in range(256)}
    merges = []
    for a, b in learnt:
        merges.append([ids[a], ids[b]])
        ids[a + b] = 255 + len(merges)
    return merges
