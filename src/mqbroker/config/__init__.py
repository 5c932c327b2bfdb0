"""Typed settings: broker.xml, overriding properties, the other files of an instance, and the properties of Open Message Queue.

The lowest layer: texts come in and values go out, and no other layer of the broker is imported.
"""
