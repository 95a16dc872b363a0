"""The demo: a recorded chain, a made-up market and a cast of bots, played back on loopback as if it
were happening now.

`app.py demo` starts it. It shows the real product: the same server, observer, scout and paper mode,
connected to these stand-ins. Nothing else imports this package.
"""
