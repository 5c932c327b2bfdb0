"""What the chapter promises of enhanced clusters: who fails is taken over, with messages, subscriptions, transactions and clients."""

from __future__ import annotations

import time

from tests.interop.imq import master_scenarios
from tests.interop.imq.clusters import COUNT
from tests.interop.imq.stage import TAKEN_SECONDS, WAIT_MS, Stage
from tests.interop.puppet import NOTHING_MS, TEMPORARY

MANY = 50
LATER = 1000
"""Numbers from here on are of messages that were sent after a takeover."""
AWAY_SECONDS = 15.0


def takeover(stage: Stage) -> None:
    """A broker is killed: another one has its messages, in order, and its clients go on there; then that one is killed, too."""
    java = stage.java
    stage.follow("client", 0, "taken-client")
    java.consume("sub", "client", "topic://taken.news", subscription="sub")
    java.send("client", "queue://taken", MANY)
    java.send("client", "topic://taken.news", MANY)
    taker = stage.take_over(0)
    stage.send_at_last("client", "queue://taken", LATER)
    assert java.take_all("sub", MANY) == list(range(MANY))
    java.consume("all", "client", "queue://taken")
    found = java.take_all("all", MANY + 1)
    assert found[:MANY] == list(range(MANY)) and set(found[MANY:]) == {LATER}, found
    java.close("all")
    java.send("client", "queue://taken", MANY)
    stage.cluster.kill(taker)
    last = 3 - taker
    assert stage.until_taken_over(taker, witness=last) == last
    stage.send_at_last("client", "queue://taken", LATER)
    java.consume("all", "client", "queue://taken")
    found = java.take_all("all", MANY + 1)
    assert found[:MANY] == list(range(MANY)) and set(found[MANY:]) == {LATER}, found


def load(stage: Stage) -> None:
    """A broker is killed while a client sends without a pause: what was answered is there once."""
    java = stage.java
    stage.follow("client", 0)
    sending = java.begin("load", "loading", on="client", to="queue://loaded")
    stage.cluster.until(lambda: java.do("progress", "look", load="loading") > MANY, "messages are sent")
    stage.take_over(0)
    before = java.do("progress", "look", load="loading")
    stage.cluster.until(lambda: java.do("progress", "look", load="loading") > before + MANY, "the client goes on", TAKEN_SECONDS)
    java.do("enough", "look", load="loading")
    answered = java.end(sending)
    stage.connect("reader", 1)
    java.consume("reading", "reader", "queue://loaded")
    found = stage.take_expected("reading", set(answered), 2000)
    assert set(answered) <= set(found), sorted(set(answered) - set(found))
    unknown = len(found) - len(answered)
    assert len(set(found)) == len(found) and unknown <= COUNT, (unknown, len(found) - len(set(found)))


def unacknowledged(stage: Stage) -> None:
    """What a client of the lost broker had not acknowledged comes again, and only that."""
    java = stage.java
    stage.follow("client", 0)
    java.send("client", "queue://held", 6)
    java.consume("holding", "client", "queue://held", acknowledge="client")
    assert java.take("holding", 2, WAIT_MS) == [0, 1]
    java.do("acknowledge", "holding")
    assert java.take("holding", 2, WAIT_MS) == [2, 3]
    stage.take_over(0)
    stage.send_at_last("client", "queue://elsewhere", 0)
    stage.seen["`acknowledge()` of messages whose broker was taken over"] = stage.failure(lambda: java.do("acknowledge", "holding"))
    stage.seen["`receive()` after that, before `recover()`"] = stage.failure(lambda: java.take("holding", 1, NOTHING_MS))
    java.do("recover", "holding")
    found = stage.take_expected("holding", {4, 5}, 2000)
    assert set(found) >= {4, 5} and set(found) <= {2, 3, 4, 5}, found
    stage.seen["messages that come again then, of two"] = str(len({2, 3} & set(found)))


