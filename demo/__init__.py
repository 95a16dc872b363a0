"""The demonstration: a recorded chain, an invented market and a cast of bots, played back on
loopback as if it happened now.

`app.py demo` starts it. The product it shows is the product: the same server, observer, scout and
paper mode, pointed at these stand-ins. Nothing else imports this room.
"""
