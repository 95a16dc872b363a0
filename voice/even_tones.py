"""The clauses of the plain, the dry and the calm tone: what may follow the fact, by event.

A clause is one short sentence with no number, no advice, no forecast, and no claim about the trade
that its event does not already make. No two tones share one.
"""

from voice.words import Clauses, list_lines

PLAIN: Clauses = {
    "buy": list_lines("""
        Let's see how it goes.
        I'm in.
        The rest is waiting.
        Now we watch.
        That's the entry.
        Eyes open from here.
        A position, not a promise.
        No drama.
        Simple as that.
        Back to watching.
    """),
    "gain": list_lines("""
        I'll take it.
        Good enough for me.
        It worked this time.
        A trade that did its job.
        Green is green.
        Fine with that.
        On to the next chart.
        Glad I took it.
        Nothing to add.
        No complaints.
    """),
    "loss": list_lines("""
        It happens.
        Not my read.
        I got that one wrong.
        Wrong side of it.
        That's the cost of playing.
        I'd rather be out.
        Lesson noted.
        Moving on.
        It didn't work.
        Onto the list of losers.
    """),
    "even": list_lines("""
        Right back where I started.
        A lot of clicking for nothing.
        Nothing gained, nothing learned.
        A wash.
    """),
    "sell": list_lines("""
        Taking some off.
        Easier to sleep now.
        Back in SOL.
        Less to watch.
        That part is done.
        Cash feels fine.
    """),
    "swap": list_lines("""
        A change of mind.
        Same risk, different ticker.
        I like this one better.
        Moved over.
    """),
    "refusal": list_lines("""
        Not this time.
        I'll sit this out.
        Rules are rules.
        No trade is a decision too.
    """),
    "pause": list_lines("""
        Time for a break.
        I'll be back.
        Better to step away.
        No new trades until it passes.
    """),
    "lesson": list_lines("""
        Worth writing down.
        Make of it what you want.
        That's just the count.
        It may not repeat.
    """),
    "phase": list_lines("""
        Those are the rules I trade by.
        Just so you know.
        The plan stays the plan.
    """),
    "review": list_lines("""
        Please wait for the outcome.
        Don't read anything into my numbers.
        I'd want it checked too.
    """),
}
DRY: Clauses = {
    "buy": list_lines("""
        Nobody asked me to.
        What could go wrong.
        The chart made eye contact.
        I've had worse ideas. Probably.
        My mother would not approve.
        Consider me a liquidity donor.
        Someone had to.
        The seller seemed relieved.
        I read the whole chart. It was short.
        Due diligence took the afternoon off.
    """),
    "gain": list_lines("""
        Nobody clapped.
        Try to contain yourselves.
        Luck, or what I'll call skill.
        The market must have been distracted.
        I'll be insufferable until dinner.
        Accounting is thrilled, in its way.
        Even I am surprised.
        A clerical error in my favor.
        Drinks are on somebody else.
        Please hold the confetti.
    """),
    "loss": list_lines("""
        The plan was fine; the market disagreed.
        Tuition, they call it.
        I'd like to speak to the manager.
        A fine contribution to someone's yacht.
        In my defense, I had no defense.
        The chart looked better in my head.
        As is tradition.
        I meant to do that. No, I didn't.
        Somewhere, a stranger says thanks.
        The wallet is lighter and so am I.
        It builds character, allegedly.
    """),
    "even": list_lines("""
        A thrilling evening for everyone.
        The fees had a nice time.
        Call it exercise.
        Historians will skip this one.
    """),
    "sell": list_lines("""
        It wasn't personal.
        We had our moments.
        I'll send a card.
        The exit was clearly marked.
        Parting was bearable.
        SOL and I are back on speaking terms.
    """),
    "swap": list_lines("""
        Same casino, different table.
        I've switched horses before.
        A lateral move, as HR would say.
        Variety, they tell me, is the spice.
    """),
    "refusal": list_lines("""
        My restraint is noted, mostly by me.
        Even I have standards.
        A rare outbreak of discipline.
        The form was not filled in correctly.
    """),
    "pause": list_lines("""
        I've been sent to my room.
        The adults have stepped in.
        Enjoy the silence.
        Apparently there's a rule for this.
    """),
    "lesson": list_lines("""
        Frame it if you like.
        Science marches on, slowly.
        I don't make the numbers, I just lose to them.
        The spreadsheet insisted.
    """),
    "phase": list_lines("""
        Paperwork attached.
        The committee of me has spoken.
        Please update your records.
    """),
    "review": list_lines("""
        The auditors have sharpened their pencils.
        I'll wait in the hallway.
        Nothing to see here, officially.
    """),
}
CALM: Clauses = {
    "buy": list_lines("""
        No rush now.
        I'll let it breathe.
        Patience from here.
        A small step, taken slowly.
        Now I wait, and that's fine.
        There's time.
        I'm comfortable with the size.
        Whatever comes, comes.
        Tea first, then the chart.
        I'll look again later.
    """),
    "gain": list_lines("""
        Quietly pleased.
        A gentle one.
        I'll enjoy it and let it go.
        That was kind of the market.
        Slow and fine.
        A good moment to rest.
        I'm grateful, and done.
        The tide was with me.
        Nice and easy.
        I'll take a walk now.
    """),
    "loss": list_lines("""
        I can live with that.
        Losses come and go.
        Breathing out.
        It was only a trade.
        The tide went the other way.
        No hard feelings.
        I let it go.
        Rain falls on everyone.
        Still calm, still here.
        There are other days.
    """),
    "even": list_lines("""
        In and out, like breathing.
        Still water.
        No harm done.
        Nothing stirred.
    """),
    "sell": list_lines("""
        A little lighter.
        Letting go gently.
        Some of it goes home.
        Room to breathe.
        I needed less of it.
        The hands are open.
    """),
    "swap": list_lines("""
        A quiet change of place.
        One leaf for another.
        Drifting over.
        A softer seat, perhaps.
    """),
    "refusal": list_lines("""
        I don't have to chase it.
        Happy to watch from here.
        Let it pass.
        The next one can wait too.
    """),
    "pause": list_lines("""
        A rest does me good.
        I'll sit for a while.
        Quiet hours from here.
        The market can do without me.
    """),
    "lesson": list_lines("""
        I'll keep it in mind.
        Something to sit with.
        Held lightly.
        Counting is its own kind of calm.
    """),
    "phase": list_lines("""
        All in good time.
        At its own pace.
        Nothing changes in a hurry.
    """),
    "review": list_lines("""
        Let's wait together.
        There's no hurry to judge.
        I'm at peace with being checked.
    """),
}
