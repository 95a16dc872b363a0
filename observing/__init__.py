"""The parts of the observer: its memory, listing, fetching, comparing and repairing."""
