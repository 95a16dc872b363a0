"""The short way of what bots ask most, in front of Flask: the lists of the interface, for a key that works and has allowance left.

It asks the door's own questions with the door's own functions. Who is not let in here was counted nowhere and goes the long way from its beginning; who is, but
gets a refusal or meets a fault, is handed over with it. So what is refused and what fails is said and logged in one place.
"""
from flask import Request
from peewee import PeeweeException

import ratelimit
from models import database
from web import gate, v1
from web.problem import Problem


class Express:
    """WSGI middleware right in front of the Flask `app`."""

    def __init__(self, app):
        self.app, self.long_way, self.config = app, app.wsgi_app, app.config["CANDOR"]

    def __call__(self, environ, start_response):
        visit = self.admit(environ) if environ["REQUEST_METHOD"] == "GET" and environ["PATH_INFO"] in v1.LISTS else None
        body = visit and self.find_list(environ, visit)
        if not database.is_closed():
            database.close()
        if body is None:
            return self.long_way(environ, start_response)
        gate.note_answer(visit, "GET", environ["PATH_INFO"], 200)
        start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body))), *v1.UNKEPT.items(),
                                  *gate.list_headers(self.config, visit).items()])
        return [body]

    def admit(self, environ):
        """A Visit counted in all windows, or None."""
        visit = gate.Visit()
        try:
            if not gate.is_served(self.config, environ.get("HTTP_HOST", "")):
                return None
            gate.identify(self.app, visit, environ.get("HTTP_AUTHORIZATION", ""))
            gate.count_keyed(self.app, visit, environ.get("REMOTE_ADDR"), ratelimit.list_limits(self.config, visit.caller.owner_id))
        except (Problem, PeeweeException, *self.app.allowance.store.unusable):
            return None
        return visit if visit.standing.admitted else None

    def find_list(self, environ, visit):
        """The JSON; None where the long way has to tell what happened."""
        try:
            return v1.find_list(self.app, Request(environ), visit)
        except Exception as error:                            # not hidden: the long way begins by raising it
            visit.failed, environ[gate.VISIT] = error, visit
            return None
