"""Many jobs at once: find them, analyse each in a process of its own, remember the results, show what they share."""
