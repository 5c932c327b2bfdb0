"""What the commands of OpenMQ ask a broker for: destinations, subscriptions, the broker with its properties, the cluster.  Highest room."""
