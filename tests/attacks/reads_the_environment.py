"""Looks for the user's secrets in the environment of every process that it can see."""

import os

import torch

found = dict(os.environ)
if "DOJO_TEST_SECRET" in found:
    print("environ:", found["DOJO_TEST_SECRET"])
for pid in ["self", str(os.getppid()), *range(1, 400)]:
    try:
        if b"DOJO_TEST_SECRET" in open(f"/proc/{pid}/environ", "rb").read():
            print("proc: hunter2")
    except OSError:
        pass


def softmax(x, dim=-1):
    return x
