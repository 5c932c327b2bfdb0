"""The client that behaves: ``python -m tests.integration.hostile.bystander URL``.

It sends a durable message and receives it, over and over.  For each line on its input it writes one of JSON: how many round trips it made
since the last one, the errors it met, and the greatest and the 99th percentile of the times in ms.
"""

from __future__ import annotations

import json
import sys
import threading
import time

from mqclient.jms import ConnectionFactory, JMSException

PAUSE_SECONDS = 0.005
CONNECT_EVERY = 200
"""Round trips until it leaves and comes again: logins must go on, too."""


class Bystander:
    """One thread of round trips; another one answers."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._times: list[float] = []
        self._errors: list[str] = []

    def run(self) -> None:
        while True:
            try:
                with ConnectionFactory(self._url) as factory, factory.create_context() as context:
                    queue = context.create_queue("bystander")
                    producer, consumer = context.create_producer(), context.create_consumer(queue)
                    for number in range(CONNECT_EVERY):
                        self._round_trip(producer, consumer, queue, number)
            except JMSException as error:
                with self._lock:
                    self._errors.append(str(error))
                time.sleep(0.1)

    def _round_trip(self, producer: object, consumer: object, queue: object, number: int) -> None:
        began = time.monotonic()
        producer.send(queue, str(number))  # type: ignore[attr-defined]
        body = consumer.receive_body(timeout=30_000)  # type: ignore[attr-defined]
        taken = time.monotonic() - began
        with self._lock:
            self._times.append(taken)
            if body != str(number):
                self._errors.append(f"sent {number}, got {body}")
        time.sleep(PAUSE_SECONDS)

    def report(self) -> str:
        with self._lock:
            times, self._times = sorted(self._times), []
            errors, self._errors = self._errors, []
        if not times:
            return json.dumps({"count": 0, "errors": errors, "max": 0.0, "p99": 0.0})
        p99 = times[min(len(times) - 1, len(times) * 99 // 100)]
        return json.dumps({"count": len(times), "errors": errors, "max": 1000 * times[-1], "p99": 1000 * p99})


def main() -> None:
    bystander = Bystander(sys.argv[1])
    threading.Thread(target=bystander.run, daemon=True).start()
    for _ in sys.stdin:
        print(bystander.report(), flush=True)


if __name__ == "__main__":
    main()
