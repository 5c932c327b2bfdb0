"""What the chapter about conventional clusters with a master promises, as scenarios for a cluster of either kind."""

from __future__ import annotations

import time

from tests.interop.imq.clusters import COUNT
from tests.interop.imq.models import MASTER
from tests.interop.imq.stage import SETTLED_SECONDS, WAIT_MS, Stage
from tests.interop.puppet import NOTHING_MS

HALF = 100
"""Of the messages of the heart."""


def heart(stage: Stage) -> None:
    """The consumer's broker is killed while it holds half of the messages: a consumer elsewhere gets them all, in order."""
    java = stage.java
    stage.connect("producer", 0)
    stage.connect("holder", 1)
    java.consume("holding", "holder", "queue://heart", acknowledge="client")
    java.send("producer", "queue://heart", 2 * HALF)
    assert java.take("holding", HALF // 2, WAIT_MS) == list(range(HALF // 2))
    java.do("acknowledge", "holding")
    assert java.take("holding", HALF // 2, WAIT_MS) == list(range(HALF // 2, HALF))
    stage.cluster.kill(1)
    stage.connect("other", 2)
    java.consume("rest", "other", "queue://heart")
    rest = java.take("rest", 2 * HALF - HALF // 2, WAIT_MS) + java.take("rest", 1, NOTHING_MS)
    assert rest == list(range(HALF // 2, 2 * HALF)), rest


def consumers_elsewhere(stage: Stage) -> None:
    """Producers at two brokers, a consumer at the third; each message once, in the order of its producer."""
    java = stage.java
    stage.connect_all()
    java.consume("consumer", "c2", "queue://elsewhere")
    java.send("c0", "queue://elsewhere", 50)
    java.send("c1", "queue://elsewhere", 50, first=50)
    found = java.take_all("consumer", 100)
    assert [each for each in found if each < 50] == list(range(50)), found
    assert [each for each in found if each >= 50] == list(range(50, 100)), found


def topics(stage: Stage) -> None:
    """A subscriber at each broker gets everything once."""
    java = stage.java
    stage.connect_all()
    for number in range(COUNT):
        java.consume(f"s{number}", f"c{number}", "topic://everywhere")
    for number in range(COUNT):
        stage.wait_for_topic("everywhere", f"s{number}", "c0", "c1", "c2")
    java.send("c1", "topic://everywhere", 20)
    for number in range(COUNT):
        found = stage.take_expected(f"s{number}", set(range(20)))
        assert [each for each in found if each >= 0] == list(range(20)), found


def selectors(stage: Stage) -> None:
    """Consumers elsewhere, with selectors, get what they select."""
    java = stage.java
    stage.connect_all()
    java.consume("red", "c1", "queue://colours", selector="colour = 'red'")
    java.consume("blue", "c2", "queue://colours", selector="colour = 'blue'")
    for number in range(20):
        java.send("c0", "queue://colours", 1, first=number, property=("red", "blue")[number % 2])
    assert java.take_all("red", 10) == list(range(0, 20, 2))
    assert java.take_all("blue", 10) == list(range(1, 20, 2))


def transactions(stage: Stage) -> None:
    """A transaction that has consumed from two homes is rolled back, and committed."""
    java = stage.java
    stage.connect_all()
    java.do("transacted", "tx", on="c2")
    java.consume("work", "c2", "queue://work", within="tx")
    java.send("c0", "queue://work", 1)
    java.send("c1", "queue://work", 1, first=1)
    assert sorted(java.take("work", 2)) == [0, 1]
    java.do("rollback", "tx")
    assert sorted(java.take("work", 2)) == [0, 1]
    java.send("tx", "queue://result", 1, first=7)
    java.do("commit", "tx")
    java.consume("result", "c0", "queue://result")
    assert java.take_all("result", 1) == [7]
    java.close("work")
    java.consume("left", "c0", "queue://work")
    assert java.take("left", 1, NOTHING_MS) == []


def admin_created(stage: Stage) -> None:
    """What an administrator makes, changes and destroys at any broker is so at all; limits hold at each home."""
    java = stage.java
    stage.good(1, "create", "dst", "-t", "q", "-n", "orders", "-o", "maxNumMsgs=4", "-o", "limitBehavior=REJECT_NEWEST")
    stage.until_known("orders", 0, 1, 2)
    stage.refused(2, "create", "dst", "-t", "q", "-n", "orders")
    stage.good(2, "update", "dst", "-t", "q", "-n", "orders", "-o", "maxNumMsgs=5")

    def limit(number: int) -> str:
        return stage.good(number, "query", "dst", "-t", "q", "-n", "orders").values["Max Number of Messages"]

    stage.until_all(lambda number: limit(number) == "5", "has the change", 0, 1, 2)
    stage.connect_all()
    for client in ("c0", "c1"):
        java.send(client, "queue://orders", 5)
        assert stage.outcome(lambda on=client: java.send(on, "queue://orders", 1)) == "refused", "beyond the limit"  # type: ignore[misc]
    for attribute in ("maxNumProducers=1", "maxBytesPerMsg=100", "isLocalOnly=true", "limitBehavior=REMOVE_OLDEST"):
        answer = stage.cluster.command(0, "create", "dst", "-t", "q", "-n", "other", "-o", attribute)
        stage.seen[f"`create dst -o {attribute}`"] = "refused" if answer.status else "done"
        if not answer.status:
            stage.good(0, "destroy", "dst", "-t", "q", "-n", "other")
    stage.good(0, "destroy", "dst", "-t", "q", "-n", "orders")
    stage.until_unknown("orders", 0, 1, 2)


def auto_created(stage: Stage) -> None:
    """By a producer at its home only; by a consumer also elsewhere."""
    java = stage.java
    stage.connect_all()
    java.send("c0", "queue://by.producer", 1)
    java.consume("consumer", "c1", "queue://by.consumer")
    time.sleep(SETTLED_SECONDS)
    stage.seen["brokers that list a queue made by a producer of broker 0"] = stage.known_at("by.producer")
    stage.seen["brokers that list a queue made by a consumer of broker 1"] = stage.known_at("by.consumer")
    stage.good(0, "destroy", "dst", "-t", "q", "-n", "by.producer")
    stage.until_unknown("by.producer", 0)


def durable_subscriptions(stage: Stage) -> None:
    """Made at one broker, used from another; each broker keeps what was sent to it while the subscriber was away."""
    java = stage.java
    topic = "topic://archive"
    stage.connect_all()
    stage.connect("first", 0, "reader")
    java.consume("sub", "first", topic, subscription="all")
    java.close("sub")
    java.close("first")

    def listed(number: int) -> bool:
        return "reader" in stage.good(number, "list", "dur", "-d", "archive").text

    stage.until_all(listed, "knows the subscription", 0, 1, 2)
    for number in range(COUNT):
        java.send(f"c{number}", topic, 5, first=5 * number)
    stage.connect("second", 2, "reader")
    java.consume("sub", "second", topic, subscription="all")
    assert sorted(java.take_all("sub", 15)) == list(range(15))
    java.close("sub")
    java.do("unsubscribe", "leaving", on="second", subscription="all")
    stage.until_all(lambda number: not listed(number), "forgets the subscription", 0, 1, 2)
    java.consume("again", "second", topic, subscription="all")
    answer = stage.cluster.command(2, "destroy", "dur", "-n", "all", "-c", "reader")
    stage.seen["`destroy dur` of a subscription in use"] = "refused" if answer.status else "done"


def client_ids(stage: Stage) -> None:
    """A client id is used once in the cluster."""
    stage.connect("first", 0, "only")
    assert stage.outcome(lambda: stage.connect("second", 1, "only")) == "refused"
    stage.java.close("first")
    stage.connect("third", 2, "only")


def temporary(stage: Stage) -> None:
    """A temporary queue is known everywhere, and ends everywhere with its connection."""
    java = stage.java
    stage.connect("owner", 0)
    stage.connect("other", 2)
    name = stage.make_temporary("replies", "owner", "other")
    shown = [number for number in range(COUNT) if any(name in each for each in stage.good(number, "list", "dst", "-tmp").destinations)]
    stage.seen["brokers that list a temporary queue of broker 0"] = ", ".join(map(str, shown)) or "none"
    java.close("reading-replies")
    java.close("owner")
    stage.until_unknown(name, 0, 1, 2)
    stage.seen["sending to a temporary queue that has ended"] = stage.outcome(lambda: java.send("other", "temporary://replies", 1))


def master_away(stage: Stage) -> None:
    """What needs the record is refused, everything else goes on; a broker that starts without the master takes no clients."""
    java = stage.java
    master = stage.cluster.places[MASTER]
    stage.good(1, "create", "dst", "-t", "t", "-n", "kept")
    stage.until_known("kept", 2)
    stage.connect("subscriber", 2, "kept-reader")
    java.consume("kept", "subscriber", "topic://kept", subscription="kept")
    java.close("kept")
    stage.cluster.kill(MASTER)
    stage.until_all(
        lambda number: stage.good(number, "list", "bkr").brokers[master] == "BROKER_DOWN", "shows that the master is down", 1, 2
    )
    told = [
        stage.refused(1, "create", "dst", "-t", "q", "-n", "never").text,
        stage.refused(2, "update", "dst", "-t", "t", "-n", "kept", "-o", "maxNumMsgs=9").text,
        stage.refused(2, "destroy", "dst", "-t", "t", "-n", "kept").text,
    ]
    stage.seen["refusals, of three, that name the missing master"] = str(sum(master in text for text in told))
    stage.connect("another", 1, "new-reader")
    for what, act in {
        "a new durable subscription": lambda: java.consume("new", "another", "topic://kept", subscription="new"),
        "the end of one": lambda: java.do("unsubscribe", "leaving", on="subscriber", subscription="kept"),
    }.items():
        assert stage.outcome(act) == "refused", what
    stage.connect("c1", 1)
    java.consume("kept", "subscriber", "topic://kept", subscription="kept")
    java.send("c1", "topic://kept", 3)
    assert java.take_all("kept", 3) == [0, 1, 2]
    java.consume("automatic", "subscriber", "queue://automatic")
    java.send("c1", "queue://automatic", 3)
    assert java.take_all("automatic", 3) == [0, 1, 2]
    java.do("temporary", "mine", on="c1")
    java.consume("reading", "c1", "temporary://mine")
    java.send("c1", "temporary://mine", 1)
    assert java.take("reading", 1) == [0]
    stage.cluster.kill(2)
    stage.cluster.launch(2)
    stage.cluster.until(lambda: stage.cluster.command(2, "list", "bkr").status == 0, "the broker serves administrators")
    stage.seen["a client of a broker that has started without the master"] = stage.outcome(lambda: stage.connect("early", 2))
    stage.mend()
    stage.connect("late", 2)
    stage.good(2, "create", "dst", "-t", "q", "-n", "afterwards")
    stage.until_known("afterwards", 0, 1, 2)


def broker_returns(stage: Stage) -> None:
    """The messages of a broker that is down come back with it; what was defined meanwhile it has then."""
    java = stage.java
    stage.good(0, "create", "dst", "-t", "q", "-n", "waiting")
    stage.until_known("waiting", 1, 2)
    stage.connect("producer", 2)
    java.send("producer", "queue://waiting", 30)
    stage.cluster.kill(2)
    stage.connect("reader", 1)
    java.consume("consumer", "reader", "queue://waiting")
    assert java.take("consumer", 1, NOTHING_MS) == []
    stage.good(1, "create", "dst", "-t", "q", "-n", "meanwhile")
    stage.until_all(lambda n: stage.good(n, "list", "bkr").brokers[stage.cluster.places[2]] == "BROKER_DOWN", "shows who is missing", 0)
    stage.mend()
    assert java.take("consumer", 30, WAIT_MS) == list(range(30))
    stage.until_known("meanwhile", 2)


def client_goes_on(stage: Stage) -> None:
    """A client whose broker is lost goes on at another one."""
    java = stage.java
    stage.connect("witness", 0)
    stage.follow("follower", 1)
    java.consume("following", "follower", "queue://on")
    java.send("witness", "queue://on", 1)
    assert java.take("following", 1, WAIT_MS) == [0]
    stage.cluster.kill(1)
    java.send("witness", "queue://on", 1, first=1)
    stage.cluster.until(lambda: 1 in java.take("following", 1, 1000), "the client gets messages again")


def change_of_master(stage: Stage) -> None:
    """The record goes to another broker; then that is needed, and the old master is not."""
    places = stage.cluster.places

    def wish(place: str) -> tuple[str, ...]:
        return ("changemaster", "cls", "-o", f"imq.cluster.masterbroker={place}")

    stage.refused(1, *wish(places[2]))
    stage.refused(0, *wish(f"{places[0].rpartition(':')[0]}:1"))
    stage.good(0, *wish(places[0]))
    stage.good(0, *wish(places[1]))
    stage.until_all(
        lambda number: places[1] in stage.good(number, "query", "bkr").values["Cluster Master Broker"], "knows the new master", 0, 1, 2
    )
    stage.cluster.kill(0)
    stage.good(2, "create", "dst", "-t", "q", "-n", "new.master")
    stage.until_known("new.master", 1, 2)
    stage.mend()
    stage.until_known("new.master", 0)
    stage.good(1, *wish(places[0]))


def listings(stage: Stage) -> None:
    """Columns of the lists, and titles of the queries."""
    stage.good(0, "create", "dst", "-t", "t", "-n", "listed.topic")
    stage.good(0, "create", "dst", "-t", "q", "-n", "listed")
    for words in (("list", "bkr"), ("list", "dst"), ("list", "dur"), ("list", "dur", "-d", "listed.topic")):
        lines = stage.good(0, *words).text.splitlines()
        rules = [number for number, line in enumerate(lines) if line.strip() and not line.strip(" -")]
        head = lines[rules[2] + 1 : rules[3]]
        stage.seen[f"columns of `{' '.join(words)}`"] = tuple(" ".join(line.split()) for line in head)
    for words in (("query", "bkr"), ("query", "dst", "-t", "q", "-n", "listed"), ("query", "dst", "-t", "t", "-n", "listed.topic")):
        titles = stage.good(0, *words).values
        stage.seen[f"titles of `{' '.join(words[:4])}`"] = tuple(
            title for title in titles if title[0].isupper() and not title.endswith(":")
        )
    stage.good(2, "quiesce", "bkr")
    assert stage.outcome(lambda: stage.connect("quiet", 2)) == "refused"
    for number in (2, 0):
        state = stage.good(number, "list", "bkr").brokers[stage.cluster.places[2]]
        stage.seen[f"state of the quiesced broker 2 in `list bkr` of broker {number}"] = state
    stage.good(2, "unquiesce", "bkr")
    stage.connect("loud", 2)


SCENARIOS = (
    heart,
    consumers_elsewhere,
    topics,
    selectors,
    transactions,
    admin_created,
    auto_created,
    durable_subscriptions,
    client_ids,
    temporary,
    master_away,
    broker_returns,
    client_goes_on,
    change_of_master,
    listings,
)
