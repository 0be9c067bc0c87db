"""What `linear_cross_entropy` must do. The oracle is torch's cross-entropy of all logits."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts import Attempt, Ban, Call, Contract, Draw, core, fail, match, robust, tensor


def of_all_logits(hidden: Tensor, weight: Tensor, targets: Tensor, ignore_index: int) -> Tensor:
    logits = (hidden @ weight.T).to(torch.promote_types(hidden.dtype, torch.float32))
    loss = F.cross_entropy(logits.reshape(-1, len(weight)), targets.reshape(-1), ignore_index=ignore_index)
    return loss.to(hidden.dtype)


def in_float32(hidden: Tensor, weight: Tensor, targets: Tensor, ignore_index: int) -> Tensor:
    wide = torch.promote_types(hidden.dtype, torch.float32)
    return of_all_logits(hidden.to(wide), weight.to(wide), targets, ignore_index).to(hidden.dtype)


def token_by_token(hidden: Tensor, weight: Tensor, targets: Tensor, ignore_index: int) -> Tensor:
    """One loss after the other."""
    rows, flat = hidden.reshape(-1, hidden.shape[-1]), targets.reshape(-1)
    wide, total, count = torch.promote_types(hidden.dtype, torch.float32), 0.0, 0
    for row, target in zip(rows, flat.tolist(), strict=True):
        if target != ignore_index:
            logits = (weight @ row).to(wide)
            total, count = total + logits.logsumexp(0) - logits[target], count + 1
    return (total / torch.tensor(count)).to(hidden.dtype)


class TestLinearCrossEntropy(Contract):
    name = "linear_cross_entropy"
    oracle = of_all_logits
    variants = (of_all_logits, in_float32, token_by_token)
    ban = Ban(
        r"^aten::_?linear_cross_entropy",
        ("torch.nn.functional.linear_cross_entropy", "torch.nn.LinearCrossEntropyLoss"),
    )
    holds = {
        "Chunks": ("test_any_chunk_size",),
        "Mean": ("test_hard_cases",),
        "Upstream gradient": ("test_gradients", "test_either_input"),
        "Memory": ("test_the_peak",),
        "Half precision": ("test_half_precision", "test_softmax_and", "test_the_sum_of_losses"),
    }
    cases = {
        "one_chunk": {"ignored": 0.3},
        "chunks_that_divide_the_tokens": {"shape": (2, 6), "chunk_size": 4},
        "a_short_last_chunk": {"shape": (13,), "chunk_size": 5, "ignored": 0.4},
        "another_ignore_index": {"shape": (3, 4), "ignored": 0.4, "ignore_index": -1, "chunk_size": 3},
        "large_logits": {"scale": 60.0, "chunk_size": 2},
    }
    representative = ("one_chunk", "chunks_that_divide_the_tokens", "a_short_last_chunk")
    hard_cases = {
        "chunks_with_none_kept": lambda d: none_kept(d, -100),
        "the_padding_ignored": lambda d: none_kept(d, 2),
    }
    grows = {"the vocabulary": "vocab", "dim": "dim", "tokens of a chunk": "shape"}
    timed = {"shape": (2, 256), "vocab": 512, "dim": 64, "chunk_size": 128}

    @classmethod
    def call(
        cls, d: Draw, shape: tuple = (7,), dim: int = 6, vocab: int = 11, ignored: float = 0.0, scale: float = 2.0,
        **settings: int,
    ) -> Call:  # fmt: skip
        """Logits of this size and random targets, some of them ignored: the last is, and the first never."""
        targets = d.integers(0, vocab, *shape)
        if ignored:
            gone = (d.uniform(*shape) < ignored).flatten()
            gone[0], gone[-1] = False, True
            targets = targets.masked_fill(gone.view(shape), settings.get("ignore_index", -100))
        hidden, weight = d.normal(*shape, dim), d.normal(vocab, dim, scale=scale * dim**-0.5)
        return Call({"hidden": hidden, "weight": weight, "targets": targets, **settings})

    @core
    def test_any_chunk_size_gives_the_same(self, attempt: Attempt, draw: Draw) -> None:
        calls = {
            f"chunks of {size}": self.call(draw, (23,), ignored=0.3, chunk_size=size) for size in (1, 2, 7, 22, 99)
        }
        self.verify_all(attempt, draw, calls.items(), gradients=True)

    @core
    def test_the_peak_does_not_grow_with_tokens(self, attempt: Attempt, draw: Draw) -> None:
        few, many, chunk, vocab, dim = 512, 4096, 64, 600, 8
        peaks = []
        for tokens in (few, many):
            made = self.call(draw, (tokens,), dim, vocab, chunk_size=chunk)
            peaks.append(attempt.observed([self.prepare_call(attempt, made)], gradients=True)["peak"])
        # The gradient of hidden in float32, scaled, cast and joined; of each token a few numbers, such as logsumexp.
        allowed = (many - few) * 4 * (6 * dim + 12)
        if peaks[1] - peaks[0] > allowed:
            facts = f"{tokens_and(few, peaks[0])}, {tokens_and(many, peaks[1])}", f"a chunk has {chunk * vocab * 4:,}"
            fail("forward plus backward hold the logits of one chunk, and no more with more tokens", *facts)
        if peaks[0] > (most := 8 * chunk * vocab * 4 + few * 4 * (6 * dim + 12) + 8 * vocab * dim * 4):
            fail("forward plus backward hold the logits of one chunk", f"{tokens_and(few, peaks[0])}, at most {most:,}")

    @robust
    def test_either_input_may_need_no_gradient(self, attempt: Attempt, draw: Draw) -> None:
        """A frozen head, or a probe on frozen hidden states, ends the run."""
        for wanted in ("hidden", "weight"):
            made = self.call(draw, (9,), ignored=0.3, chunk_size=4)
            exact = {k: v.double() if v.is_floating_point() else v for k, v in tensors(made).items()}
            leaf, expected = made.inputs[wanted].to(attempt.device).requires_grad_(), exact[wanted].requires_grad_()
            with self.case_context(attempt, f"{wanted} alone takes gradients", made):
                args, kwargs = self.arguments(made.with_inputs(**{wanted: leaf}).to(attempt.device))
                (3 * tensor(attempt.linear_cross_entropy(*args, **kwargs), attempt.device)).backward()
                (3 * of_all_logits(**exact, ignore_index=-100)).backward()
                size = expected.grad.abs() + expected.grad.square().mean().sqrt()
                sentence = f"the gradient of {wanted} is right where it alone takes one"
                match(leaf.grad.cpu(), expected.grad, 1e-5 * size, sentence, self.axes[wanted])

    @robust
    def test_softmax_and_sums_over_chunks_are_float32(self, attempt: Attempt, draw: Draw) -> None:
        """A sum in bfloat16 stalls after 256 equal terms: the head learns from the first chunks alone. A rounded
        logsumexp is off by a percent in all probabilities of its row.
        """
        tokens, vocab = 512, 1046  # whose logarithm lies between two numbers of bfloat16
        inputs = {"hidden": torch.ones(tokens, 2), "weight": torch.zeros(vocab, 2), "chunk_size": 1}
        made = Call(inputs | {"targets": torch.arange(tokens) % 2}).cast(torch.bfloat16)
        callee, args, kwargs = self.prepare_call(attempt, made)
        answer = callee.ask(do="forward_backward", target=callee.target, args=args, kwargs=kwargs)
        exact = (1 / vocab - torch.tensor([0.5, 0.5, *[0.0] * (vocab - 2)]).double())[:, None].expand(vocab, 2)
        with self.case_context(attempt, f"{tokens} chunks of one token", made):
            sentence = "softmax, and the sum of weight's gradient over chunks, are float32"
            got = tensor(answer["inputs"][1], attempt.device).cpu()
            two_roundings = 1.2 * torch.finfo(torch.bfloat16).eps * exact.abs()
            match(got, exact, two_roundings, sentence, self.axes["weight"])

    @robust
    def test_the_sum_of_losses_does_not_overflow_float16(self, attempt: Attempt, draw: Draw) -> None:
        """float16 ends at 65504: the sum of a long batch's losses is inf there, and so is the number of its tokens."""
        count, exact = 70_001, torch.tensor(3.0, dtype=torch.float64).log()
        inputs = {"hidden": torch.zeros(1, 2).expand(count, 2), "weight": torch.zeros(3, 2), "chunk_size": 16_384}
        made = Call(inputs | {"targets": torch.ones(count, dtype=torch.int64)}).cast(torch.float16)
        got = self.run(attempt, f"{count} equal tokens", made, torch.float16).double()
        match(got, exact, 2e-3 * exact, "the mean of equal losses is that loss", "")


def none_kept(d: Draw, ignore_index: int) -> Call:
    """Chunks of 3, of which the first and the third have no token that is kept, and the last but one."""
    made = TestLinearCrossEntropy.call(d, (11,), vocab=5)
    targets = made.inputs["targets"].masked_fill(made.inputs["targets"] == ignore_index, 0)
    targets[[0, 1, 2, 4, 6, 7, 8, 10]] = ignore_index
    return made.with_inputs(targets=targets, ignore_index=ignore_index, chunk_size=3)


def tensors(made: Call) -> dict[str, Tensor]:
    return {name: value for name, value in made.inputs.items() if isinstance(value, Tensor)}


def tokens_and(tokens: int, held: int) -> str:
    return f"{held:,} bytes with {tokens} tokens"
