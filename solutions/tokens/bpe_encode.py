# ---
# jupyter:
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

# %% [markdown] tags=["contract"]
# - **Merge order.** A pair is merged at all its places, from left to right. Then the next, until no pair is a merge.
# - **Special tokens.** They are plain strings. Where several begin at one place, the longest is taken. Without any,
#   `<|endoftext|>` is plain text.
# - **Any text.** `decode(encode(text)) == text`, for white space alone too.
# - **Decoding.** The bytes of all ids are joined, then read as UTF-8 with `errors="replace"`.
# - **Reuse.** One tokenizer serves many texts, and a list that it returns is the caller's to change.
# - **Cost.** At most 8 times the reference's time, for 100 kB of prose and 2,000 merges.
# - **Errors.** `decode` of an id that the tokenizer does not have, negative ones too.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# from itertools import pairwise
#
# ranks = {(98, 99): 0, (97, 98): 1}
# print([(pair, ranks.get(pair, "no merge")) for pair in pairwise(b"abc")])

# %% [markdown] tags=["hint"]
# Turn the list of merges into a dict from a pair to the id that it makes, and think of one piece alone: which of its
# pairs comes first?

# %% [markdown] tags=["hint"]
# `re.split` with the special tokens in one group, `(a|b)`, gives what stands between and the tokens themselves, in
# turn. In an alternative of `re` the first that fits wins: put the longest first, and escape them.

# %% [markdown] tags=["hint"]
# The least of `(merges.get(pair, unknown), place)` over all places says what to merge and where. For decoding keep the
# bytes of each id: those of a merge are those of its two parts.

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
        ### BEGIN SOLUTION
        self.vocab = [bytes([byte]) for byte in range(256)]
        self.merges: dict[tuple[int, int], int] = {}
        for first, second in merges:
            self.merges[first, second] = len(self.vocab)
            self.vocab.append(self.vocab[first] + self.vocab[second])
        self.special = {token: len(self.vocab) + number for number, token in enumerate(special_tokens)}
        self.vocab += [token.encode() for token in special_tokens]
        longest_first = sorted(special_tokens, key=len, reverse=True)
        self.split = re.compile("(" + "|".join(map(re.escape, longest_first)) + ")").split
        ### END SOLUTION

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""
        ### BEGIN SOLUTION
        ids = []
        for part in self.split(text) if self.special else [text]:
            if part in self.special:
                ids.append(self.special[part])
            else:
                for piece in re.findall(PRETOKEN, part):
                    ids += self.encode_piece(piece)
        return ids
        ### END SOLUTION

    def decode(self, ids: Sequence[int]) -> str:
        """The text of these ids; bytes that are no UTF-8 become U+FFFD. Raises ValueError for an unknown id."""
        ### BEGIN SOLUTION
        for each in ids:
            if not 0 <= each < len(self.vocab):
                raise ValueError(f"the id {each} is outside of [0, {len(self.vocab)})")
        return b"".join(self.vocab[each] for each in ids).decode(errors="replace")
        ### END SOLUTION

    ### BEGIN SOLUTION
    def encode_piece(self, piece: str) -> list[int]:
        """Merge the leftmost of the pairs learned first, until no pair is a merge."""
        ids, unknown = list(piece.encode()), len(self.vocab)
        while len(ids) > 1:
            new, place = min((self.merges.get(pair, unknown), place) for place, pair in enumerate(pairwise(ids)))
            if new == unknown:
                break
            ids[place : place + 2] = [new]
        return ids

    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **The order of learning.** A merge was learned on text in which all earlier ones were made already. Merged in another
# order, a text has tokens in places where the model has never seen them. The longest match is such another order.
#
# **Bytes are joined before they are read.** A token may end in the middle of a character. Read one at a time, the four
# bytes of an emoji become four U+FFFD.
#
# **One place at a time** gives the same as all places at once: what a merge makes can only be part of later merges.
#
# **What it costs.** A piece of $n$ bytes takes $O(n^2)$ time, up to $n^2/2$ looks at pairs. Pieces of prose are short:
# 100 kB and 2,000 merges take 0.12 s, 0.03 s with a cache of the 2,474 different pieces. At 0.12 s, 1 GB would take 20
# minutes on one core: libraries do it in Rust, on all of them.
#
# ## The other formulation
#
# `tiktoken` keeps ranks by bytes, not by pairs: two neighbors are merged if their joined bytes are a token, the lowest
# rank first. For merges that were trained it gives the same ids.
#
# ## The usual mistakes
#
# - The longest token that fits, or the leftmost pair.
# - All merges tried in their order on each piece: right, but 50,000 steps for each word.
# - Decoding id by id, or with `errors="ignore"`: text is lost silently.
# - `text.strip()`, or nothing for white space: it is text.
# - `vocab[-1]`: a negative id is the last token of a list.

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
# ### How many pairs does `encode_piece` look at for a piece of `n` bytes that becomes one token, one merge at a time?
#
# - With $n$ tokens there are $n - 1$ pairs, and each merge leaves one token less: $n (n - 1) / 2$.
# - A heap of pairs over a linked list makes it $O(n \log n)$. It matters for long pieces, such as a line of dashes.
# - Prose has short pieces, and a cache of pieces saves most of the work.
#
# Answer: `n * (n - 1) / 2`, within 5 %. Settings: `n` 8, 64, 1000, 100000.
#
# Source: tiktoken, source code, https://github.com/openai/tiktoken.
#
# ### How many tokens fewer has a prompt of `kilobytes` kB with `better` bytes a token instead of `worse`?
#
# - Attention over the prompt and the KV cache shrink with it, so prefill is faster and more requests fit.
# - The price is a larger vocabulary: embedding and head grow, and so does the softmax.
# - Compare models by bits per byte, not by perplexity per token: tokens are not the same unit.
#
# Answer: `1000 * kilobytes * (1 / worse - 1 / better)` tokens, within 5 %. Settings: `kilobytes` 10, 100; `better` 4,
# 4.5; `worse` 1, 2.5, 3.5.
#
# Source: Petrov et al. 2023, arXiv:2305.15425.
#
# ### Is `encode(decode(ids))` always `ids`?
#
# - No: the ids of `a` and `b` apart decode to `ab`, which encodes to one id if it is a merge.
# - A model may sample such ids, and its text, encoded again, has others: reinforcement learning keeps ids, not text.
#
# Source: Kudo 2018, section 2, arXiv:1804.10959.