def transactions_in_flight(stage: Stage) -> None:
    """A transaction that was not committed is rolled back: nothing of it is there, what it has consumed comes again."""
    java = stage.java
    stage.follow("client", 0)
    java.send("client", "queue://flight.work", 4)
    java.do("transacted", "tx", on="client")
    java.consume("work", "client", "queue://flight.work", within="tx")
    assert java.take("work", 2, WAIT_MS) == [0, 1]
    java.send("tx", "queue://flight.result", 2)
    stage.take_over(0)
    stage.send_at_last("client", "queue://elsewhere", 0)
    stage.seen["`commit()` of a transaction whose broker was taken over"] = stage.failure(lambda: java.do("commit", "tx"))
    assert java.take("work", 4, WAIT_MS) == [0, 1, 2, 3]
    java.send("tx", "queue://flight.result", 1, first=7)
    java.do("commit", "tx")
    java.consume("result", "client", "queue://flight.result")
    assert java.take_all("result", 1) == [7]


def transactions_over_homes(stage: Stage) -> None:
    """A transaction of another broker that holds a message of the lost one is rolled back, and its messages come again."""
    java = stage.java
    stage.connect_all()
    java.send("c0", "queue://homes.work", 1)
    java.send("c1", "queue://homes.work", 1, first=1)
    java.do("transacted", "tx", on="c2")
    java.consume("work", "c2", "queue://homes.work", within="tx")
    assert sorted(java.take("work", 2, WAIT_MS)) == [0, 1]
    java.send("tx", "queue://homes.result", 1)
    taker = stage.take_over(0)
    outcome = stage.failure(lambda: java.do("commit", "tx"))
    stage.seen["`commit()` of a transaction that has consumed from a broker which was taken over"] = outcome
    if outcome != "none":
        java.do("rollback", "tx")
    java.close("c2")
    stage.connect("reader", taker)
    java.consume("left", "reader", "queue://homes.work")
    java.consume("result", "reader", "queue://homes.result")
    committed: list[int] = []
    left: list[int] = []

    def all_came() -> bool:
        committed.extend(java.take("result", 1, 2000))
        left.extend(java.take("left", 2, 2000))
        return bool(committed) or len(left) > 1

    stage.cluster.until(all_came, "messages of the transaction come")
    left.sort()
    assert (committed, left) in (([], [0, 1]), ([0], [])), (committed, left)


def prepared_branches(stage: Stage) -> None:
    """A prepared branch waits at the taker for the word of its transaction manager; one that was not prepared is gone."""
    java = stage.java
    stage.connect("manager", 0, xa=True)
    for name in ("first", "second", "third"):
        java.send("manager", f"queue://work.{name}", 3)
        java.do("branch", name, on="manager", xid=f"{stage.cluster.name}-{name}")
        java.consume(f"work-{name}", "manager", f"queue://work.{name}", within=name)
        taken = java.take(f"work-{name}", 2, WAIT_MS)
        assert taken == [0, 1], (name, taken)
        java.send(name, f"queue://result.{name}", 2)
    for name in ("first", "second"):
        java.do("prepare", name, xid=f"{stage.cluster.name}-{name}")
    taker = stage.take_over(0)
    stage.connect("again", taker, xa=True)
    stage.cluster.until(
        lambda: sorted(java.do("prepared", "look", on="again")) == [f"{stage.cluster.name}-{name}" for name in ("first", "second")],
        "the prepared branches are at the taker",
    )
    java.do("finish", "end", on="again", xid=f"{stage.cluster.name}-first", commit=True)
    java.do("finish", "end", on="again", xid=f"{stage.cluster.name}-second", commit=False)
    assert java.do("prepared", "look", on="again") == []
    stage.connect("reader", 3 - taker)
    for name, work, result in (("first", [2], [0, 1]), ("second", [0, 1, 2], []), ("third", [0, 1, 2], [])):
        java.consume(f"left-{name}", "reader", f"queue://work.{name}")
        java.consume(f"result-{name}", "reader", f"queue://result.{name}")
        left = stage.take_expected(f"left-{name}", set(work))
        found = sorted(left), stage.take_expected(f"result-{name}", set(result))
        assert found == (work, result), (name, left, found)
        if name == "second":
            order = "before those behind them" if left == work else "behind all others"
            stage.seen["messages of a prepared branch that was rolled back at the taker come"] = order


