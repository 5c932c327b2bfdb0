"""Readers, for jobs that read a queue by ranges: their ranges, places and rows.  No other room knows more of them than positions."""
