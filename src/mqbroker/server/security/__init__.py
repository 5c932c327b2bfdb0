"""Logins, certificates, users, permissions, and the audit log."""
