"""Faults planted in the real code, to show that the simulation finds them.

A plant replaces a few characters in the source of one function, and that function by the changed one.  When the code has moved, so that
the text is not there exactly once, nothing is planted and :class:`PlantError` says so.
"""

from __future__ import annotations

import importlib
import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any


class PlantError(Exception):
    """The code that a plant changes is not what it was."""


@dataclass(frozen=True, slots=True)
class Plant:
    """In ``function`` (module:Class.name) ``text`` becomes ``replacement``.

    ``symptoms``: one of them is in what the runs report.  ``seeds`` are run before the usual ones, where few runs come to the place.
    ``unit_test`` instead names the module of tests that finds the fault.
    """

    function: str
    text: str
    replacement: str
    symptoms: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    unit_test: str = ""


LOST = ("is lost", "was confirmed", "only a part", "took effect, but")

WOULD_BE_LOST = ("would be", "would not start")
"""After a loss of power."""

COUNTED = ("with delivery count", "is a dead letter")

PLANTS = {
    "": None,
    "acknowledge-before-sync": Plant(
        "mqbroker.storage.tickets:Tickets.when_synced",
        "if ticket <= self.synced and not self._waiters:",
        "if True:",
        (*LOST, "is still in doubt", "the recovery does not name them"),
    ),
    "half-a-transaction": Plant(
        "mqclient.storageformat.images:LogImage.records",
        "for record in decode_records(frame.content):",
        "records = list(decode_records(frame.content))\nfor record in records[: len(records) // 2] if len(records) > 3 else records:",
        (*LOST, "the next id would be"),
    ),
    "credit-leak": Plant(
        "mqbroker.server.session.consumers:ServerConsumer.grant",
        "self.credits += credits",
        "self.credits += credits // 2",
        ("does not get message", "does not end", "does not answer", "were granted"),
    ),
    "compaction-loses-a-record": Plant(
        "mqbroker.storage.files.journal.compaction:Compactor._move_messages",
        "parts += _moved(key, references, self._addresses, self._index.branch_of(key))",
        "parts += _moved(key, references, self._addresses, self._index.branch_of(key)) if key.message_id % 2 else [b'']",
        LOST,
    ),
    "page-dropped": Plant(
        "mqclient.storageformat.page_state:StoredPages.drop_unrouted",
        "if page.address is None or not page.needed:",
        "if page.address is None or not page.needed or number % 3 == 0:",
        LOST,
    ),
    "duplicate-ids-forgotten": Plant(
        "mqbroker.messaging.messaging:Messaging.restore",
        "restore_duplicate_ids(core, found.duplicate_ids)",
        "restore_duplicate_ids(core, ())",
        ("was stored twice", "was in its queue", "was sent to", "would be stored", "would be forgotten", "would be back in"),
    ),
    "looked-up-commit-is-not-taken": Plant(
        "mqclient.core.once.outcomes:_Claims.claim",
        "for each in ids:",
        "for each in ids[1:]:",
        (*LOST, *WOULD_BE_LOST, "it is not known what became"),
    ),
    "half-an-upload-stays": Plant(
        "mqbroker.server.session.sends:SessionSends.close",
        "self._abandon_upload()",
        "pass",
        ("accounts for", "bodies of large messages are left"),
    ),
    "half-read-body-keeps-credits": Plant(
        "mqclient.core.message:LargeBody.__aiter__",
        "self.discard()",
        "pass",
        ("does not answer", "does not get message", "were granted"),
    ),
    "rolled-back-keeps-credits": Plant(
        "mqclient.core.consuming.arrivals:Arrivals.taken_back",
        "self._return_credits(message)",
        "pass",
        ("were granted", "does not answer", "does not get message"),
    ),
    "dead-client-keeps-messages": Plant(
        "mqbroker.server.session.session_consumers:SessionConsumers._settle_removed",
        "settlement.redeliver(references)",
        "pass",
        (*LOST, "messages, waiting", "accounts for", "account for"),
    ),
    "batch-acknowledges-its-first": Plant(
        "mqclient.core.consuming.acks:Acknowledger.cumulative",
        "self._batch_last = message",
        "self._batch_last = self._batch_last or message",
        LOST,
    ),
    "sent-but-not-forgotten": Plant(
        "mqbroker.server.session.consumers:ServerConsumer._handle_acknowledged",
        "self.session.server.messaging.settlement.acknowledge((reference,))",
        "reference.queue.leave_delivery(reference)",
        ("was to forget it", "accounts for", "are back"),
    ),
    "rollback-does-not-count": Plant(
        "mqbroker.messaging.delivery.settlement:Settlement.rollback",
        "self.redeliver(",
        "self.cancel(",
        COUNTED,
    ),
    "prefetched-counts": Plant(
        "mqbroker.server.session.session_consumers:SessionConsumers.take_back",
        "prefetched.extend(references)",
        "consumed.extend(references)",
        COUNTED,
    ),
    "count-not-written": Plant(
        "mqbroker.messaging.delivery.settlement:Settlement._give_back",
        "if limit < 0 or reference.recorded_counts < limit:",
        "if False:",
        COUNTED,
    ),
    "one-attempt-more": Plant(
        "mqbroker.messaging.delivery.settlement:Settlement._give_back",
        "if 0 < settings.max_delivery_attempts <= count and",
        "if 0 < settings.max_delivery_attempts < count and",
        COUNTED,
    ),
    "dead-letter-lost": Plant(
        "mqbroker.messaging.delivery.settlement:Settlement._give_back",
        "self.kill(reference)",
        "reference.queue.leave_delivery(reference)",
        (*LOST, *COUNTED),
    ),
    "last-one-not-counted": Plant(
        "mqbroker.server.session.session_consumers:SessionConsumers.take_back",
        "if keep_first_counts and references:",
        "if False:",
        COUNTED,
    ),
    "failed-start-keeps-the-lock": Plant(
        "mqbroker.node.life:BrokerLife.activate",
        "store.withdraw()",
        "pass",
        ("does not start", "a start that was refused leaves"),
    ),
    "individual-acknowledges-all-before": Plant(
        "mqclient.core.consuming.acks:Acknowledger.individual",
        "self._send(IndividualAcknowledge(self._consumer.id, message.message_id))",
        "self._send(Acknowledge(self._consumer.id, message.message_id))",
        (*LOST, "IllegalStateError"),
    ),
    "cumulative-acknowledges-one": Plant(
        "mqbroker.server.session.acknowledgements:SessionAcknowledgements._settle",
        "ticket = 0",
        "references, ticket = references[-1:], 0",
        (*LOST, *COUNTED, "is left", "messages, waiting"),
    ),
    "turn-ends-without-writing": Plant(
        "mqbroker.storage.files.journal.journal:Journal.write_at_end_of",
        "turn.ended.subscribe(self.flush)",
        "pass",
        ("does not answer", "does not end", "is never told"),
    ),
    "body-not-synced": Plant(
        "mqbroker.storage.files.largebodies:LargeBodies.sync_steps",
        "return [partial(self._sync_file, body), partial(self._file_system.sync_directory, self._directory)]",
        "return []",
        ("would be damaged", "was damaged", "would not start", "is damaged", "missing"),
    ),
    "page-not-synced": Plant(
        "mqbroker.storage.files.pages.disk:PageDisk.write_steps",
        "if sync:",
        "if sync and begins:",
        ("would not start", "does not start", "is lost", "has failed"),
    ),
    "name-not-synced": Plant(
        "mqbroker.storage.files.journal.segments:SegmentLog._publish",
        "self._file_system.sync_directory(self.directory)",
        "pass",
        ("would not start", "would be lost", "would be back", "would be there", "does not start", *LOST),
    ),
    "folder-not-synced": Plant(
        "mqbroker.storage.files.folders:make_folder",
        "file_system.sync_directory(_parent(path))",
        "pass",
        ("would not start", "would be", "the node id", *LOST),
    ),
    "schedule-lost-in-compaction": Plant(
        "mqbroker.storage.files.journal.compaction:_moved",
        "if scheduled:",
        "if scheduled and count:",
        ("would be due", "before its time", "would be lost"),
    ),
    "second-frame-without-its-bodies": Plant(
        "mqbroker.storage.files.journal.journal:Journal._steps",
        "for group in groups for body in group.bodies",
        "for group in groups[:1] for body in group.bodies",
        ("would be damaged", "was damaged", "would not start", "does not start", "missing"),
    ),
    "due-too-early": Plant(
        "mqbroker.messaging.queues.queue:Queue.add_read",
        "reference.scheduled > self.clock.wall_ms()",
        "reference.scheduled > self.clock.wall_ms() + 1500",
        ("before its time",),
    ),
    "arriving-not-settled": Plant(
        "mqbroker.messaging.delivery.settlement:Settlement._undo_sends",
        "reference.queue.arriving -= 1",
        "pass",
        ("arriving",),
    ),
    "needed-bytes-miscounted": Plant(
        "mqbroker.storage.files.journal.live:LiveIndex._delete",
        "owner.live_bytes -= len(owner.live.pop(key))",
        "owner.live.pop(key)",
        ("bytes that are needed",),
    ),
}

