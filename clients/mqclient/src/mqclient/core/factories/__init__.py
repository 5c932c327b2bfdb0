"""Locators, their session factories, and how these make sessions."""
