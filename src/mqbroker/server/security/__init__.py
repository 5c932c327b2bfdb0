"""Who may come in and do things: logins, certificates, users, permissions, the audit log."""