STOP_PLANTS = {
    "": None,
    "stop-loses-what-was-answered": Plant(
        "mqbroker.storage.files.filestore:FileStore.stop",
        "encode_trim(journal.messages.first)",
        "encode_trim(journal.messages.first + 1)",
        LOST,
    ),
    "scale-down-takes-silence-for-an-answer": Plant(
        "mqbroker.ha.moving:QueueMove._answered",
        "self._stays(run, [references[index] for index in sorted(unanswered)])",
        "self._settled += [references[index] for index in sorted(unanswered)]",
        (*LOST, "would be lost"),
        seeds=(546, 579, 612, 645, 729, 792),
    ),
    "scale-down-forgets-duplicate-ids": Plant(
        "mqbroker.ha.scale_down:ScaleDown._move_duplicate_ids",
        "await move.move(cache)",
        "pass",
        ("duplicate ids of",),
    ),
}
"""Those of orderly stops and scale-down."""

LATE_PLANTS = {
    "": None,
    "queue-does-not-wait-for-a-page": Plant(
        "mqbroker.messaging.queues.queue_pages:QueuePages.read_piece",
        "pending.when_there(partial(self._core.turn.run, self._there))",
        "pass",
        ("does not answer", "does not get message"),
    ),
    "delivery-does-not-wait-for-a-body": Plant(
        "mqbroker.server.session.large_delivery:LargeDelivery.advance",
        "pending.when_there(self._chunk_came)",
        "pass",
        ("does not answer", "does not get message"),
    ),
}
"""Those of a store that answers later."""

