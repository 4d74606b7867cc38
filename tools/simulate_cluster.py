"""Simulate fits by clusters of any size from measured times of their tasks, with failures and stragglers.

The graph is that of ``distembed.cluster.fit``: a task for each part of the table, whose sums join one after the other
in groups of eight, and these in groups of 32, level by level. A scheduler that works on one task at a time starts them,
a worker does one at a time, and sums of another worker are moved first. A worker that is lost loses what it does and
all sums that it holds; what they were made of is made again. Nothing is copied ahead, and nothing is done twice in case
it is slow, as in Dask.

``tools/cluster_costs.py`` measures the times and draws what follows from them.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

GROUP, WIDE = 8, 32  # parts of a group; groups that join


@dataclass(frozen=True)
class Cluster:
    """Who works, and what goes wrong.

    Parameters
    ----------
    workers : int
        Processes of one thread.
    bandwidth : float
        Bytes per second from one worker to another.
    failures : float
        Workers lost per worker and hour.
    restart : float
        Seconds until a lost worker is replaced.
    slow, factor : float
        Share of tasks that are stragglers, and how many times as long they take.
    """

    workers: int
    bandwidth: float = 1e9
    failures: float = 0.0
    restart: float = 60.0
    slow: float = 0.0
    factor: float = 5.0


@dataclass(frozen=True)
class Work:
    """What is to be done: parts, and the seconds and bytes of their tasks.

    Parameters
    ----------
    parts : int
        Of the table.
    part : float
        Seconds of a worker for each of them.
    scheduler : float
        Seconds of the scheduler for each of them.
    join : float, optional
        Seconds of a worker that joins two sums; by default nothing is joined.
    join_scheduler : float
        Seconds of the scheduler for that.
    sums : float
        Bytes of a sum.
    """

    parts: int
    part: float
    scheduler: float = 0.0
    join: float | None = None
    join_scheduler: float = 0.0
    sums: float = 0.0


class Outcome(NamedTuple):
    """Seconds until all is done, seconds of work, its tasks, workers lost, parts done again, bytes moved."""

    seconds: float
    busy: float
    tasks: int
    lost: int
    again: int
    moved: float


class Node:
    """Sums over a part, or over all parts below: how many of its children are in, and which worker holds them."""

    __slots__ = ("children", "holder", "joined", "order", "parent", "running", "wanted")

    def __init__(self, order: tuple[int, int], children: list[Node]) -> None:
        self.order, self.children = order, children  # the last part below it and the height: the first is done first
        self.parent: Node | None = None
        self.holder: int | None = None
        self.joined, self.running, self.wanted = 0, False, not children
        for child in children:
            child.parent = self

    def is_done(self) -> bool:
        """Whether all of its children are in."""
        return self.holder is not None and not self.running and self.joined == len(self.children)

    def can_join(self) -> bool:
        """Whether the next of its children is there, and nothing else is being joined."""
        return not self.running and self.joined < len(self.children) and self.children[self.joined].is_done()


class Run:
    """The state of a simulation, see :func:`simulate`."""

    def __init__(self, work: Work, cluster: Cluster, seed: int) -> None:
        self.work, self.cluster, self.rng = work, cluster, np.random.default_rng(seed)
        level = self.leaves = [Node((i, 0), []) for i in range(work.parts)]
        width, height = GROUP, 0
        while work.join is not None and len(level) > 1:
            starts, height = range(0, len(level), width), height + 1
            level = [
                Node((level[min(i + width, len(level)) - 1].order[0], height), level[i : i + width]) for i in starts
            ]
            width = WIDE
        self.root, self.left = level[0], work.parts
        self.count = itertools.count()  # what happens at one moment happens in the order in which it was said
        self.ready = [(leaf.order, next(self.count), leaf) for leaf in self.leaves]
        self.idle = list(range(cluster.workers))[::-1]
        self.doing: dict[int, tuple[int, Node]] = {}
        self.held: list[set[Node]] = [set() for _ in range(cluster.workers)]
        self.events: list[tuple[float, int, str, int]] = []
        self.now = self.scheduled = self.busy = self.moved = 0.0
        self.tasks = self.lost = self.again = 0

    def outcome(self) -> Outcome:
        """Go on until all is done."""
        for worker in range(self.cluster.workers):
            self.live(worker)
        while self.left if self.work.join is None else not self.root.is_done():
            while self.idle and self.ready:
                node = heapq.heappop(self.ready)[2]
                if node.can_join() if node.children else node.wanted:
                    self.start(node, self.idle.pop())
            self.now, number, what, worker = heapq.heappop(self.events)
            if what == "back":
                self.idle.append(worker)
                self.live(worker)
            elif what == "lost":
                self.lose(worker)
            elif self.doing.get(worker, (None,))[0] == number:  # else it was lost meanwhile
                self.finish(worker)
        return Outcome(self.now, self.busy, self.tasks, self.lost, self.again, self.moved)

    def later(self, seconds: float, what: str, worker: int) -> int:
        """Let something happen to a worker; returns its number."""
        number = next(self.count)
        heapq.heappush(self.events, (self.now + seconds, number, what, worker))
        return number

    def live(self, worker: int) -> None:
        """Draw the moment at which a worker will be lost."""
        if self.cluster.failures:
            self.later(self.rng.exponential(3600 / self.cluster.failures), "lost", worker)

    def start(self, node: Node, worker: int) -> None:
        """Begin a part, or a join, for which sums come to the worker."""
        work, is_part = self.work, not node.children
        self.scheduled = max(self.now, self.scheduled) + (work.scheduler if is_part else work.join_scheduler)
        took = work.part
        if not is_part:
            child = node.children[node.joined]
            away = (node.holder != worker) + (child.holder != worker)
            took = (work.join or 0.0) + away * work.sums / self.cluster.bandwidth
            self.moved += away * work.sums
            self.hold(child, None)
            self.hold(node, worker)
            node.joined += 1
        if self.rng.random() < self.cluster.slow:
            took *= self.cluster.factor
        node.running, node.wanted = True, False
        self.tasks += 1
        self.busy += took
        self.doing[worker] = self.later(self.scheduled - self.now + took, "done", worker), node

    def finish(self, worker: int) -> None:
        """Free a worker, and see what can be done with its result."""
        node = self.doing.pop(worker)[1]
        node.running = False
        self.idle.append(worker)
        if self.work.join is None:
            self.left -= 1
            return
        self.hold(node, worker)
        self.offer(node.parent if node.is_done() else node)

    def offer(self, node: Node | None) -> None:
        """Let a node join the next of its children, if it is there; the first one becomes its own sums."""
        while node is not None and node.can_join():
            if node.joined:
                heapq.heappush(self.ready, (node.order, next(self.count), node))
                return
            first = node.children[0]
            holder, node.joined = first.holder, 1
            self.hold(first, None)
            self.hold(node, holder)
            node = node.parent if node.is_done() else node

    def hold(self, node: Node, worker: int | None) -> None:
        """Let a worker have the sums of a node, or nobody."""
        if node.holder is not None:
            self.held[node.holder].discard(node)
        node.holder = worker
        if worker is not None:
            self.held[worker].add(node)

    def lose(self, worker: int) -> None:
        """A worker is gone, with what it did and what it held."""
        self.lost += 1
        gone = sorted(self.held[worker], key=lambda node: node.order)
        if worker in self.doing:
            node = self.doing.pop(worker)[1]
            node.running = False
            if node.holder is None:  # a part
                gone.append(node)
        elif worker in self.idle:
            self.idle.remove(worker)
        for node in gone:
            self.forget(node)
        self.later(self.cluster.restart, "back", worker)

    def forget(self, node: Node) -> None:
        """Make a node again, and all that it was made of."""
        self.hold(node, None)
        taken, node.joined = node.children[: node.joined], 0
        for child in taken:
            self.forget(child)
        if not node.children:
            self.again += 1
            node.wanted = True
            heapq.heappush(self.ready, (node.order, next(self.count), node))


def simulate(work: Work, cluster: Cluster, seed: int = 0) -> Outcome:
    """Run the tasks of some work on a cluster, event by event.

    Parameters
    ----------
    work : Work
        What is to be done.
    cluster : Cluster
        Who does it.
    seed : int
        Of failures and stragglers.

    Returns
    -------
    Outcome

    Examples
    --------
    >>> simulate(Work(10, 2.0), Cluster(4)).seconds
    6.0
    >>> simulate(Work(8, 2.0, join=0.5), Cluster(8)).seconds
    5.5
    """
    return Run(work, cluster, seed).outcome()
