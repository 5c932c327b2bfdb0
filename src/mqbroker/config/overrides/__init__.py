"""Broker properties that override what broker.xml says."""