CLUSTER_PLANTS = {
    "": None,
    "bridge-ids-forgotten": Plant(
        "mqbroker.cluster.links.outgoing:StoreAndForward.__call__",
        "if self._duplicate_id is None:",
        "if True:",
        ("was in its queue", "was acknowledged 2 times", "was sent to", "would be stored", "is lost", "would be lost"),
    ),
    "backlog-dropped-at-reconnect": Plant(
        "mqbroker.cluster.links.forwarder:Forwarder.detach",
        "self._settlement.cancel(returned)",
        "self._settlement.acknowledge(returned)",
        LOST,
    ),
    "remote-queue-kept": Plant(
        "mqbroker.cluster.remote_queues.flow:Flow._binding_removed",
        "self._remove(binding)",
        "pass",
        ("which is not there",),
    ),
    "moved-before-stored": Plant(
        "mqbroker.messaging.delivery.redistribution:_Redistributor.deliver",
        "kept, waiting = core.paging.store(batch, copy, references)",
        "kept, waiting = core.paging.store(core.store.begin(), copy, references)",
        LOST,
    ),
    "group-decided-alone": Plant(
        "mqbroker.cluster.grouping.remote_grouping:RemoteGrouping.decide",
        "pending = self._propose(key, name)",
        "self._propose(key, name)\nreturn name",
        ("at a time",),
    ),
    "consumer-that-left-is-counted": Plant(
        "mqbroker.messaging.routing.remote:RemoteBinding.consumer_removed",
        "elif self.attention is Attention.EVERY_MESSAGE:",
        "elif self.consumer_count > 1:",
        ("consumers of", "stranded"),
    ),
}
"""Those that it takes several brokers to find."""

