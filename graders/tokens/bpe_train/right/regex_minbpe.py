# minbpe's two functions over counted chunks, with GPT-2's own pattern.
import regex

GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""


def get_stats(ids, weight, counts):
    for pair in zip(ids, ids[1:]):
        counts[pair] = counts.get(pair, 0) + weight
    return counts


def merge(ids, pair, idx):
    newids = []
    i = 0
    while i < len(ids):
        if ids[i] == pair[0] and i < len(ids) - 1 and ids[i + 1] == pair[1]:
            newids.append(idx)
            i += 2
        else:
            newids.append(ids[i])
            i += 1
    return newids


def train_bpe(text, vocab_size, special_tokens=()):
    num_merges = vocab_size - 256 - len(special_tokens)
    if num_merges < 0:
        raise ValueError(f"vocab_size={vocab_size}, special_tokens={special_tokens}: no room")
    if not all(special_tokens):
        raise ValueError("empty special token")
    doubles = [t for t in special_tokens if special_tokens.count(t) > 1]
    if doubles:
        raise ValueError(f"special tokens stand there twice: {doubles}")
    if special_tokens:
        text = regex.split("|".join(regex.escape(t) for t in sorted(special_tokens, key=len)[::-1]), text)
    else:
        text = [text]
    weights = {}
    for part in text:
        for chunk in regex.findall(GPT2, part):
            weights[chunk] = weights.get(chunk, 0) + 1
    chunks = [(list(chunk.encode("utf-8")), weight) for chunk, weight in weights.items()]
    vocab = {idx: bytes([idx]) for idx in range(256)}
    merges = {}
    for i in range(num_merges):
        stats = {}
        for ids, weight in chunks:
            get_stats(ids, weight, stats)
        if not stats:
            break
        pair = max(stats, key=lambda p: (stats[p], vocab[p[0]], vocab[p[1]]))
        idx = 256 + i
        chunks = [(merge(ids, pair, idx), weight) for ids, weight in chunks]
        merges[pair] = idx
        vocab[idx] = vocab[pair[0]] + vocab[pair[1]]
    return list(merges)
