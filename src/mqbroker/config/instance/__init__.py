"""The other files of an instance folder: profile, logins, masked passwords."""
