"""What the chapter promises of a conventional cluster of peers, which have the change record in a table of a database."""

from __future__ import annotations

from tests.interop.imq import master_scenarios
from tests.interop.imq.clusters import COUNT
from tests.interop.imq.stage import WAIT_MS, Stage

READY_SECONDS = 60.0


def no_broker_is_distinguished(stage: Stage) -> None:
    """Whichever broker is down, destinations and durable subscriptions are made and end; that one has it all when it is back."""
    java = stage.java
    for down in range(COUNT):
        first, second = (number for number in range(COUNT) if number != down)
        stage.cluster.kill(down)
        queue, topic, reader = f"without.{down}", f"news.{down}", f"reader-{down}"
        stage.good(first, "create", "dst", "-t", "q", "-n", queue)
        stage.good(first, "create", "dst", "-t", "t", "-n", topic)
        stage.until_known(topic, second)
        stage.good(second, "update", "dst", "-t", "q", "-n", queue, "-o", "maxNumMsgs=7")
        stage.connect(reader, second, reader)
        java.consume(f"sub-{down}", reader, f"topic://{topic}", subscription="kept")
        java.close(f"sub-{down}")
        java.consume(f"ended-{down}", reader, f"topic://{topic}", subscription="ended")
        java.close(f"ended-{down}")
        java.do("unsubscribe", f"leaving-{down}", on=reader, subscription="ended")
        stage.mend()
        stage.until_known(queue, down)
        shown = stage.good(down, "query", "dst", "-t", "q", "-n", queue).values["Max Number of Messages"]
        assert shown == "7", shown
        listed = stage.good(down, "list", "dur", "-d", topic).text
        assert "kept" in listed and "ended" not in listed, listed
        stage.connect(f"sender-{down}", down)
        java.send(f"sender-{down}", f"topic://{topic}", 3)
        java.consume(f"sub-{down}", reader, f"topic://{topic}", subscription="kept")
        assert java.take_all(f"sub-{down}", 3) == [0, 1, 2]


def first_to_start(stage: Stage) -> None:
    """Any broker serves before the others are there, and has what is on record."""
    java = stage.java
    stage.good(0, "create", "dst", "-t", "q", "-n", "on.record")
    for number in range(COUNT):
        stage.cluster.kill(number)
    stage.cluster.launch(2)
    stage.cluster.until(lambda: stage.outcome(lambda: stage.connect("alone", 2)) == "done", "the broker takes clients", READY_SECONDS)
    stage.until_known("on.record", 2)
    java.send("alone", "queue://on.record", 3)
    stage.good(2, "create", "dst", "-t", "q", "-n", "made.alone")
    stage.mend()
    stage.until_known("made.alone", 0, 1)
    stage.connect("reader", 0)
    java.consume("reading", "reader", "queue://on.record")
    assert java.take_all("reading", 3) == [0, 1, 2]


def database_away(stage: Stage) -> None:
    """Without the database only what needs the record fails; it goes on when the database is back."""
    java = stage.java
    server = stage.cluster.model.server
    assert server is not None
    stage.good(1, "create", "dst", "-t", "t", "-n", "kept.topic")
    stage.until_known("kept.topic", 2)
    stage.connect_all()
    stage.connect("reader", 2, "away-reader")
    java.consume("sub", "reader", "topic://kept.topic", subscription="sub")
    java.close("sub")
    server.stop()
    try:
        for words in (("create", "dst", "-t", "q", "-n", "never"), ("destroy", "dst", "-t", "t", "-n", "kept.topic")):
            stage.refused(1, *words)
        assert stage.outcome(lambda: java.consume("new", "reader", "topic://kept.topic", subscription="new")) == "refused"
        java.consume("sub", "reader", "topic://kept.topic", subscription="sub")
        java.send("c1", "topic://kept.topic", 3)
        assert java.take_all("sub", 3) == [0, 1, 2]
        java.consume("automatic", "c2", "queue://away.automatic")
        java.send("c0", "queue://away.automatic", 3)
        assert java.take_all("automatic", 3) == [0, 1, 2]
        stage.make_temporary("mine", "c1")
        java.send("c1", "temporary://mine", 1)
        assert java.take("reading-mine", 1, WAIT_MS) == [0]
        assert {stage.good(number, "list", "bkr").brokers[place] for number in (0, 1) for place in stage.cluster.places} == {"OPERATING"}
    finally:
        server.start()
    refused = 0
    for number in range(COUNT):
        words = ("create", "dst", "-t", "q", "-n", f"back.{number}")
        if stage.cluster.command(number, *words).status:
            refused += 1
            stage.cluster.until(lambda n=number, w=words: stage.cluster.command(n, *w).status == 0, "the record can be written again")  # type: ignore[misc]
    stage.seen["the first changes at each broker after the database was away"] = "some refused" if refused else "done"
    for number in range(COUNT):
        stage.until_known(f"back.{number}", 0, 1, 2)
    stage.seen["brokers that list a queue whose creation was refused without the database"] = stage.known_at("never")
    java.send("c1", "topic://kept.topic", 1, first=9)
    assert java.take("sub", 1, WAIT_MS) == [9]
    for number in range(COUNT):
        stage.cluster.kill(number)  # that of Open Message Queue refuses more changes, until it has met all connections that are lost


def backup_and_restore(stage: Stage) -> None:
    """The record goes to a file and back, into an empty table only; all brokers then have what is in it."""
    java = stage.java
    stage.good(0, "create", "dst", "-t", "q", "-n", "saved")
    stage.until_known("saved", 1, 2)
    stage.connect("first", 1, "saved-reader")
    java.consume("sub", "first", "topic://saved.topic", subscription="sub")
    for number in range(COUNT):
        stage.cluster.kill(number)
    file = str(stage.cluster.folder / "record.backup")

    def database(*words: str) -> int:
        answer = stage.cluster.database(0, *words)
        assert answer.status in (0, 1), answer.text
        return answer.status

    assert database("backup", "sharecc_tbl", "-file", file) == 0
    stage.cluster.launch(1)
    stage.cluster.until(
        lambda: stage.cluster.command(1, "create", "dst", "-t", "q", "-n", "later").status == 0, "the broker is there", READY_SECONDS
    )
    stage.cluster.kill(1)
    assert database("restore", "sharecc_tbl", "-file", file) == 1, "into a table that is not empty"
    assert database("recreate", "sharecc_tbl") == 0
    assert database("restore", "sharecc_tbl", "-file", file) == 0
    stage.mend()
    stage.until_known("saved", 0, 1, 2)
    stage.until_unknown("later", 0, 1, 2)
    stage.until_all(lambda number: "saved-reader" in stage.good(number, "list", "dur", "-d", "saved.topic").text, "has it", 0, 1, 2)


SCENARIOS = (
    master_scenarios.heart,
    master_scenarios.admin_created,
    master_scenarios.durable_subscriptions,
    master_scenarios.client_ids,
    master_scenarios.temporary,
    master_scenarios.broker_returns,
    master_scenarios.client_goes_on,
    no_broker_is_distinguished,
    first_to_start,
    database_away,
    backup_and_restore,
)
