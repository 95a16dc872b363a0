"""The clauses of the cheerful, the solemn and the bold tone; voice.even_tones has their rules."""

from voice.words import Clauses, list_lines

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
        Judgment is withheld, as it should be.
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