HA_PLANTS = {
    "": None,
    "epoch-not-read": Plant(
        "mqbroker.storage.files.journal.journal:Journal.__init__",
        "self._checks: list[Step] = [claim.check] if claim.token else []",
        "self._checks: list[Step] = []",
        ("acknowledges what it has synced after", *LOST),
    ),
    "former-holder-publishes-over-the-new-one": Plant(
        "mqbroker.storage.files.journal.segments:SegmentLog._publish",
        "self._file_system.rename_new(path, segment.path)",
        "self._file_system.rename(path, segment.path)",
        ("a former holder, replaces", *LOST),
    ),
    "former-holder-writes-the-state": Plant(
        "mqbroker.ha.shared_store.place:SharedPlace.leave",
        "self.check()",
        "pass",
        ("a former holder, writes the state",),
    ),
    "taken-without-an-epoch": Plant(
        "mqbroker.ha.shared_store.place:SharedPlace._take",
        "self._locks.begin()",
        "if self._found != STATE_ACTIVE:\n    self._locks.begin()\nelse:\n"
        "    epoch = self._locks._epoch\n"
        "    epoch._own = epoch._file_system.read(epoch._path)\n"
        "    epoch.number = int.from_bytes(epoch._own[:8], 'big')",
        ("has not told former holders", "although it has not taken the folder", *LOST),
    ),
}
"""Those of brokers that share a store, of which one is active."""

PAIR_PLANTS = {
    "": None,
    "acknowledged-before-the-replica": Plant(
        "mqbroker.storage.mirror.feed:ReplicaFeed._hold",
        "while self._kept and self._kept[0][0] <= self._answered:",
        "while self._kept:",
        (*LOST, *WOULD_BE_LOST),
    ),
    "replica-answers-before-its-sync": Plant(
        "mqbroker.storage.mirror.replica_folder:ReplicaFolder.__init__",
        "Sync: lambda change: self._files[change.handle].sync(),",
        "Sync: lambda change: None,",
        (*LOST, *WOULD_BE_LOST),
    ),
    "voter-grants-twice": Plant(
        "mqbroker.ha.proof.voter:Voter._consider",
        "consider(before or Held(), question)",
        "consider(Held(), question)",
        ("has acted at", *LOST, *WOULD_BE_LOST),
    ),
    "giving-up-not-durable": Plant(
        "mqbroker.ha.proof.copy_keeper:CopyKeeper.give_up",
        "return self._change(lambda record: record.gave_up(diverged))",
        "self.record = self._next = self._next.gave_up(diverged)\nreturn succeed(self.record)",
        ("has acted at", *LOST, *WOULD_BE_LOST),
    ),
    "incomplete-copy-activates": Plant(
        "mqbroker.storage.mirror.feed:ReplicaFeed.answered",
        "if end and not self._is_copied and number >= end:",
        "if not self._is_copied:",
        ("damaged at", *LOST, *WOULD_BE_LOST),
    ),
    "copy-noted-too-late": Plant(
        "mqbroker.ha.proof.copy_keeper:CopyKeeper.note",
        "return self._change(lambda record: record.noted(other))",
        "self.record = self._next = self._next.noted(other)\nreturn succeed(self.record)",
        ("has acted at", *LOST, *WOULD_BE_LOST),
    ),
}
"""Those of pairs that replicate."""

