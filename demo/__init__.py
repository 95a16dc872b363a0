"""The demo plays back a recorded chain, an invented market and a cast of bots on loopback, as if it
were happening now.

`app.py demo` starts it. It shows the real product: the same server, observer, scout and paper mode,
connected to these stand-ins. Nothing else imports this package.
"""
