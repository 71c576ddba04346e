from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from onnx_embeddings.runtime.threads import available_processors

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _many_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    give_processors(monkeypatch, 64)


def give_processors(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Let the operating system say that this process may use so many."""
    allowed = set(range(number))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: allowed, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: number)


class Machine:
    """A made-up /proc/self/cgroup and /sys/fs/cgroup."""

    def __init__(self, folder: Path) -> None:
        self.cgroups = folder / "cgroup"
        self.mount = folder / "mount"
        self.mount.mkdir()

    def membership(self, *lines: str) -> None:
        self.cgroups.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def v2(self, group: str, content: str) -> None:
        self.write(self.mount / group / "cpu.max", content)

    def v1(self, group: str, quota: str, period: str = "100000") -> None:
        self.write(self.mount / "cpu" / group / "cpu.cfs_quota_us", f"{quota}\n")
        self.write(self.mount / "cpu" / group / "cpu.cfs_period_us", f"{period}\n")

    def write(self, file: Path, content: str) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")

    def processors(self) -> int:
        return available_processors(self.cgroups, self.mount)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("max 100000\n", 64),
        ("max\n", 64),
        ("100000 100000\n", 1),
        ("150000 100000\n", 2),
        ("200000 100000\n", 2),
        ("200001 100000\n", 3),
        ("50000 100000\n", 1),
        ("1 100000\n", 1),
        ("400000 50000\n", 8),
        ("9900000 100000\n", 64),
        ("150000 100000", 2),
        ("0 100000\n", 64),
        ("-1 100000\n", 64),
        ("100000 0\n", 64),
        ("100000\n", 64),
        ("", 64),
        ("\n", 64),
        ("many 100000\n", 64),
        ("1.5 1\n", 64),
    ],
)
def test_a_quota_of_version_2_is_rounded_up_and_odd_ones_are_none(
    machine: Machine, content: str, expected: int
) -> None:
    machine.membership("0::/")
    machine.v2("", content)
    assert machine.processors() == expected


@pytest.mark.parametrize(
    ("quota", "period", "expected"),
    [
        ("-1", "100000", 64),
        ("150000", "100000", 2),
        ("100000", "100000", 1),
        ("1000", "100000", 1),
        ("350000", "100000", 4),
        ("0", "100000", 64),
        ("150000", "0", 64),
        ("", "100000", 64),
        ("150000", "", 64),
        ("max", "100000", 64),
    ],
)
def test_a_quota_of_version_1_is_rounded_up_and_odd_ones_are_none(
    machine: Machine, quota: str, period: str, expected: int
) -> None:
    machine.membership("7:cpuset:/", "4:cpu,cpuacct:/", "2:memory:/somewhere")
    machine.v1("", quota, period)
    assert machine.processors() == expected


def test_the_tightest_of_nested_groups_counts(machine: Machine) -> None:
    machine.membership("0::/a/b/c")
    machine.v2("a/b/c", "800000 100000")
    machine.v2("a/b", "max 100000")
    assert machine.processors() == 8
    machine.v2("a", "300000 100000")
    assert machine.processors() == 3
    machine.v2("", "200000 100000")
    assert machine.processors() == 2
    machine.v2("a/b/c", "100000 100000")
    assert machine.processors() == 1


def test_the_tightest_of_nested_groups_of_version_1_counts(machine: Machine) -> None:
    machine.membership("4:cpuacct,cpu:/docker/1")
    machine.v1("docker/1", "-1")
    machine.v1("docker", "500000")
    assert machine.processors() == 5


def test_groups_beside_ones_own_do_not_count(machine: Machine) -> None:
    machine.membership("0::/mine")
    machine.v2("mine", "400000 100000")
    machine.v2("mine/child", "100000 100000")
    machine.v2("other", "100000 100000")
    machine.v1("mine", "100000")
    assert machine.processors() == 4


def test_in_a_container_the_path_may_be_the_hosts(machine: Machine) -> None:
    machine.membership("0::/system.slice/docker-1234.scope")
    machine.v2("", "250000 100000")
    assert machine.processors() == 3
    machine.membership("0::/../../host")
    assert machine.processors() == 3
    machine.membership("4:cpu,cpuacct:/docker/1234")
    machine.v1("", "150000")
    assert machine.processors() == 2


def test_the_tighter_of_both_versions_counts(machine: Machine) -> None:
    machine.membership("4:cpu,cpuacct:/", "0::/")
    machine.v1("", "500000")
    machine.v2("", "300000 100000")
    assert machine.processors() == 3
    machine.v1("", "200000")
    assert machine.processors() == 2


def test_only_the_controller_of_processor_time_counts(machine: Machine) -> None:
    machine.membership("4:cpuset:/", "5:cpuacct:/", "6:name=cpu:/")
    machine.v1("", "100000")
    machine.v2("", "100000 100000")
    assert machine.processors() == 64


def test_a_colon_in_the_path_is_part_of_it(machine: Machine) -> None:
    machine.membership("0::/a:b")
    machine.v2("a:b", "100000 100000")
    assert machine.processors() == 1


@pytest.mark.parametrize(
    "content", [b"", b"\n\n", b"nothing", b"\xff\xfe", b":::", b"0:cpu", b"a:b:c:d"]
)
def test_a_file_of_groups_that_is_odd_says_nothing(machine: Machine, content: bytes) -> None:
    machine.cgroups.write_bytes(content)
    assert machine.processors() == 64


def test_files_that_are_missing_or_folders_say_nothing(machine: Machine) -> None:
    assert machine.processors() == 64
    machine.membership("0::/")
    (machine.mount / "cpu.max").mkdir()
    assert machine.processors() == 64
    machine.cgroups.unlink()
    machine.cgroups.mkdir()
    assert machine.processors() == 64


@pytest.mark.parametrize(("number", "expected"), [(1, 1), (2, 2), (4, 3), (64, 3)])
def test_the_smaller_of_affinity_and_quota_counts(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, number: int, expected: int
) -> None:
    machine.membership("0::/")
    machine.v2("", "250000 100000")
    give_processors(monkeypatch, number)
    assert machine.processors() == expected


def test_where_there_is_no_affinity_the_processors_are_counted(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert machine.processors() == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert machine.processors() == 1


def test_this_machine_has_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert 1 <= available_processors() <= (os.cpu_count() or 1)
