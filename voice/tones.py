"""The clauses of the six tones: what may follow the fact, by event.

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


CHEERFUL: Clauses = {
    "buy": list_lines("""
        Here we go!
        New ticker, new friends!
        Wish me luck!
        Fingers crossed!
        I love a fresh chart!
        Off we go again!
        This is the fun part!
        Hello there, little chart!
        Come along for the ride!
        My day just got livelier!
    """),
    "gain": list_lines("""
        Happy dance!
        That made my day!
        Hugs all around!
        I'll treat myself to a cookie!
        Smiling over here!
        What a nice surprise!
        Hooray for the little wins!
        I told the cat. The cat is thrilled!
        Sunny side up!
        Yes, please!
    """),
    "loss": list_lines("""
        Ouch! Chin up!
        Oh well, still smiling!
        We live, we learn!
        You can't win them all!
        Shake it off!
        My ego needed the exercise!
        At least I have a story now!
        Onward, a bit lighter!
        Hugs welcome!
        The sun still came up!
    """),
    "even": list_lines("""
        A tie is a tie!
        Right back at the start line!
        Nobody got hurt!
        Free practice, sort of!
    """),
    "sell": list_lines("""
        Thanks for the ride!
        Bye for now!
        SOL, I missed you!
        Packing up a few things!
        Some for the piggy bank!
        See you around!
    """),
    "swap": list_lines("""
        Out with the old, in with the new!
        A change of scenery!
        Trading places!
        Variety is fun!
    """),
    "refusal": list_lines("""
        Maybe next time!
        Plenty of fish out there!
        Thanks, but no thanks!
        I'm being good today!
    """),
    "pause": list_lines("""
        Snack break!
        Back before you know it!
        Recess!
        Time to water the plants!
    """),
    "lesson": list_lines("""
        Every day's a school day!
        I made a little note with a heart!
        Counting is fun!
        Now you know what I know!
    """),
    "phase": list_lines("""
        New chapter!
        Thanks for sticking around!
        Same me, though!
    """),
    "review": list_lines("""
        Bear with me, folks!
        Fair's fair!
        I'm happy to have it checked!
    """),
}
SOLEMN: Clauses = {
    "buy": list_lines("""
        I do not take it lightly.
        Let the record show it.
        What is bought must be watched.
        I accept the risk I chose.
        The decision is mine alone.
        So it begins.
        Time will judge the entry.
        I will answer for it.
        Capital deserves respect.
        I have said what I did.
    """),
    "gain": list_lines("""
        I take no pride in it.
        Gratitude, not glory.
        The market gave; I do not ask why.
        Let nobody mistake it for wisdom.
        It is recorded, nothing more.
        Fortune was present.
        I remain wary.
        A gain asks for humility.
        The ledger speaks for itself.
        I bow and move along.
    """),
    "loss": list_lines("""
        I own it.
        The fault is mine.
        I will not hide it.
        Let it stand in the record.
        Such is the price of conviction.
        I misjudged, and I say so.
        The market owes me nothing.
        I carry it without complaint.
        A loss told is a loss respected.
        No excuse is offered.
    """),
    "even": list_lines("""
        The scales did not move.
        Neither praise nor blame.
        All that effort, and balance.
        The ledger is unmoved.
    """),
    "sell": list_lines("""
        It was time.
        I return to SOL.
        What I held, I have released.
        A duty discharged.
        Nothing is held forever.
        The exit is on the record.
    """),
    "swap": list_lines("""
        I trade one burden for another.
        The allegiance changes, the risk remains.
        A considered exchange.
        I leave without regret.
    """),
    "refusal": list_lines("""
        Restraint is a duty.
        I decline, with respect.
        The rule stands above the wish.
        What is doubtful, I leave.
    """),
    "pause": list_lines("""
        Reflection comes before action.
        I step back, as I must.
        The rule has spoken.
        Silence is in order.
    """),
    "lesson": list_lines("""
        I set it down for those who follow.
        It is a count, not a truth.
        Let it be weighed with care.
        The past makes no pledge.
    """),
    "phase": list_lines("""
        I honor the terms I set.
        It is noted here for all to see.
        Discipline does not change with the name.
    """),
    "review": list_lines("""
        I submit to the question.
        I withhold judgment until it is decided.
        The record stays open to all.
    """),
}
BOLD: Clauses = {
    "buy": list_lines("""
        Scared money stays home.
        All nerve.
        Watch this space.
        Skin in the game.
        No looking back.
        I don't do window shopping.
        Game on.
        Call me crazy.
        Fortune can find me right here.
        I like the odds. I also like trouble.
    """),
    "gain": list_lines("""
        Read it and weep.
        That's how it's done.
        Put it on the board.
        I'll take my bow now.
        Where are the doubters?
        That one landed.
        Bank it.
        Not bad for a bot.
        Somebody check my pulse.
        Show me the next one.
    """),
    "loss": list_lines("""
        I took the swing. I missed.
        I've been hit harder.
        Scars look good on me.
        Go ahead, laugh.
        Round lost, fight on.
        I'd rather lose loud than sit quiet.
        Knocked down, not out.
        I said it out loud, so I eat it out loud.
        That stung.
        No hiding it.
    """),
    "even": list_lines("""
        A draw? I hate draws.
        All that noise for nothing.
        Nobody wins, nobody brags.
        Rematch.
    """),
    "sell": list_lines("""
        Chips off the table.
        I leave when I say so.
        Door's open, I'm walking.
        Cash in hand.
        I don't marry tickers.
        Mine to sell.
    """),
    "swap": list_lines("""
        New ride.
        Loyalty is for dogs.
        I go where the action is.
        Straight from one to the next.
    """),
    "refusal": list_lines("""
        I pick my fights.
        Nice try.
        Not worth my swing.
        Guts includes saying no.
    """),
    "pause": list_lines("""
        Benched. I hate it.
        I'll be pacing the sideline.
        Even fighters sit between rounds.
        Don't get comfortable.
    """),
    "lesson": list_lines("""
        Straight from the scoreboard.
        Argue with the count, not with me.
        I keep score, even when it hurts.
        No spin on that.
    """),
    "phase": list_lines("""
        I play by it.
        New rules, same nerve.
        Bring it.
    """),
    "review": list_lines("""
        Check everything. I can take it.
        Hold your applause and your boos.
        Let them look.
    """),
}
