"""What readers see of a ledger as a whole."""

from teller import FEE, Teller

from chain.stored.derived import show_positions, show_reconciliation, show_results


def test_every_sum_has_its_documented_name():
    """10@100 A: 4 sold for 60 (20), 2 lost (20 of cost), 4 become 2 D (40). 3 B of unknown cost
    sold for 30. 5@? and 5@50 C sold for 200: half of it minus 50 (50), the other half unmatched.
    The worst case is 70 - 20 - 40. 40 and 50 sold for 60 and 100: 70 on 90. The position in A lost,
    that in C won, and that in D is open.
    """
    t = Teller().buy("A", 10, 100).sell("A", 4, 60).lose("A", 2).swap("A", 4, "D", 2)
    t.write("failed", -FEE, FEE).gain("B", 3).sell("B", 3, 30)
    t.gain("C", 5).buy("C", 5, 50).sell("C", 10, 200)
    assert show_results(t.ledger) == {
        "realizedLamports": "70",
        "realizedSol": "0.00000007",
        "worstCaseLamports": "10",
        "worstCaseSol": "0.00000001",
        "returnPct": "77.78",
        "winRate": "0.5000",
        "positions": 2,
        "positionsWon": 1,
        "positionsOpen": 1,
        "matchedSells": 1,
        "partialSells": 1,
        "unmatchedSells": 1,
        "winningSells": 2,
        "volumeLamports": str(100 + 60 + 30 + 50 + 200),
        "volumeSol": "0.00000044",
        "observedTrades": 6,
        "failedTransactions": 1,
        "failedCostLamports": str(FEE),
        "overheadLamports": str(FEE),
        "costLeftLamports": "20",
        "costLeftReceipts": 1,
        "carriedLots": 1,
        "openPositions": 1,
    }
    held = {"mint": "D", "amountRaw": "2", "decimals": 0}
    assert show_positions(t.ledger) == [{**held, "costLamports": "40", "unknownBasisRaw": "0"}]
    assert show_reconciliation(t.ledger) == {
        "openingLamports": "0",
        "closingLamports": str(10**12 - 100 + 60 - 2 * FEE + 30 - 50 + 200),
        "realizedLamports": "70",
        "unmatchedProceedsLamports": str(30 + 100),
        "openCostLamports": "40",
        "costLeftLamports": "20",
        "costLeftReceipts": 1,
        "receivedLamports": str(10**12),
        "sentLamports": "0",
        "overheadLamports": str(FEE),
        "failedCostLamports": str(FEE),
        "otherLamports": "0",
        "differenceLamports": "0",
        "gapLamports": "0",
    }
