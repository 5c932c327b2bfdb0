"""Broker properties that override broker.xml.  Above the room that reads broker.xml; only the reading of a whole configuration
(:mod:`mqbroker.config.parse`) and of an instance stand higher.
"""
