"""Management by messages: resources, their attributes and operations (Artemis manual, chapter "Management")."""
