"""The broker's side of the CORE protocol: connections, sessions, security, management.

The rooms and modules of this package have an order, the lowest first; none imports one behind it, not even for a type:

========================= ======================================================================================================
``bridge_port``           the bridges of the broker, as management asks for them
``security``              users, passwords, certificates, permissions
``transport``             the bytes of a connection, and the packets that belong to no session
``cluster_port``          the cluster connections of the broker, as server and management ask for them
``observation``           notifications, figures, metrics, health
``server_state``          the things that all sessions share
``session_state``         a session as its parts know it, with the answers in the order of its requests
``runs``                  the fast way for messages that arrive in a row
``session``               the parts of a session, the session itself, and all sessions of the broker
``server``                one broker with its connections and sessions
``management``            requests of operators, which may ask all the others
========================= ======================================================================================================

A part of a session takes the session as a ``SessionState`` and the server as a ``ServerState``; another part that it needs is passed in
when it is made.
"""
