# %% [markdown]
# # Encoding and decoding with BPE
#
# $$k = \operatorname{argmin}_j \; \mathrm{rank}(t_j, t_{j+1}), \qquad
# (t_k, t_{k+1}) \to 256 + \mathrm{rank}(t_k, t_{k+1})$$
#
# The merges that **bpe_train** has learned turn text into ids, and ids into text. Encoding repeats the order of
# training: of the pairs that are there, the one learned first is merged first. The rank of a pair is its place in
# `merges`.
#
# **Write** the class `Tokenizer(merges, special_tokens=())` with two methods: `encode(text)` returns a list of ids,
# `decode(ids)` a text. Ids 0 to 255 are the bytes of UTF-8, merge $i$, counted from 0, makes the id $256 + i$, and the
# special tokens follow in their order.
#
# A special token in the text is its id. Each part between special tokens is split by `re.findall(PRETOKEN, part)`,
# where `PRETOKEN` is given, and each piece is encoded alone.
#
# Not allowed: `tiktoken` and `tokenizers`.
#
# **Example.** `Tokenizer([(98, 99), (97, 98)])` merges `bc` to 256 and `ab` to 257. `encode("abc")` is `[97, 256]`:
# `ab` stands further left, but `bc` was learned first, and then there is no `b` left. `encode("abab")` is `[257, 257]`.
#
# **Builds on** bpe_train. **Sources:** Sennrich, Haddow, Birch 2015: Neural Machine Translation of Rare Words with
# Subword Units, [arXiv:1508.07909](https://arxiv.org/abs/1508.07909); Radford et al. 2019: Language Models are
# Unsupervised Multitask Learners (byte-level BPE), https://github.com/openai/gpt-2.
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Merge order, Special tokens, Any text, Decoding, Reuse, Cost, Errors</summary>
#
# - **Merge order.** A pair is merged at all its places, from left to right. Then the next, until no pair is a merge.
# - **Special tokens.** They are plain strings. Where several begin at one place, the longest is taken. Without any,
#   `<|endoftext|>` is plain text.
# - **Any text.** `decode(encode(text)) == text`, for white space alone too.
# - **Decoding.** The bytes of all ids are joined, then read as UTF-8 with `errors="replace"`.
# - **Reuse.** One tokenizer serves many texts, and a list that it returns is the caller's to change.
# - **Cost.** At most 8 times the reference's time, for 100 kB of prose and 2,000 merges.
# - **Errors.** `decode` of an id that the tokenizer does not have, negative ones too.
#
# </details>

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# from itertools import pairwise
#
# ranks = {(98, 99): 0, (97, 98): 1}
# print([(pair, ranks.get(pair, "no merge")) for pair in pairwise(b"abc")])

# %%
import re
from collections.abc import Sequence
from itertools import pairwise

# GPT-2's pieces: an English ending, a word, a number or signs with the space before them, or white space. The original
# is for the package `regex`; this is an approximation for `re`, which differs in a few numerals such as ² and Ⅷ.
PRETOKEN = r"""'(?:[sdmt]|ll|ve|re)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+"""


# %%
class Tokenizer:
    """Byte-level BPE with given merges. Ids: 256 bytes, then the merges, then the special tokens."""

    def __init__(self, merges: Sequence[tuple[int, int]], special_tokens: Sequence[str] = ()) -> None:
        raise NotImplementedError

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""
        raise NotImplementedError

    def decode(self, ids: Sequence[int]) -> str:
        """The text of these ids; bytes that are no UTF-8 become U+FFFD. Raises ValueError for an unknown id."""
        raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("bpe_encode")
