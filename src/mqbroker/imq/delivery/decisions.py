"""The second phase: branches with a decision are committed at the homes, and those that nobody will decide are rolled back there.

In an enhanced cluster the coordinator of a branch, its home, or both may have been taken over since it was prepared.  So a broker ends the
branches of every coordinator whose data it has, and finds each where the data of its home are by now: at another member, or at itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from twisted.logger import Logger

from mqbroker.cluster.links.outgoing import node_id_bytes
from mqbroker.imq.delivery.home import Home, Runner
from mqbroker.messaging.delivery.branches import COORDINATED_FORMAT, Branches, XACode, XAError, xid_base64
from mqbroker.messaging.ports import BranchRecord, BranchState
from mqbroker.messaging.turns.context import OperationContext
from mqclient.errors import MQError
from mqclient.wire.primitives import Xid
from mqclient.xa import XA_HEURCOM, XA_HEURHAZ, XA_HEURMIX, XA_HEURRB, XAER_NOTA

if TYPE_CHECKING:
    from mqbroker.messaging.core import MessagingCore
    from mqclient.wire.packets import XaResponse

BRANCH_FORMAT = 0x4D51_4842
"""The format id of a branch at a home: its qualifier is the node id of the home, and its transaction id begins with the coordinator's."""
ID_LENGTH = 16
"""Bytes of a node id, and of the number of a transaction."""
HASHED = 1 << 63
"""Numbers of transactions that a transaction manager has named are not below, those of others are."""
RECORDS_NAMED = 10
"""Damaged records that a line of the log names."""
_BY_MANAGEMENT = (XA_HEURCOM, XA_HEURHAZ, XA_HEURMIX, XA_HEURRB)

log = Logger(namespace="mqbroker.imq")


class TakenOver(Protocol):
    """The places of nodes' data that were taken over."""

    @property
    def nodes(self) -> Collection[str]:
        """The node ids whose data are here, with everything that was decided there; this broker's own is one of them."""

    async def at(self, member: str, nodes: Collection[bytes]) -> Collection[bytes]:
        """The ids among ``nodes`` whose data are complete at a linked member (node id) by now.  Raises MQError."""


class NothingTaken:
    """Each broker keeps what it has (a :class:`TakenOver`)."""

    def __init__(self, node_id: str) -> None:
        self.nodes: Collection[str] = (node_id,)

    async def at(self, member: str, nodes: Collection[bytes]) -> Collection[bytes]:
        return ()


