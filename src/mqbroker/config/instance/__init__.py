"""The other files of an instance folder: profile, logins, and everything that files say of a broker.  The highest room of ``config``."""