def temporary_destinations(stage: Stage) -> None:
    """A temporary queue waits for its client, which goes on at the taker; without it the queue ends everywhere."""
    java = stage.java
    stage.follow("owner", 0)
    stage.follow("leaving", 0)
    stage.connect("other", 2)
    kept = stage.make_temporary("kept", "owner", "other")
    lost = stage.make_temporary("lost", "leaving", "other")
    stage.cluster.kill(0)
    java.begin("close", "leaving")
    stage.until_taken_over(0, witness=2)

    def answered() -> bool:
        found: list[int] = []
        stage.outcome(lambda: java.send("other", f"{TEMPORARY}kept", 1, first=5))
        stage.outcome(lambda: found.extend(java.take("reading-kept", 1, 2000)))
        return 5 in found

    stage.cluster.until(answered, "the owner gets messages again", TAKEN_SECONDS)
    running = [number for number in range(COUNT) if number != 0]

    def ends(name: str, seconds: float) -> str:
        try:
            stage.until_unknown(name, *running, seconds=seconds)
        except AssertionError:
            return "no"
        return "yes"

    stage.seen["a temporary queue ends within 90 s when its client does not come back to the taker"] = ends(lost, 90.0)
    java.close("reading-kept")
    java.close("owner")
    stage.seen["a temporary queue that was taken over ends within 40 s when its client closes"] = ends(kept, 40.0)


def by_command(stage: Stage) -> None:
    """An administrator chooses the taker, of a broker that was shut down without failover, and of one that runs."""
    java = stage.java
    stage.refused(1, "takeover", "bkr", "-n", "nobody")
    stage.connect("producer", 0)
    java.send("producer", "queue://commanded", MANY)
    stage.good(0, "shutdown", "bkr", "-nofailover")
    stage.cluster.wait_for_end(0)
    time.sleep(stage.cluster.model.noticed_seconds)
    row = stage.member(0, at=1)
    assert (row.state, row.taker) == ("BROKER_DOWN", ""), row
    stage.good(1, "takeover", "bkr", "-n", "b0")
    assert stage.until_taken_over(0) == 1
    stage.connect("reader", 1)
    java.consume("reading", "reader", "queue://commanded")
    assert java.take_all("reading", MANY) == list(range(MANY))
    java.close("reading")
    stage.connect("other", 2)
    java.send("other", "queue://commanded", MANY)
    stage.good(1, "takeover", "bkr", "-n", "b2")
    java.consume("reading", "reader", "queue://commanded")
    assert java.take_all("reading", MANY) == list(range(MANY))
    answer = stage.cluster.command(1, "takeover", "bkr", "-n", "b1")
    stage.seen["`takeover bkr` of the broker itself"] = "refused" if answer.status else "done"


def shut_down(stage: Stage) -> None:
    """After a shutdown another broker takes over at once, after one with -nofailover nobody does."""
    java = stage.java
    stage.connect("producer", 0)
    java.send("producer", "queue://shut", MANY)
    stage.good(0, "shutdown", "bkr")
    stage.cluster.wait_for_end(0)
    taker = stage.until_taken_over(0)
    stage.connect("reader", taker)
    java.consume("reading", "reader", "queue://shut")
    assert java.take_all("reading", MANY) == list(range(MANY))
    other = 3 - taker
    stage.connect("second", other)
    java.close("reading")
    java.send("second", "queue://shut", MANY)
    kept = stage.member(other, at=taker).messages
    assert kept >= MANY, kept
    stage.good(other, "shutdown", "bkr", "-nofailover")
    stage.cluster.wait_for_end(other)
    time.sleep(stage.cluster.model.noticed_seconds)
    row = stage.member(other, at=taker)
    assert (row.state, row.taker, row.messages) == ("BROKER_DOWN", "", kept), (row, kept)
    stage.mend()
    java.consume("reading", "reader", "queue://shut")
    assert java.take_all("reading", MANY) == list(range(MANY))


