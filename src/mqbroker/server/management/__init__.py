"""Management by messages: resources, their attributes and operations (Artemis manual, chapter "Management").

The highest room: management may ask all parts, and no part of the server knows it.
"""
