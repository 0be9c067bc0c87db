"""In the manner of CS336's students: counts kept from merge to merge, and for each pair the words that it stands in."""

import re
from collections import Counter, defaultdict

PRETOKEN = re.compile(r"""'(?:[sdmt]|ll|ve|re)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+""")


def merge_word(word, pair, new_id):
    out, i = [], 0
    while i < len(word):
        both = word[i : i + 2] == pair
        out.append(new_id if both else word[i])
        i += 2 if both else 1
    return tuple(out)


def train_bpe(text, vocab_size, special_tokens=()):
    if vocab_size < 256 + len(special_tokens):
        raise ValueError(
            f"vocab_size={vocab_size} leaves no room for 256 bytes and {len(special_tokens)} special tokens"
        )
    delimiter = "|".join(map(re.escape, sorted(special_tokens, key=len, reverse=True)))
    docs = re.split(delimiter, text) if special_tokens else [text]
    freqs = Counter(match.group() for doc in docs for match in PRETOKEN.finditer(doc))
    words = {word: tuple(word.encode("utf-8")) for word in freqs}
    pair_counts, pair_words = Counter(), defaultdict(set)

    def update(word, sign):
        for pair in zip(words[word], words[word][1:]):
            pair_counts[pair] += sign * freqs[word]
            pair_words[pair].add(word)

    for word in words:
        update(word, +1)
    vocab, merges = {i: bytes([i]) for i in range(256)}, []
    while len(vocab) + len(special_tokens) < vocab_size:
        best = max(pair_counts, key=lambda p: (pair_counts[p], vocab[p[0]], vocab[p[1]]), default=None)
        if pair_counts[best] == 0:
            break
        for word in list(pair_words[best]):
            update(word, -1)
            words[word] = merge_word(words[word], best, len(vocab))
            update(word, +1)
        del pair_counts[best], pair_words[best]
        merges.append(best)
        vocab[len(vocab)] = vocab[best[0]] + vocab[best[1]]
    return merges
