"""What was read is kept until anybody writes to the database: the one place that decides when it is read anew."""
import threading
from collections import OrderedDict


class Kept:
    """At most so many values, the least used go first. A commit of any kind ends them all, whoever made it: no writer has to remember them."""

    def __init__(self, places):
        self.places = places
        self._lock, self._values = threading.Lock(), OrderedDict()         # name -> (version, value)

    def peek(self, name, version):
        """The value kept under this name, or None."""
        with self._lock:
            read_at, value = self._values.get(name, (None, None))
            if read_at != version:
                return None
            self._values.move_to_end(name)
            return value

    def find(self, name, version, read):
        """The value kept under this name, else what read() gives. `version`: of the database, asked for before anything is read (models: data_version)."""
        value = self.peek(name, version)
        if value is not None:
            return value
        value = read()
        with self._lock:
            self._values[name] = version, value
            self._values.move_to_end(name)
            while len(self._values) > self.places:
                self._values.popitem(last=False)
        return value
