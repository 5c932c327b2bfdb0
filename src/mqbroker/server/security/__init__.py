"""Logins, certificates, users, permissions, and the audit log.

Connections and sessions do not come in: a login is a user name, a password or a certificate, and a place.
"""
