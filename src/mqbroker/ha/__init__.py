"""High availability: who is active and who takes over, with one store for several brokers or with replicas, and scale-down.

Links to other brokers come in from the layer below; home brokers do not, nor sockets, threads and clocks of its own.
"""
