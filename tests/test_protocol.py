"""What passes between judge and worker: everything that should, as it was, and nothing that should not."""

from __future__ import annotations

import json
import pickle
import struct

import pytest
import torch

from dojo.judge import protocol


def there_and_back(message: object) -> object:
    """A message after a journey over the wire."""
    parts = [bytes(part) for part in protocol.dump(message)]
    header, payload = protocol.lengths(parts[0])
    assert (header, payload) == (len(parts[1]), sum(map(len, parts[2:])))
    return protocol.load(parts[1], bytearray(b"".join(parts[2:])))


@pytest.mark.parametrize("dtype", protocol.DTYPES.values(), ids=str)
def test_tensors_of_every_dtype_arrive_bit_for_bit(dtype: torch.dtype) -> None:
    sent = torch.arange(-3, 9).reshape(3, 4).to(dtype)
    got = there_and_back({"x": sent})["x"]
    assert got.dtype is dtype
    assert torch.equal(got, sent)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(3, 5).t(),
        torch.randn(1, 5).expand(3, 5),
        torch.randn(4, 6)[1:, 2:],
        torch.randn(()),
        torch.empty(0, 3),
        torch.randn(2, 3, 5)[..., ::2],
        torch.tensor([torch.nan, -0.0, torch.inf]),
    ],
    ids=["transposed", "expanded", "sliced", "scalar", "empty", "stepped", "special"],
)
def test_views_arrive_with_their_values_and_strides(tensor: torch.Tensor) -> None:
    got = there_and_back(tensor)
    assert got.stride() == tensor.stride()
    assert torch.equal(torch.nan_to_num(got), torch.nan_to_num(tensor))


def test_plain_values_arrive_as_what_they_were() -> None:
    sent = {"a": [1, 2.5, None, True], "b": (torch.float16, torch.device("meta")), "c": protocol.Remote(7)}
    assert there_and_back(sent) == sent


def test_a_meta_tensor_arrives_without_data() -> None:
    assert there_and_back(torch.empty(3, 5, device="meta")).is_meta


def test_a_leaf_that_requires_grad_arrives_as_one() -> None:
    assert there_and_back(torch.ones(2, requires_grad=True)).requires_grad


@pytest.mark.parametrize("value", [object(), {1, 2}, {1: 2}, lambda: None, torch.ones(2).to_sparse()], ids=type)
def test_nothing_else_is_sent(value: object) -> None:
    with pytest.raises(protocol.ProtocolError, match="cannot be sent"):
        protocol.dump(value)


def tensor_head(**changes: object) -> bytes:
    """The header of a small tensor, with something wrong in it."""
    head = {"tensor": "float32", "shape": [2], "stride": [1], "span": 2, "device": "cpu", "grad": False}
    return json.dumps(head | changes).encode()


@pytest.mark.parametrize(
    "header",
    [
        b"passed",
        pickle.dumps(print),
        b'{"unknown": 1}',
        b"[" * 10_000,
        tensor_head(shape=[1 << 40]),
        tensor_head(span=1 << 40),
        tensor_head(shape=[-1]),
        tensor_head(stride=[99]),
        tensor_head(stride=[1, 1]),
        tensor_head(tensor="object"),
        tensor_head(shape="xx"),
        b'{"tensor": "float32"}',
    ],
)
def test_junk_is_an_error_and_nothing_more(header: bytes) -> None:
    with pytest.raises(protocol.ProtocolError):
        protocol.load(header, bytearray(16))


def test_data_that_belongs_to_no_tensor_is_an_error() -> None:
    with pytest.raises(protocol.ProtocolError, match="belong to no tensor"):
        protocol.load(b"1", bytearray(16))


def test_giant_announcements_are_refused_before_anything_is_read() -> None:
    with pytest.raises(protocol.ProtocolError, match="more than any answer has"):
        protocol.lengths(struct.pack("!IQ", 1 << 31, 0))
