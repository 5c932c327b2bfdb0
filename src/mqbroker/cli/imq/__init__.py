"""Commands with the words of Open Message Queue: ``imqbrokerd``, which starts an instance, and those of ``imqcmd``."""
