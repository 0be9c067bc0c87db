"""A Value against torch.autograd: one expression written once for both, and the known answer of the statement."""

from __future__ import annotations

import pytest
import torch

from tests.conformance.agreement import solution


def expression(a, b):
    """Every operation, with numbers on either side and a result that is used again."""
    c = (2 - a) / (b + 3) - 1 / (a * a + 1)
    d = (c.tanh() + 2) ** 1.5
    return (d.log() * -c + d.exp()).relu() / 7 + a**0 + 0.5 * c**3


@pytest.mark.parametrize(("a", "b"), [(0.6, 0.7), (-1.3, 2.0), (2.5, -0.4)])
def test_gradients_are_those_of_torch(a: float, b: float) -> None:
    leaves = [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in (a, b)]
    made = solution("autograd").Value
    ours = [made(a), made(b)]
    exact, found = expression(*leaves), expression(*ours)
    for times in (1, 2):
        exact.backward(retain_graph=True)
        found.backward()
        assert found.data == pytest.approx(exact.item(), rel=1e-12)
        assert [each.grad for each in ours] == pytest.approx([each.grad.item() for each in leaves], rel=1e-12), times


def test_a_second_call_adds_the_known_answer_again() -> None:
    made = solution("autograd").Value
    a, b = made(2.0), made(-3.0)
    r = (a * b + a**2) * a
    seen = []
    for _ in range(2):
        r.backward()
        seen.append((r.data, a.grad, b.grad))
    assert seen == [(-4, 0, 4), (-4, 0, 8)]
