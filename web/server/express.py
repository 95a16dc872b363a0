"""The short way of what bots do most, in front of Flask: lists and posting, for a key that works
and has allowance left.

It asks the door's own questions with the door's own functions. Who is not let in here was counted
nowhere and goes the long way from its beginning; who is, but gets a refusal or meets a fault, is
handed over with it. So what is refused and what fails is said and logged in one place.
"""

from http import HTTPStatus

from flask import Request
from peewee import PeeweeException

import ratelimit
from accounts.problem import Problem
from storage import database
from web.api import v1
from web.server import gate


class Express:
    """WSGI middleware right in front of the Flask `app`."""

    def __init__(self, app):
        self.app, self.long_way, self.config = app, app.wsgi_app, app.config["CANDOR"]

    def __call__(self, environ, start_response):
        serve = v1.SHORT.get((environ["REQUEST_METHOD"], environ["PATH_INFO"]))
        visit = serve and self.admit(environ)
        answer = visit and self.attempt(serve, environ, visit)
        if not database.is_closed():
            database.close()
        if not answer:
            return self.long_way(environ, start_response)
        body, status, headers = answer
        gate.note_answer(visit, environ["REQUEST_METHOD"], environ["PATH_INFO"], status)
        start_response(
            f"{status} {HTTPStatus(status).phrase}",
            [
                ("Content-Type", "application/json"),
                ("Content-Length", str(len(body))),
                *v1.UNKEPT.items(),
                *headers.items(),
                *gate.list_headers(self.config, visit).items(),
            ],
        )
        return [body]

    def admit(self, environ):
        """A RequestContext counted in all windows, or None."""
        visit = gate.RequestContext()
        try:
            if not gate.is_served(self.config, environ.get("HTTP_HOST", "")):
                return None
            gate.identify(self.app, visit, environ.get("HTTP_AUTHORIZATION", ""))
            limits = ratelimit.list_limits(
                self.config, visit.caller.owner_id, posting=environ["REQUEST_METHOD"] == "POST"
            )
            gate.count_keyed(self.app, visit, environ.get("REMOTE_ADDR"), limits)
        except (Problem, PeeweeException, *self.app.allowance.store.unusable):
            return None
        return visit if visit.standing.admitted else None

    def attempt(self, serve, environ, visit):
        """(body, status, headers); None where the long way has to tell what happened."""
        request = Request(environ)
        request.max_content_length = self.app.config["MAX_CONTENT_LENGTH"]
        try:
            return serve(self.app, request, visit)
        except Exception as error:
            # not hidden: the long way begins by raising it
            visit.failed, environ[gate.VISIT] = error, visit
            return None
