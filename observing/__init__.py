"""The parts of the observer: what it remembers, lists, fetches, compares and repairs."""
