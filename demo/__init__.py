"""The demo plays a recorded chain, an invented market and a cast of bots on loopback, as if it were
happening now.

`app.py demo` starts it. Server, observer, scout and paper mode are the real ones, connected to
these stand-ins. Nothing else imports this package.
"""
