"""What `conv2d` must do. The oracle loops over channels and kernel, and finds each pixel by its index: no padding."""

from __future__ import annotations

from itertools import product

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts import Attempt, Ban, Call, Contract, Draw, half_precisions, match, robust

Pair = int | tuple[int, int]


def both(value: Pair) -> tuple[int, int]:
    return value if isinstance(value, tuple) else (value, value)


def by_loops(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1,
    padding: Pair = 0, dilation: Pair = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    (s, t), (p, q), (d, e) = map(both, (stride, padding, dilation))
    (batch, _, h, w), (out, share, kh, kw) = x.shape, weight.shape
    rows, columns = (h + 2 * p - d * (kh - 1) - 1) // s + 1, (w + 2 * q - e * (kw - 1) - 1) // t + 1
    found = []
    for o in range(out):
        total = x.new_zeros(batch, rows, columns) + (0 if bias is None else bias[o])
        for n, i, j in product(range(share), range(kh), range(kw)):
            y, z = torch.arange(rows)[:, None] * s + i * d - p, torch.arange(columns) * t + j * e - q
            inside = (y >= 0) & (y < h) & (z >= 0) & (z < w)
            pixels = x[:, o // (out // groups) * share + n, y.clamp(0, h - 1), z.clamp(0, w - 1)]
            total = total + torch.where(inside, pixels, 0.0) * weight[o, n, i, j]
        found.append(total)
    return torch.stack(found, 1)


def library(x: Tensor, weight: Tensor, bias: Tensor | None = None, *more, **named) -> Tensor:
    wide = torch.promote_types(x.dtype, torch.float32)
    return F.conv2d(x.to(wide), weight.to(wide), None if bias is None else bias.to(wide), *more, **named).to(x.dtype)


def rounded_before_the_bias(
    init: dict, params: dict, x: Tensor, weight: Tensor, bias: Tensor | None = None, *more, **named
) -> Tensor:
    found = library(x, weight, None, *more, **named)
    return found if bias is None else found + bias[:, None, None]


def tap_by_tap(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1,
    padding: Pair = 0, dilation: Pair = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """One product after the other, in float32: the least accurate sum there is."""
    (s, t), (p, q), (d, e), wide = *map(both, (stride, padding, dilation)), torch.promote_types(x.dtype, torch.float32)
    kh, kw = weight.shape[2:]
    padded = F.pad(x.to(wide), (q, q, p, p)).unflatten(1, (groups, -1))
    taps = weight.to(wide).unflatten(0, (groups, -1))
    rows, columns = padded.shape[3] - d * (kh - 1), padded.shape[4] - e * (kw - 1)
    total = 0 if bias is None else bias.to(wide).view(groups, -1, 1, 1)
    for n, i, j in product(range(weight.shape[1]), range(kh), range(kw)):
        seen = padded[:, :, None, n, i * d : i * d + rows : s, j * e : j * e + columns : t]
        total = total + seen * taps[:, :, n, i, j, None, None]
    return total.flatten(1, 2).to(x.dtype)


class TestConv2d(Contract):
    name = "conv2d"
    oracle = by_loops
    variants = (library, rounded_before_the_bias, tap_by_tap)
    ban = Ban(r"conv\d|convolution|conv_|im2col", ("torch.nn.functional.unfold", "torch._decomp.decompositions.im2col"))
    holds = {
        "Pairs and groups": ("test_values_match", "test_gradients_match"),
        "Windows": ("test_hard_cases",),
        "Half precision": ("test_half_precision",),
        "Cost": ("test_operation_count",),
        "Errors": ("test_channels_that", "test_a_window_larger"),
    }
    cases = {
        "a_square_kernel": {"kernel": (2, 2)},
        "a_kernel_and_a_bias": {"bias": True},
        "a_stride_for_each_axis": {"stride": (3, 2)},
        "a_padding_for_each_axis": {"padding": (2, 1)},
        "a_dilation_for_each_axis": {"dilation": (1, 3)},
        "two_groups": {"channels": 4, "out": 6, "groups": 2},
        "one_group_for_each_channel": {"out": 6, "groups": 3, "bias": True},
        "ints": {"stride": 2, "padding": 1, "dilation": 2, "bias": True},
        "all_at_once": {"channels": 4, "out": 6, "bias": True, "stride": (2, 3), "padding": (1, 3), "dilation": (2, 1),
                        "groups": 2},
    }  # fmt: skip
    more_shapes = {
        "a_kernel_of_one": {"kernel": (1, 1)},
        "a_kernel_as_large_as_the_image": {"kernel": (6, 7), "bias": True},
        "one_image_of_one_channel": {"batch": 1, "channels": 1, "out": 1},
        "one_row": {"height": 1, "kernel": (1, 3), "stride": (1, 2)},
    }
    hard_cases = {
        "a_kernel_of_one_with_a_stride": {"kernel": (1, 1), "stride": 2},
        "a_kernel_of_one_with_padding": {"kernel": (1, 1), "padding": 1, "bias": True},
        "all_is_square": {"image": 6, "kernel": (2, 2), "stride": (2, 1), "padding": (2, 1), "dilation": (1, 3)},
        "a_stride_beyond_the_kernel": {"stride": (4, 5)},
        "windows_of_padding_alone": {"padding": (4, 3), "kernel": (2, 2), "bias": True},
        "a_window_as_large_as_the_padded_image": {"padding": (0, 1), "dilation": (5, 4), "kernel": (2, 3)},
        "a_window_that_fits_by_the_padding_of_both_sides": {"padding": (0, 2), "dilation": (1, 5), "kernel": (3, 3)},
    }
    representative = ("a_kernel_and_a_bias", "two_groups", "all_at_once")
    grows = {"batch": "batch", "channels in": "channels", "channels out": "out", "the image": "image"}
    growth_sizes = (4, 16)
    timed = {"batch": 16, "channels": 16, "out": 8, "image": 32, "kernel": (3, 3), "padding": 1, "bias": True}

    @classmethod
    def call(
        cls, d: Draw, batch: int = 2, channels: int = 3, out: int = 4, height: int = 6, width: int = 7, image: int = 0,
        kernel: tuple = (3, 2), bias: bool = False, **settings: Pair,
    ) -> Call:  # fmt: skip
        """A normal image, and kernels whose products sum to about 1; a bias as large."""
        height, width = (image, image) if image else (height, width)
        share = channels // int(settings.get("groups", 1))
        scale = (share * kernel[0] * kernel[1]) ** -0.5
        inputs = {"x": d.normal(batch, channels, height, width)}
        inputs["weight"] = d.normal(out, share, *kernel, scale=scale)
        return Call(inputs | ({"bias": d.normal(out)} if bias else {}) | settings)

    @robust
    @half_precisions
    def test_half_precision_sums_a_window_in_float32(self, attempt: Attempt, draw: Draw, dtype: torch.dtype) -> None:
        """A sum in half precision stands still: beside 4096 each further product is rounded away."""
        kernel = torch.ones(1, 1, 16, 20)
        x = draw.integers(1, 3, 2, 1, 16, 20).float()
        x[:, :, 0, 0] = 4096.0
        call = Call({"x": x, "weight": kernel}).cast(dtype)
        got, expected = self.run(attempt, "a window of 320 pixels", call, dtype), x.double().sum((2, 3), keepdim=True)
        sentence = "half precision is summed in float32 and rounded at the end"
        with self.case_context(attempt, "a window of 320 pixels", call):
            match(got, expected, torch.finfo(dtype).eps * expected, sentence, self.axes["result"])

    @robust
    def test_channels_that_do_not_fit_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """Channels beyond the last group are left out, or one is spread over all, and nothing is said."""
        for channels, out, share, groups in ((6, 4, 1, 4), (6, 5, 3, 2), (6, 4, 5, 1), (6, 4, 1, 1), (6, 4, 3, 1)):
            inputs = {"x": draw.normal(2, channels, 5, 7), "weight": draw.normal(out, share, 3, 2), "groups": groups}
            told = f"x of {channels} channels, weight of {out} and width {share}, groups={groups}"
            offending = out if out % groups else share if groups == 1 else channels
            self.refuses(attempt, Call(inputs), offending, sentence=f"{told}: is refused")

    @robust
    def test_a_window_larger_than_the_padded_input_is_refused(self, attempt: Attempt, draw: Draw) -> None:
        """A result without pixels, or of windows that end outside, goes on into the next layer."""
        for kernel, settings in (
            ((6, 2), {}),
            ((3, 8), {"stride": 3}),
            ((8, 1), {"padding": 1}),
            ((2, 2), {"dilation": 7}),
        ):
            call = self.call(draw, height=5, width=7, kernel=kernel, **settings)
            sentence = f"a kernel of {kernel} on 5 × 7 pixels with {settings} is refused"
            self.refuses(attempt, call, max(kernel) if "dilation" not in settings else 8, sentence=sentence)