class Decisions:
    """The decisions of this broker, and of those that it has taken over.

    ``homes`` are the linked members by node id; ``undecided`` gives the branches that may still be decided here.
    """

    def __init__(
        self,
        core: MessagingCore,
        branches: Branches,
        node_id: bytes,
        homes: Mapping[str, Home],
        runner: Runner,
        taken: TakenOver,
        undecided: Callable[[], Collection[Xid]],
    ) -> None:
        self._core = core
        self._branches = branches
        self._node_id = node_id
        self._first = core.store.next_id()
        """The numbers of transactions that this process begins are greater."""
        self._homes = homes
        self._runner = runner
        self._taken = taken
        self._undecided = undecided
        self._context = OperationContext(core.store)
        self._records: dict[Xid, BranchRecord] = {}
        """By branch: those that are committed, until their home has done so."""
        self._committing: set[Xid] = set()
        self._unknown: set[Xid] = set()
        """In doubt at their homes, and nobody can tell whether they were decided."""

    def __len__(self) -> int:
        return len(self._records) + len(self._unknown)

    def restore(self, record: BranchRecord) -> None:
        """A stored decision."""
        self._records[branch_of(record)] = record

    def add(self, branch: Xid) -> BranchRecord:
        """The branch is to be committed; the record has to be stored."""
        record = self._records[branch] = record_of(self._core, branch, BranchState.COMMITTED)
        return record

    # --- one branch

    def commit(self, branch: Xid) -> None:
        """The decision is durable: tell the home, if that can be done now."""
        home = self._home_of(branch)
        if home is not None:
            self._commit_at(home, branch)
        elif branch.branch_qualifier in self._nodes():
            self._end_here(branch, commit=True)
        else:
            self._look_around()

    def roll_back(self, branch: Xid) -> None:
        """The branch has no decision, and gets none: tell the home, if that can be done now."""
        home = self._home_of(branch)
        if home is not None:
            self._runner.spawn(self._roll_back(home, branch))
        elif branch.branch_qualifier in self._nodes():
            self._end_here(branch, commit=False)
        else:
            self._look_around()

    def _home_of(self, branch: Xid) -> Home | None:
        return next((home for home in self._homes.values() if node_id_bytes(home.node_id) == branch.branch_qualifier), None)

    def _nodes(self) -> set[bytes]:
        return {node_id_bytes(node_id) for node_id in self._taken.nodes}

    def _commit_at(self, home: Home, branch: Xid) -> None:
        if branch not in self._committing:
            self._committing.add(branch)
            self._runner.spawn(self._commit(home, branch))

    async def _commit(self, home: Home, branch: Xid) -> None:
        try:
            answer = await home.commit(branch, one_phase=False)
        except MQError:
            return  # asked again when the link is up
        finally:
            self._committing.discard(branch)
        if await self._ended(home, branch, answer, "commit"):
            self._core.turn.run(self._forget, branch)

    async def _roll_back(self, home: Home, branch: Xid) -> None:
        try:
            answer = await home.roll_back(branch)
        except MQError as error:
            # The branch has no decision: this broker asks the home for such ones when the link is up.
            log.debug("a branch at {home} could not be rolled back: {reason}", home=home.member.name, reason=str(error))
        else:
            await self._ended(home, branch, answer, "roll back")

    async def _ended(self, home: Home, branch: Xid, answer: XaResponse, wanted: str) -> bool:
        """Has the branch ended at its home?  Management may have ended it otherwise; that is logged, and the home may forget it."""
        if not answer.error or answer.response_code == XAER_NOTA:
            return True
        _tell_refusal(home.member.name, wanted, answer.message or "")
        if answer.response_code not in _BY_MANAGEMENT:
            return False
        try:
            await home.forget(branch)
        except MQError:
            return False  # asked again when the link is up
        return True

    def _forget(self, branch: Xid) -> None:
        """The home has committed."""
        record = self._records.pop(branch, None)
        if record is not None:
            batch = self._core.store.begin()
            batch.end_branch(record.branch_id, False)
            self._core.store.commit(batch)

    # --- branches in doubt

    def look_at(self, home: Home) -> None:
        """A link to a home is up: end its branches in doubt whose outcome is known here."""
        self._runner.spawn(self._look_at(home))

    def look_everywhere(self) -> None:
        """Data were taken over, here or elsewhere: branches may have come to another home, or to a coordinator."""
        self._look_here()
        self._look_around()

    def _look_around(self) -> None:
        for home in self._homes.values():
            self.look_at(home)

    async def _look_at(self, home: Home) -> None:
        own = node_id_bytes(home.node_id)
        elsewhere = {branch.branch_qualifier for branch in self._records} - {own}
        try:
            # First: what is missing in the list of a home that has everything of a node has ended there.
            there = await self._taken.at(home.node_id, elsewhere) if elsewhere else ()
            found = await home.in_doubt()
        except MQError:
            return  # the link is lost again
        self._core.turn.run(self._end, home, {own, *there}, found)

    def _end(self, home: Home, nodes: Collection[bytes], found: Iterable[Xid]) -> None:
        open_ones = self._undecided()
        mine = self._mine(found)
        for branch in mine:
            if branch in open_ones:
                continue
            if branch in self._records:
                self._commit_at(home, branch)
            elif self._has_no_decision(branch, home.member.name):
                self._runner.spawn(self._roll_back(home, branch))
        self._forget_ended(nodes, mine, open_ones)

    def _look_here(self) -> None:
        open_ones = self._undecided()
        for branch in self._mine(self._branches.in_doubt()):
            if branch not in open_ones and (branch in self._records or self._has_no_decision(branch, "this broker")):
                self._end_here(branch, commit=branch in self._records)
        self._forget_ended(self._nodes(), self._mine(self._branches.in_doubt()), open_ones)

    def _end_here(self, branch: Xid, *, commit: bool) -> None:
        try:
            if commit:
                self._branches.commit(branch, False, self._context)
            else:
                self._branches.rollback(branch)
        except XAError as error:
            if error.code is not XACode.UNKNOWN_XID:
                _tell_refusal("this broker", "commit" if commit else "roll back", str(error))
                if error.code not in (XACode.HEURISTIC_COMMIT, XACode.HEURISTIC_ROLLBACK):
                    return
                self._branches.forget(branch)
        # In the same store, and after the end of the branch.
        self._forget(branch)

    def _has_no_decision(self, branch: Xid, home: str) -> bool:
        """Is it sure that no decision is recorded?  An unreadable record may be that of a branch which this process has not begun."""
        coordinator, number = branch.global_transaction_id[:ID_LENGTH], branch.global_transaction_id[ID_LENGTH:]
        begun_here = coordinator == self._node_id and self._first < int.from_bytes(number, "big") < HASHED
        if begun_here or not self._branches.unreadable:
            return True
        if branch not in self._unknown:
            self._unknown.add(branch)
            log.error(
                "the branch {name} at {home} stays undecided: its decision to commit may be in a damaged record ({records}). Commit or "
                "roll back the branch at {home} (commitPreparedTransaction, rollbackPreparedTransaction); when no such branch is left, "
                "delete the record, and start this broker again",
                name=xid_base64(branch),
                home=home,
                records="; ".join(self._branches.unreadable[:RECORDS_NAMED]),
            )
        return False

    def _mine(self, found: Iterable[Xid]) -> set[Xid]:
        """The branches that this broker, or one that it has taken over, has begun.

        A branch with a decision is such a one, also while this broker does not know yet, or no longer, which nodes it has taken over.
        """
        nodes = self._nodes()
        ours = (xid for xid in found if xid.format_id == BRANCH_FORMAT)
        return {xid for xid in ours if xid in self._records or xid.global_transaction_id[:ID_LENGTH] in nodes}

    def _forget_ended(self, nodes: Collection[bytes], in_doubt: Collection[Xid], open_ones: Collection[Xid]) -> None:
        """The homes of these ``nodes`` have told which branches are in doubt: all others have ended."""
        self._unknown = {branch for branch in self._unknown if branch.branch_qualifier not in nodes or branch in in_doubt}
        ended = [branch for branch in self._records if branch.branch_qualifier in nodes and branch not in in_doubt]
        for branch in ended:
            if branch not in self._committing and branch not in open_ones:
                self._forget(branch)


def record_of(core: MessagingCore, branch: Xid, state: BranchState) -> BranchRecord:
    """The record that is stored of a branch at a home."""
    return BranchRecord(core.store.next_id(), branch._replace(format_id=COORDINATED_FORMAT), state, core.clock.wall_ms())


def branch_of(record: BranchRecord) -> Xid:
    """The branch of such a record."""
    return record.xid._replace(format_id=BRANCH_FORMAT)


def _tell_refusal(home: str, wanted: str, text: str) -> None:
    log.warn("{home} does not {wanted} the branch of a transaction: {text}", home=home, wanted=wanted, text=text)
