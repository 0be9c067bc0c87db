# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
#   dojo:
#     title: Encoding and decoding with BPE
#     level: 3
#     minutes: 25
#     builds_on: [bpe_train]
#     sources:
#       - "Sennrich, Haddow, Birch 2015: Neural Machine Translation of Rare Words with Subword Units, arXiv:1508.07909"
#       - "Radford et al. 2019: Language Models are Unsupervised Multitask Learners (byte-level BPE), https://github.com/openai/gpt-2"
# ---

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

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# from itertools import pairwise
#
# ranks = {(98, 99): 0, (97, 98): 1}
# ids = list(b"abc")
# print(ids, [(pair, ranks.get(pair, "no merge")) for pair in pairwise(ids)])
# print("merge 0 is the first:", [97, 256 + 0])

# %% [markdown] tags=["hint"]
# Turn the list of merges into a dict from a pair to its rank, and think of one piece alone: which of its pairs comes
# first?

# %% [markdown] tags=["hint"]
# `re.split` with the special tokens in one group, `(a|b)`, gives what stands between and the tokens themselves, in
# turn. In an alternative of `re` the first that fits wins: put the longest first, and escape them.

# %% [markdown] tags=["hint"]
# `min(pairwise(ids), key=lambda pair: ranks.get(pair, inf))` while there is a pair among the ranks. For decoding keep
# the bytes of each id: those of a merge are those of its two parts.

# %%
import re
from collections.abc import Sequence
from itertools import pairwise

# GPT-2's pieces: an English ending, a word, a number or signs with the space before them, or white space.
PRETOKEN = r"""'(?:[sdmt]|ll|ve|re)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+"""


# %%
### BEGIN SOLUTION
def merge(ids: list[int], ranks: dict[tuple[int, int], int]) -> list[int]:
    """The ids of a piece: merged, the pair learnt first first, until no pair is a merge."""
    while len(ids) > 1:
        best = min(pairwise(ids), key=lambda pair: ranks.get(pair, len(ranks)))
        if best not in ranks:
            break
        left, place = [], 0
        while place < len(ids):
            if tuple(ids[place : place + 2]) == best:
                left.append(256 + ranks[best])
                place += 2
            else:
                left.append(ids[place])
                place += 1
        ids = left
    return ids


### END SOLUTION


class Tokenizer:
    """Byte-level BPE with given merges. Ids: 256 bytes, then the merges, then the special tokens.

    Raises:
        ValueError: merge i names an id outside of [0, 256 + i), or a special token is empty or repeated.
    """

    def __init__(self, merges: Sequence[Sequence[int]], special_tokens: Sequence[str] = ()) -> None:
        ### BEGIN SOLUTION
        self.ranks: dict[tuple[int, int], int] = {}
        self.tokens = [bytes([byte]) for byte in range(256)]
        for rank, (first, second) in enumerate(merges):
            for part in (first, second):
                if not 0 <= part < 256 + rank:
                    raise ValueError(f"merge {rank} names the id {part}, which is not there yet")
            self.ranks[first, second] = rank
            self.tokens.append(self.tokens[first] + self.tokens[second])
        self.special: dict[str, int] = {}
        for token in special_tokens:
            if not token or token in self.special:
                raise ValueError(f"the special token {token!r} is empty, or stands there twice")
            self.special[token] = len(self.tokens)
            self.tokens.append(token.encode())
        longest_first = sorted(special_tokens, key=len, reverse=True)
        self.at_special = "(" + "|".join(map(re.escape, longest_first)) + ")"
        ### END SOLUTION

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""
        ### BEGIN SOLUTION
        ids = []
        for part in re.split(self.at_special, text) if self.special else [text]:
            if part in self.special:
                ids.append(self.special[part])
            else:
                for piece in re.findall(PRETOKEN, part):
                    ids.extend(merge(list(piece.encode()), self.ranks))
        return ids
        ### END SOLUTION

    def decode(self, ids: Sequence[int]) -> str:
        """The text of these ids; bytes that are no UTF-8 become U+FFFD.

        Raises:
            ValueError: an id is unknown.
        """
        ### BEGIN SOLUTION
        for each in ids:
            if not 0 <= each < len(self.tokens):
                raise ValueError(f"the id {each} is outside of [0, {len(self.tokens)})")
        return b"".join(self.tokens[each] for each in ids).decode(errors="replace")
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **The order of learning.** A merge was learnt on texts in which all earlier ones were made already. Encoding that
# merges in another order finds tokens in places where the model has never seen them. The longest match is such another
# order: fewer tokens, perhaps, but not those of the training.
#
# **All places at once, or one after the other,** gives the same, as long as they go from left to right: a merge can
# only bring pairs that were learnt later.
#
# **Bytes are joined before they are read.** A token may end in the middle of a character. Read one at a time, the four
# tokens of an emoji become four U+FFFD.
#
# **Special tokens** never come of merges: a text that a user types can be kept from holding one, by encoding it with a
# tokenizer that knows none.
#
# **What it costs.** A piece of $n$ bytes takes $O(n^2)$ steps in the worst case, for each merge looks at all pairs;
# pieces of prose are short, so that a text costs $O(N)$. A heap makes it $O(n \log n)$ for long pieces. A list takes
# 8 bytes for each id and the ranks about 200 bytes for each merge; a dict of the pieces seen saves most of the time.
#
# ## The other formulation
#
# `tiktoken` keeps ranks by bytes, not by pairs: two neighbours are merged if their joined bytes are a token, the lowest
# rank first. For merges that were trained it gives the same ids.
#
# ## The usual mistakes
#
# - Going through the merges in their order for each piece: right, but 50,000 steps for each word.
# - The longest token that fits, or the leftmost pair.
# - Decoding id by id, or with `errors="ignore"`: text is lost without a word.
# - Special tokens behind each other in a pattern, the shortest first: the longer one is never found.
# - `tokens[-1]`: a negative id is the last token of a list.

