"""Backups in the process of another broker: who asks for one, who hosts one, and what the hosted broker is made of.

The hosted broker comes in as a protocol; whoever can make brokers passes in how one is started.
"""