LOCK_PLANTS = {
    "": None,
    "lock-alone-is-proof": Plant(
        "mqbroker.ha.locks.claims:standing",
        "else Standing.STALE",
        "else Standing.NEWEST",
        ("has acted at", *LOST, *WOULD_BE_LOST),
    ),
    "claim-taken-for-a-commit": Plant(
        "mqbroker.ha.proof.sequence:LockSource.commit",
        "self._locks.commit(sequence, done)",
        "done(True)",
        ("has acted at", "are active", *LOST, *WOULD_BE_LOST),
    ),
}
"""Those of pairs with a lock manager."""

COLOCATED_PLANTS = {
    "": None,
    "lost-host-not-replaced": Plant(
        "mqbroker.ha.colocated.requesting:HostSearch._stay",
        "self._pause.end()",
        "pass",
        ("nobody hosts the backup of",),
        seeds=(5,),
    ),
    "kept-copies-forgotten": Plant(
        "mqbroker.colocation:Colocation._find_kept",
        "if self._settings.configuration.replication is None:",
        "if True:",
        ("are active",),
        seeds=(26,),
    ),
    "waiting-backup-forgotten": Plant(
        "mqbroker.cluster.membership.topology:ClusterTopology._backed_up",
        "if waiting.node_id == member.node_id and",
        "if False and",
        ("knows of no backup", "does not get its place back"),
        seeds=(64,),
    ),
}
"""Those of brokers that host each other's backups."""

NETWORK_PLANTS = {
    "": None,
    "silence-taken-for-an-answer": Plant(
        "mqbroker.ha.network_check.monitor:NetworkCheck._found_silence",
        "self._found(isolated=True)",
        "self._found(isolated=False)",
        ("its network check has had no answer",),
    ),
}
"""Those of brokers with a network check."""

HOME_PLANTS = {
    "": None,
    "acknowledged-without-its-home": Plant(
        "mqbroker.imq.delivery.delivery:_Confirming.answered",
        "self.failure = self.failure or failure",
        "pass",
        LOST,
        (6,),
    ),
    "rolled-back-and-not-given-back": Plant(
        "mqbroker.imq.delivery.coordination:Coordination.rolled_back",
        "consumer.begin_again(references)",
        "pass",
        ("are stranded", *LOST),
    ),
    "decision-not-stored": Plant(
        "mqbroker.imq.delivery.coordination:Coordination.decide",
        "batch.put_branch(self.decisions.add(branch))",
        "self.decisions.add(branch)",
        (*LOST, *WOULD_BE_LOST),
        (104,),
    ),
    "made-before-it-is-on-record": Plant(
        "mqbroker.imq.definitions.registrar:HomeRegistrar.agree",
        "raise Undecided(waiter.functions.append, lambda: self._withdraw(change, waiter))",
        "return",
        ("is gone, which was created", "would be gone, which was created", " lacks ", "before this life"),
        (9,),
    ),
}
"""Those of home brokers."""

DATABASE_PLANTS = {
    "": None,
    "owner-not-checked": Plant(
        "mqbroker.storage.sql.session:StoreSession.write",
        "if connection.run(statement, (batch, self.number, self.owner, self.epoch)) != 1:",
        "if connection.run(statement, (batch, self.number, self.owner, self.epoch)) > 1:",
        ("acknowledges transaction",),
    ),
    "lost-answer-taken-for-a-failure": Plant(
        "mqbroker.storage.sql.sqlstore:SqlStore._transaction",
        "if again and self._session.last_batch(connection) >= batch:",
        "if again and self._session.last_batch(connection) > batch:",
        ("the store has failed", *LOST),
        (24,),
    ),
    "block-of-ids-given-twice": Plant(
        "mqbroker.storage.sql.session:draw_ids",
        "return following - count",
        "return max(following - 2 * count, 1)",
        ("the next id would be", "message id", "the store has failed", *WOULD_BE_LOST),
    ),
    "ticket-before-the-commit": Plant(
        "mqbroker.storage.sql.sqlstore:SqlStore._submit",
        "self._bodies.flush()",
        "self.own.hold(ticket)\nself._bodies.flush()",
        ("acknowledges transaction", *LOST),
    ),
    "bodies-stay": Plant(
        "mqbroker.storage.sql.work:Work.run",
        "if self.bodies:",
        "if False:",
        ("are left in the table of body",),
    ),
}
"""Those of a broker on a database."""