def return_of_a_broker(stage: Stage) -> None:
    """It comes back as an empty member; what it had stays with the taker, and new work is its own."""
    java = stage.java
    stage.connect("producer", 0)
    java.send("producer", "queue://returned", MANY)
    taker = stage.take_over(0)
    stage.mend()
    row = stage.member(0, at=taker)
    assert (row.state, row.taker, row.messages) == ("OPERATING", "", 0), row
    assert stage.member(taker, at=taker).messages >= MANY
    stage.connect("again", 0)
    java.send("again", "queue://returned", 5, first=LATER)
    assert stage.member(0, at=taker).messages == 5
    stage.connect("reader", 3 - taker)
    java.consume("reading", "reader", "queue://returned")
    found = java.take_all("reading", MANY + 5)
    assert [each for each in found if each < LATER] == list(range(MANY)), found
    assert [each for each in found if each >= LATER] == list(range(LATER, LATER + 5)), found


def quiesced(stage: Stage) -> None:
    """A quiesced broker takes no new clients, keeps those that it has, and takes over nobody; killed it is taken over."""
    java = stage.java
    stage.connect("old", 2)
    java.send("old", "queue://quiet", 1)
    stage.good(2, "quiesce", "bkr")
    assert stage.outcome(lambda: stage.connect("new", 2)) == "refused"
    java.send("old", "queue://quiet", 1, first=1)
    assert stage.take_over(0) == 1
    assert stage.outcome(lambda: stage.connect("new", 2)) == "refused"
    assert stage.member(2, at=1).taker == ""
    stage.cluster.kill(2)
    assert stage.until_taken_over(2, witness=1) == 1
    stage.connect("reader", 1)
    java.consume("reading", "reader", "queue://quiet")
    assert java.take_all("reading", 2) == [0, 1]
    stage.mend()
    stage.good(2, "quiesce", "bkr")
    stage.good(2, "unquiesce", "bkr")
    stage.connect("again", 2)


def removed(stage: Stage) -> None:
    """A broker that runs is not removed, one that was shut down is, with its messages; those that were taken over stay with the taker."""
    java = stage.java
    stage.connect("producer", 0)
    java.send("producer", "queue://removed", MANY)
    running = stage.cluster.database(0, "remove", "bkr", "-n", "b0")
    stage.seen["exit status of `dbmgr remove bkr` of a broker that runs, which is refused"] = str(running.status)
    row = stage.member(0, at=1)
    assert row.state == "OPERATING", (row, running.text)
    stage.good(0, "shutdown", "bkr", "-nofailover")
    stage.cluster.wait_for_end(0)
    stage.good_database(0, "remove", "bkr", "-n", "b0")
    assert "b0" not in stage.good(1, "list", "bkr").members
    stage.mend()
    stage.connect("reader", 2)
    java.consume("reading", "reader", "queue://removed")
    assert java.take("reading", 1, 2000) == []
    java.close("reading")
    stage.connect("producer-again", 0)
    java.send("producer-again", "queue://removed", MANY)
    taker = stage.take_over(0)
    stage.good_database(0, "remove", "bkr", "-n", "b0")
    stage.connect("taking", taker)
    java.consume("taken", "taking", "queue://removed")
    assert java.take_all("taken", MANY) == list(range(MANY))


