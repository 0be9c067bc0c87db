# %% [markdown]
# # Encoding and decoding with BPE
#
# The merges that **bpe_train** has learnt turn a text into ids, and ids into text. Encoding repeats the training's
# order: of the pairs that are there, the one learnt first is merged first.
#
# **Write** the class `Tokenizer(merges, special_tokens=())` with two methods, `encode(text)`, which gives a list of
# ids, and `decode(ids)`, which gives a text.
#
# - **Ids 0 to 255** are the bytes of UTF-8. Merge number $i$, counted from 0, makes the id $256 + i$. `merges` holds
#   pairs of ids, as lists or as tuples.
# - **Special tokens** have the ids behind the last merge, in their order. A special token in the text is its id. Texts
#   are read from left to right; where several begin at one place, the longest is taken.
# - **Without special tokens** in the constructor, `<|endoftext|>` is plain text like any other.
# - **Pieces** are `re.findall(PRETOKEN, part)` for each part between special tokens. `PRETOKEN` is given, a pattern for
#   Python's `re`. Pairs never cross a piece.
# - **Each piece** starts as its bytes. Of the pairs of neighbours that are merges, the one learnt first is merged, at
#   all its places from left to right; and again, until no pair is a merge.
# - **`decode`** joins the bytes of all ids, then reads them as UTF-8 with `errors="replace"`. A special token has the
#   bytes of its text.
# - **Round trip:** `decode(encode(text)) == text`, for texts of any characters. One tokenizer serves many texts.
# - **Inputs are not modified**, and a list that is given out is the caller's: what is done to it changes no later one.
# - **Time:** at most 8 times the reference's, for 100 kB of prose and 2,000 merges.
# - **A `ValueError`** whose message holds the value. From `decode`: an id that is none of the tokenizer's, negative
#   ones too. From the constructor: merge number $i$ with an id outside of $[0, 256 + i)$; a special token that is empty
#   or stands there twice.
# - **Not graded:** lone surrogates, which have no UTF-8; a pair that stands twice among the merges.
#
# Not allowed: `tiktoken` and `tokenizers`.
#
# **Example.** `Tokenizer([(98, 99), (97, 98)])` merges `bc` to 256 and `ab` to 257. `encode("abc")` is `[97, 256]`:
# `ab` stands further left, but `bc` was learnt first, and then there is no `b` left. `encode("abab")` is `[257, 257]`.
#
# **Builds on** bpe_train. **Sources:** Sennrich, Haddow, Birch 2015: Neural Machine Translation of Rare Words with
# Subword Units, [arXiv:1508.07909](https://arxiv.org/abs/1508.07909); Radford et al. 2019: Language Models are
# Unsupervised Multitask Learners (byte-level BPE), https://github.com/openai/gpt-2.
#
# House rules hold: docs/house_rules.md.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# from itertools import pairwise
#
# ranks = {(98, 99): 0, (97, 98): 1}
# ids = list(b"abc")
# print(ids, [(pair, ranks.get(pair, "no merge")) for pair in pairwise(ids)])
# print("merge 0 is the first:", [97, 256 + 0])

# %%
import re
from collections.abc import Sequence
from itertools import pairwise

# GPT-2's pieces: an English ending, a word, a number or signs with the space before them, or white space.
PRETOKEN = r"""'(?:[sdmt]|ll|ve|re)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+"""


# %%
class Tokenizer:
    """Byte-level BPE with given merges. Ids: 256 bytes, then the merges, then the special tokens.

    Raises:
        ValueError: merge i names an id outside of [0, 256 + i), or a special token is empty or repeated.
    """

    def __init__(self, merges: Sequence[Sequence[int]], special_tokens: Sequence[str] = ()) -> None:
        raise NotImplementedError

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""
        raise NotImplementedError

    def decode(self, ids: Sequence[int]) -> str:
        """The text of these ids; bytes that are no UTF-8 become U+FFFD.

        Raises:
            ValueError: an id is unknown.
        """
        raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("bpe_encode")
