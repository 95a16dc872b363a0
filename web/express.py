"""The short way of what bots ask most: a list that is kept, for a key that works and has allowance left, is answered in front of Flask.

It asks the door's own questions in the door's own functions. Where one of them is answered otherwise, nothing was counted, nothing is said here, and the request
goes the long way from its beginning: refusals, faults and lists to be read anew have one place.
"""
from peewee import PeeweeException

import ratelimit
from models import database
from web import gate, v1
from web.problem import Problem

ROUTES = "/api/v1/"


class Express:
    """WSGI middleware right in front of the Flask `app`."""

    def __init__(self, app):
        self.app, self.long_way, self.config = app, app.wsgi_app, app.config["CANDOR"]

    def __call__(self, environ, start_response):
        answer = self.find_answer(environ) if environ["REQUEST_METHOD"] == "GET" and environ["PATH_INFO"].startswith(ROUTES) else None
        if answer is None:
            return self.long_way(environ, start_response)
        headers, body = answer
        start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body))), *headers.items()])
        return [body]

    def find_answer(self, environ):
        """(headers, body) of a kept list whose asker may have it, counted and logged; None where anything else is to be said."""
        request_id, now, began = gate.start()
        try:
            version = database.data_version()
            body = self.app.kept.peek(v1.name_list(environ, now), version)
            if body is None or not gate.is_served(self.config, environ.get("HTTP_HOST", "")):
                return None
            caller = gate.find_caller(self.app, environ.get("HTTP_AUTHORIZATION", ""), now, version)
            _, standing = gate.count_keyed(self.app, environ.get("REMOTE_ADDR"), ratelimit.list_limits(self.config, caller.owner_id), now)
        except (Problem, PeeweeException, *self.app.allowance.store.unusable):
            return None
        finally:
            if not database.is_closed():                      # it was opened where a key's last use was noted
                database.close()
        if not standing.admitted:
            return None
        gate.note_answer(request_id, "GET", environ["PATH_INFO"], 200, began, caller)
        return {**v1.UNKEPT, **gate.list_headers(self.config, request_id, standing)}, v1.close_list(body, now)