DATABASE_PAIR_PLANTS = {
    "": None,
    "lease-not-renewed": Plant(
        "mqbroker.ha.shared_store.lease:RenewedLease.renew_from_now_on",
        "self._beat.start(self._terms.renew_period, self.renew, self._renewing.close)",
        "pass",
        ("takes the data, although",),
    ),
    "refused-work-taken-for-durable": Plant(
        "mqbroker.storage.sql.sqlstore:SqlStore._written",
        "if error is not None:",
        "if False:",
        ("acknowledges transaction",),
        (34,),
    ),
    "batch-of-the-former-owner": Plant(
        "mqbroker.storage.sql.session:take",
        "SET owner = ?, epoch = ?, batch = 0 WHERE",
        "SET owner = ?, epoch = ? WHERE",
        (*LOST, *WOULD_BE_LOST, "is still in doubt", "took effect"),
        (263, 281, 315),
    ),
}
"""Those of a primary and its backups on one database."""

PEER_PLANTS = {
    "": None,
    "made-before-it-is-on-record": replace(HOME_PLANTS["made-before-it-is-on-record"], seeds=(179,)),
    "record-not-followed": Plant(
        "mqbroker.imq.master.recording:Recording.answer_record_has",
        "generation != self.standing.generation or int(position) > self.standing.position",
        "generation != self.standing.generation",
        (" lacks ",),
    ),
}
"""Those of home brokers whose change record is in a database."""

ENHANCED_PLANTS = {
    "": None,
    "stamp-not-compared": Plant(
        "mqbroker.imq.enhanced.watch:Watch._is_dead",
        "suspect is None or suspect.stamp != row.stamp",
        "suspect is None",
        ("which has done nothing wrong",),
        (3,),
    ),
    "taken-over-and-not-read": Plant(
        "mqbroker.messaging.messaging:Messaging.adopt",
        "self._join(recovered.inherited, None)",
        "self._join(recovered.inherited[1:], None)",
        ("are left in the table of", *LOST),
        (6,),
    ),
    "own-messages-before-inherited": Plant(
        "mqbroker.storage.sql.reader:SqlPageReader.read",
        "source = share.source",
        "source = next((each for each in reversed(share.sources) if each.unread > 0), share.own)",
        (" got ", *LOST),
        (144, 193),
    ),
    "taken-over-without-its-branches": Plant(
        "mqbroker.messaging.messaging:Messaging.adopt",
        "self.branches.restore(part.found, queues, held, duplicate_ids)",
        "pass",
        ("are left in the table of", "is stranded", "are stranded", *LOST, *WOULD_BE_LOST),
        (10,),
    ),
    "inherited-not-read-at-a-start": Plant(
        "mqbroker.storage.sql.sqlstore:SqlStore._load",
        "*session.inherited(connection, own, self._broker_id)",
        "",
        WOULD_BE_LOST,
    ),
}
"""Those of enhanced clusters."""

RUN_PLANTS = {
    **PLANTS,
    **DATABASE_PLANTS,
    **DATABASE_PAIR_PLANTS,
    **PEER_PLANTS,
    **ENHANCED_PLANTS,
    **STOP_PLANTS,
    **LATE_PLANTS,
    **CLUSTER_PLANTS,
    **HA_PLANTS,
    **PAIR_PLANTS,
    **LOCK_PLANTS,
    **COLOCATED_PLANTS,
    **NETWORK_PLANTS,
    **HOME_PLANTS,
}
"""Those that runs of some kind find."""