# %% tags=["active-ipynb", "solution"]
# # Tokens in colours: the same text with more and more merges
# from matplotlib import pyplot as plt
#
# text = "the other weather, then 2024!"
# learnt = [(116, 104), (256, 101), (32, 256), (32, 257), (97, 257), (101, 114), (261, 44), (50, 48)]
# figure, axes = plt.subplots(3, 1, figsize=(8, 2.4))
# for axis, count in zip(axes, (0, 3, 8)):
#     tokenizer = Tokenizer(learnt[:count])
#     start = 0
#     for number, each in enumerate(tokenizer.encode(text)):
#         word = tokenizer.decode([each])
#         axis.barh(0, len(word), left=start, color=f"C{number % 6}", alpha=0.4)
#         axis.text(start + len(word) / 2, 0, word.replace(" ", "·"), ha="center", va="center", family="monospace")
#         start += len(word)
#     axis.set_title(f"{count} merges: {len(tokenizer.encode(text))} tokens", fontsize=9, loc="left")
#     axis.set_axis_off()
# figure.tight_layout()
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why not simply the longest token that fits?
#
# - It gives other tokens than those the model was trained on, although it often gives fewer.
# - It can be used on purpose: WordPiece encodes by the longest match, and its models are trained that way.
#
# Source: Song et al. 2020, Fast WordPiece Tokenization, arXiv:2012.15524.
#
# ### How do you make encoding fast?
#
# - Keep the ids of pieces seen before: in prose a few thousand pieces make up most of a text.
# - For long pieces a heap of pairs over a linked list, $O(n \log n)$ instead of $O(n^2)$.
#
# Source: tiktoken, source code, https://github.com/openai/tiktoken.
#
# ### Is `encode(decode(ids))` always `ids`?
#
# - No: the ids of `a` and `b` apart decode to `ab`, which encodes to one id if it is a merge.
# - A model may produce such ids, and its text, encoded again, has others: training by reward keeps ids, not text.
#
# Source: Kudo 2018, section 2, arXiv:1804.10959.
#
# ### How is text shown while a model is still writing?
#
# - A token may end within a character: hold back bytes that are not yet a whole one, and show them with the next token.
# - An incremental decoder does that: `codecs.getincrementaldecoder("utf-8")`.
#
# Source: Python documentation, codecs, https://docs.python.org/3/library/codecs.html.
#
# ### Why is a prompt that ends in a space bad?
#
# - Words carry the space before them. Behind a lone space the model must go on with a word without one, which is rare.
# - Token healing takes the last token back and lets the model choose among those that begin with it.
#
# Source: Phan et al. 2024, arXiv:2410.09303.
#
# ### What can go wrong with special tokens?
#
# - Typed by a user, they end a turn or open a system message. Encode what users write without any.
# - New ones need rows in embedding and head, which start untrained.
#
# Source: tiktoken, `allowed_special` and `disallowed_special`, https://github.com/openai/tiktoken.
#
# ### Can a language model do without a tokenizer?
#
# - On bytes: nothing to train and no surprises, but sequences are about four times as long.
# - Architectures that group bytes win the length back, by fixed or by learnt patches.
#
# Source: Pagnoni et al. 2024, Byte Latent Transformer, arXiv:2412.09871.
