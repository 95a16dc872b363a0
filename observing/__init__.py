"""The parts of the observer: its memory, and listing, fetching, comparing and repairing."""