UNIT_PLANTS = {
    "former-life-taken-over": Plant(
        "mqbroker.imq.definitions.estate:ended_since",
        "or own.has_later(record.name, other)",
        "",
        unit_test="tests.unit.imq.definitions.test_estate",
    ),
    "remote-message-in-the-own-store": Plant(
        "mqbroker.imq.delivery.delivery:Delivery.acknowledge",
        "return others",
        "return references",
        unit_test="tests.unit.imq.delivery.test_delivery",
    ),
    "content-forgotten-too-early": Plant(
        "mqbroker.imq.delivery.contents:Contents.settled",
        "self._settled.add(home_id)",
        "del self._kept[home_id]",
        unit_test="tests.unit.imq.delivery.test_contents",
    ),
    "core-bridge-ids-forgotten": Plant(
        "mqbroker.cluster.links.outgoing:CoreBridgeMessages.__call__",
        "if self._duplicate_id is not None:",
        "if False:",
        unit_test="tests.unit.cluster.test_core_bridge",
    ),
    "lost-lock-not-noticed": Plant(
        "mqbroker.ha.shared_store.folder:FolderLocks.check_lock",
        'raise FencedError(f"{self._directory}: the lock of {PRIMARY_LOCK_FILE} is lost")',
        "pass",
        unit_test="tests.unit.ha.shared_store.test_folder",
    ),
    "group-of-nobody": Plant(
        "mqbroker.messaging.queues.groups:MessageGroups._choose",
        "owner = None if slot is None else self._owners.get(slot)",
        "owner = None",
        unit_test="tests.unit.messaging.queues.test_groups",
    ),
    "unknown-taken-for-false": Plant(
        "mqbroker.messaging.filters.compile:_Compiler._like",
        "if value is None:",
        "if False:",
        unit_test="tests.unit.messaging.filters.test_values",
    ),
    "repeated-send-goes-to-another-node": Plant(
        "mqclient.core.factories.one_node:OneNode.check",
        "if holding and self._node_id is not None and found != self._node_id:",
        "if False:",
        unit_test="tests.unit.mqclient.core.factories.test_one_node",
    ),
    "late-commit-is-taken": Plant(
        "mqbroker.messaging.delivery.settlement:Settlement._refuse_failed",
        "if any(cache.knows_any(duplicate_ids) for cache, duplicate_ids in transaction.duplicate_ids.items()):",
        "if False:",
        unit_test="tests.unit.messaging.routing.test_duplicates_sent",
    ),
    "newest-duplicate-id-dropped": Plant(
        "mqbroker.messaging.routing.duplicates:DuplicateIdCache._drop_oldest",
        "self._ids.popitem(last=False)",
        "self._ids.popitem(last=True)",
        unit_test="tests.unit.messaging.routing.test_duplicates",
    ),
    "ring-takes-one-more-back": Plant(
        "mqbroker.messaging.queues.ring:Ring.takes_back",
        "self._queue.references.count < self.size",
        "self._queue.references.count <= self.size",
        unit_test="tests.unit.messaging.queues.test_ring",
    ),
    "acknowledged-before-the-second-condition": Plant(
        "mqbroker.storage.tickets:Tickets.settle",
        "min(condition.reached for condition in self.conditions) if len(self.conditions) > 1 else self.own.reached",
        "self.own.reached",
        unit_test="tests.unit.storage.test_tickets",
    ),
    "older-value-replaces": Plant(
        "mqbroker.messaging.queues.last_values:LastValueQueue._came",
        "if newest is not None and newest.message.message_id > reference.message.message_id:",
        "if False:",
        unit_test="tests.unit.messaging.queues.test_last_values",
    ),
    "permission-outlives-its-settings": Plant(
        "mqbroker.server.security.permissions:SessionPermissions.check",
        "if self._version != security.version or len(self._allowed) >= REMEMBERED_MAX:",
        "if len(self._allowed) >= REMEMBERED_MAX:",
        unit_test="tests.unit.server.security.test_permissions",
    ),
    "pauses-are-not-counted": Plant(
        "mqbroker.server.transport.connection:ServerConnection._resume_frames",
        "self._pauses -= 1",
        "self._pauses = 0",
        unit_test="tests.unit.server.transport.test_connection_session",
    ),
    "redelivery-delay-not-limited": Plant(
        "mqbroker.messaging.delivery.settlement:redelivery_delay",
        "base * 10 if limit is None or limit < 0 else limit",
        "delay if limit is None or limit < 0 else limit",
        unit_test="tests.unit.messaging.delivery.test_settlement",
    ),
    "departed-member-comes-back": Plant(
        "mqclient.protocol.topology:Topology.up",
        "if left is not None and member.unique_event_id and member.unique_event_id <= left:",
        "if False:",
        unit_test="tests.unit.cluster.membership.test_topology",
    ),
    "refusal-outlives-its-grant": Plant(
        "mqclient.protocol.credits:ProducerCredits.granted",
        "self.take_refusal()",
        "pass",
        unit_test="tests.unit.mqclient.protocol.test_credits",
    ),
    "less-specific-setting-wins": Plant(
        "mqbroker.config.model.matching:HierarchicalRepository._compare",
        "return len(other) - len(one) or _order(one, other)",
        "return len(one) - len(other) or _order(one, other)",
        unit_test="tests.unit.config.model.test_matching",
    ),
    "message-moved-back": Plant(
        "mqbroker.messaging.delivery.redistribution:Redistribution.consumer_appeared",
        "binding.appeared = self.core.store.next_id()",
        "pass",
        unit_test="tests.unit.messaging.delivery.test_redistribution",
    ),
    "group-decision-not-kept": Plant(
        "mqbroker.cluster.grouping.local_grouping:LocalGrouping._decide",
        "batch.put_setting(KEPT_KIND, key, json.dumps(name))",
        "pass",
        unit_test="tests.unit.cluster.grouping.test_local_grouping",
    ),
    "expired-by-the-wrong-address": Plant(
        "mqbroker.messaging.delivery.settlement:Settlement.expire",
        "if reference.message.address != queue.definition.address:",
        "if False:",
        unit_test="tests.unit.messaging.delivery.test_settlement",
    ),
    "former-link-goes-on": Plant(
        "mqbroker.server.session.sessions:Sessions.end_former_link",
        'self.end_links(node_id, f"member {node_id} has made a new link", session.connection)',
        "pass",
        unit_test="tests.unit.server.session.test_link_consumers",
    ),
}
"""Those that unit tests find: runs seldom come to the place, or what follows could have another cause there."""


