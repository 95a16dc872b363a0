"""The shapes of every answer, as pydantic models: the source of /openapi.json.

The tests hold real answers to them in both directions: no member is answered that is not named
here, and none is named that is never answered. Amounts are decimal strings, never JSON numbers;
times are RFC 3339 in UTC. Answers may gain members within v1.

A member made by `absent` is left out of some answers. Each module is a page of /docs/fields.
"""
