"""A distributed transaction: what is received from one broker and sent to another takes effect together, or not at all.

This program plays the transaction manager.  A real one writes its decision to a file before it commits, to finish the work after a crash.
"""

import os
import sys
import uuid

from mqclient.jms import ConnectionFactory, XAConnectionFactory
from mqclient.xa import Xid

source = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("BROKER_URL", "tcp://127.0.0.1:61616")
target = sys.argv[2] if len(sys.argv) > 2 else source
ORDERS, INVOICES = "queue://example.xa.orders", "queue://example.xa.invoices"

with ConnectionFactory(source).create_context() as context:
    context.create_producer().send(ORDERS, "order 1")

with XAConnectionFactory(source).create_xa_context() as orders, XAConnectionFactory(target).create_xa_context() as invoices:
    resources = (orders.xa_resource, invoices.xa_resource)
    transaction = uuid.uuid4().bytes  # one transaction, and a branch of it at each broker
    branches = [Xid(1, transaction, b"orders"), Xid(1, transaction, b"invoices")]

    for resource, branch in zip(resources, branches, strict=True):
        resource.start(branch)
    order = orders.create_consumer(ORDERS).receive_body(timeout=5000)
    invoices.create_producer().send(INVOICES, f"invoice for {order}")
    for resource, branch in zip(resources, branches, strict=True):
        resource.end(branch)

    for resource, branch in zip(resources, branches, strict=True):
        resource.prepare(branch)
    print("in doubt:", sum(branch in resource.recover() for resource, branch in zip(resources, branches, strict=True)))
    for resource, branch in zip(resources, branches, strict=True):
        resource.commit(branch)

with ConnectionFactory(target).create_context() as context:
    print(context.create_consumer(INVOICES).receive_body(timeout=5000))