def browsed(stage: Stage) -> None:
    """A browser at the taker shows what the lost broker had, in order, and takes nothing."""
    java = stage.java
    stage.connect_all()
    java.send("c0", "queue://browsed", 5)
    java.send("c1", "queue://browsed", 1, first=LATER)
    assert java.do("browse", "look", on="c0", **{"from": "queue://browsed"}) == list(range(5))
    elsewhere = java.do("browse", "look", on="c2", **{"from": "queue://browsed"})
    stage.seen["messages of others that a browser at a broker without any shows, of six"] = str(len(elsewhere))
    taker = stage.take_over(0)
    stage.connect("reader", taker)
    found = java.do("browse", "look", on="reader", **{"from": "queue://browsed"})
    assert [each for each in found if each < LATER] == list(range(5)), found
    java.consume("reading", "reader", "queue://browsed")
    assert sorted(java.take_all("reading", 6)) == [*range(5), LATER]


def database_away(stage: Stage) -> None:
    """While the database is away nothing that was answered is lost, and afterwards all go on."""
    java = stage.java
    server = stage.cluster.model.server
    assert server is not None
    stage.follow("client", 0)
    stage.follow("other", 1)
    java.send("client", "queue://away", MANY)
    java.consume("news", "other", "topic://away.news")
    stage.wait_for_topic("away.news", "news", "client")
    server.stop()
    waiting = java.begin("send", "waiting", on="client", to="queue://away", first=LATER, count=1)
    java.send("other", "topic://away.news", 1, first=3, persistent=False)
    stage.seen["a message that is not durable, while the database is away"] = (
        "comes" if 3 in java.take("news", 2, 2000) else "does not come"
    )
    time.sleep(AWAY_SECONDS)
    server.start()
    stage.seen["a durable `send()` while the database was away for 15 s"] = stage.failure(lambda: java.end(waiting))
    stage.send_at_last("client", "queue://away", LATER + 1)
    stage.mend()
    stage.connect("reader", 2)
    java.consume("reading", "reader", "queue://away")
    found = stage.take_expected("reading", {*range(MANY), LATER + 1}, 3000)
    assert [each for each in found if each < LATER] == list(range(MANY)), found
    assert LATER + 1 in found, found


def backup_and_restore(stage: Stage) -> None:
    """The whole database goes into files and back while no broker runs, also after a takeover; then all is as it was."""
    java = stage.java
    stage.connect("other", 1)
    java.send("other", "queue://saved.too", MANY)
    stage.take_over(1)
    stage.mend()
    stage.connect("first", 0, "saved-client")
    java.consume("sub", "first", "topic://saved.news", subscription="sub")
    java.close("sub")
    java.send("first", "queue://saved", MANY)
    java.send("first", "topic://saved.news", 3)
    for number in range(COUNT):
        stage.good(number, "shutdown", "bkr", "-nofailover")
        stage.cluster.wait_for_end(number)
    folder = str(stage.cluster.folder / "backup")
    stage.good_database(0, "backup", "-dir", folder)
    stage.good_database(0, "recreate", "tbl")
    restored = stage.cluster.database(0, "restore", "-dir", folder).status == 0
    stage.seen["`dbmgr restore -dir` of messages, some of which were taken over"] = "done" if restored else "fails"
    if not restored:
        stage.good_database(0, "recreate", "tbl")
        return
    stage.mend()
    stage.connect("again", 1, "saved-client")
    java.consume("sub", "again", "topic://saved.news", subscription="sub")
    assert java.take_all("sub", 3) == [0, 1, 2]
    java.consume("all", "again", "queue://saved")
    assert java.take_all("all", MANY) == list(range(MANY))


SCENARIOS = (
    master_scenarios.heart,
    master_scenarios.consumers_elsewhere,
    master_scenarios.topics,
    master_scenarios.transactions,
    master_scenarios.admin_created,
    master_scenarios.durable_subscriptions,
    master_scenarios.client_ids,
    master_scenarios.temporary,
    takeover,
    load,
    unacknowledged,
    transactions_in_flight,
    transactions_over_homes,
    prepared_branches,
    temporary_destinations,
    by_command,
    shut_down,
    return_of_a_broker,
    quiesced,
    removed,
    browsed,
    database_away,
    backup_and_restore,
    master_scenarios.listings,
)
