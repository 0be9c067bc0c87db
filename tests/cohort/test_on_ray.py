"""The same on a cluster of two nodes, among attackers, and when one node is lost on the way."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from dojo.cohort.engine import results
from dojo.cohort.on_ray import RayEngine
from dojo.cohort.records import Submitted
from dojo.cohort.store import Terms
from dojo.content import catalog
from dojo.content.catalog import Trouble

pytest.importorskip("ray")
ATTACKS = Path(__file__).parent.parent / "attacks"
TERMS = Terms(5, torch=torch.__version__)
SOFTMAX = catalog.katas()["softmax"].master.read_text("utf-8")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    before = dict(os.environ)  # Ray leaves words of its own there, a debugger's among them
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.add_node(num_cpus=1)
    made.wait_for_nodes()
    yield made
    made.shutdown()
    os.environ.clear()
    os.environ.update(before)


@pytest.mark.proof  # attempts that hang take their time
def test_no_attack_changes_the_verdict_on_another(cluster: Any) -> None:
    sources = {file.stem: file.read_text("utf-8") for file in sorted(ATTACKS.glob("*.py"))}
    honest = {f"honest {attack}": SOFTMAX for attack in sources}
    everyone = [name for attack in sources for name in (attack, f"honest {attack}")]

    def fetch(student: str, kata: str) -> Submitted:
        return Submitted(student, kata, f"{student}.py", (sources | honest)[student])

    engine = RayEngine(cluster.address, sandboxed=bool(shutil.which("bwrap")))
    seen = list(results([(name, "softmax") for name in everyone], fetch, TERMS, engine))
    engine.close()
    assert sorted(each.submitted.student for each in seen) == sorted(everyone)
    verdicts = {each.submitted.student: each.verdict["verdict"] for each in seen}
    assert [name for name in honest if verdicts[name] != "passed"] == []
    assert {name: verdicts[name] for name in sources if verdicts[name] not in ("failed", "broken")} == {}


@pytest.mark.proof  # a minute until the nodes are up
def test_a_lost_node_loses_nothing(cluster: Any) -> None:
    engine = RayEngine(cluster.address, sandboxed=False)
    other = next(node for node in cluster.list_all_nodes() if node is not cluster.head_node)
    seen = []
    wanted = [(f"s{n}", "softmax") for n in range(8)]

    def fetch(student: str, kata: str) -> Submitted:
        wrong = student == "s3"
        return Submitted(student, kata, f"{student}.py", SOFTMAX.replace(".amax(", ".amin(") if wrong else SOFTMAX)

    for result in results(wanted, fetch, TERMS, engine):
        seen.append(result)
        if len(seen) == 2:
            cluster.remove_node(other, allow_graceful=False)
    engine.close()
    assert sorted(result.submitted.student for result in seen) == [name for name, _ in wanted]
    assert {result.submitted.student for result in seen if result.verdict["verdict"] == "failed"} == {"s3"}
    assert not any(result.for_a_person for result in seen)


def test_a_cluster_that_does_not_answer_is_told() -> None:
    with pytest.raises(Trouble, match="no Ray cluster answers"):
        RayEngine("127.0.0.1:9", sandboxed=False)
