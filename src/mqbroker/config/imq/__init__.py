"""The properties of an instance of Open Message Queue: where each value comes from, and the configuration that all of them make.

Values only: the home brokers that they configure stand in :mod:`mqbroker.imq` and do not come in.
"""