@contextmanager
def planted(name: str) -> Iterator[None]:
    """The code with a fault in it; "" leaves it as it is."""
    restore = put(name)
    try:
        yield
    finally:
        restore()


def put(name: str) -> Callable[[], object]:
    """Change the code; returns what changes it back."""
    plant = {**RUN_PLANTS, **UNIT_PLANTS}[name]
    if plant is None:
        return lambda: None
    owner, attribute, function = _find(plant.function)
    setattr(owner, attribute, _changed(plant, function))
    return lambda: setattr(owner, attribute, function)


def is_compiled(plant: Plant) -> bool:
    """Is the function native code, so that there is no source to change?"""
    return not inspect.isfunction(_find(plant.function)[2])


def _find(name: str) -> tuple[Any, str, Any]:
    module, _, path = name.partition(":")
    *outer, attribute = path.split(".")
    try:
        owner = importlib.import_module(module)
        for part in outer:
            owner = getattr(owner, part)
        return owner, attribute, vars(owner)[attribute]
    except (ImportError, AttributeError, KeyError) as error:
        raise PlantError(f"{name} is not there any more: {error!r}; find where its work is done now") from error


def _changed(plant: Plant, function: Any) -> Any:
    source = textwrap.dedent(inspect.getsource(function))
    if source.count(plant.text) != 1:
        raise PlantError(f"{plant.function} has {plant.text!r} {source.count(plant.text)} times; it was once when the fault was thought up")
    line = next(line for line in source.splitlines() if plant.text in line)
    indent = line[: len(line) - len(line.lstrip())]
    changed = source.replace(plant.text, plant.replacement.replace("\n", "\n" + indent))
    if function.__code__.co_freevars:
        raise PlantError(f"{plant.function} uses names from around it, and cannot be compiled by itself")
    space: dict[str, Any] = {}
    exec(compile(changed, f"<{plant.function} with a fault>", "exec"), function.__globals__, space)
    return space[function.__name__]
