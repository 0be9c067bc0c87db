"""What graders are written in, for their one line of imports."""

# ruff: noqa: F401

from dojo.contracts.attention import (
    FUSED,
    AttentionContract,
    HeadsContract,
    SoftmaxContract,
    in_part,
    one_value,
    very_large_scores,
)
from dojo.contracts.checks.assertions import (
    Wrong,
    assert_raises,
    fail,
    match,
    noting,
    stating,
    tensor,
    too_much,
)
from dojo.contracts.checks.candidate_test.contract import CandidateTest
from dojo.contracts.checks.inputs import Call, Draw
from dojo.contracts.checks.operations import AUTOGRAD, Ban, assert_constant_op_count, operation_count
from dojo.contracts.checks.parameters import drawn_from_normal, parameters_are
from dojo.contracts.checks.ranks import EachRank, OnRanks
from dojo.contracts.checks.tolerance import HALF, Formula
from dojo.contracts.function import Contract
from dojo.contracts.harness import Maker, bare, core, fast, half_precisions, robust
from dojo.contracts.layers import DropoutContract, NormContract, silenced
from dojo.contracts.module import ModuleContract, NormedContract, PrecomputedTablesContract
from dojo.contracts.plain.generator import GeneratorContract
from dojo.contracts.plain.in_numpy import NumpyContract
from dojo.contracts.plain.shrinking import shorter
from dojo.contracts.training import MaskedLossContract, RoundedOnceContract
from dojo.judge.protocol import Group
from dojo.judge.proxy import Attempt, Callee
from dojo.verdict.failures import Fault
from dojo.verdict.types import Label, Outcome, Section
