"""Readers, for jobs that read a queue by ranges: their ranges, places and rows."""
