"""The programs that decide what a receipt is, and the accounts that take tips: one readable table.

Gathered from the programs' own documentation and from public explorers. A program that is missing
makes a receipt `other` with the flag `unrecognised_program`, never a guess; EXTRA_SWAP_PROGRAMS
adds to the swaps.
"""

from collections.abc import Iterable
from dataclasses import dataclass

# Pools that serve swaps and liquidity under one id: there the effect decides (chain.kinds).
POOLS = {
    "Raydium v4",
    "Raydium CLMM",
    "Raydium CPMM",
    "Raydium Stable",
    "Orca Whirlpool",
    "Orca v1",
    "Orca v2",
    "SPL Token Swap",
    "Saber",
    "Meteora pools",
    "Meteora DAMM v2",
    "PumpSwap",
    "Byreal CLMM",
    "PancakeSwap v3",
    "Crema",
    "Cropper",
    "Cropper CLMM",
    "Saros",
    "FluxBeam",
    "Invariant",
    "Aldrin",
    "Aldrin v2",
    "stabble stable swap",
    "stabble weighted",
    "Mercurial",
    "Step",
    "Penguin",
    "Dexlab",
    "BonkSwap",
}

FAMILIES = {
    "swap": """
        JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4 Jupiter v6
        675kPX9MHTjS2zt1qfr1NYHuzeLXfQM9H24wFSUt1Mp8 Raydium v4
        whirLbMiicVdio4qvUfM5KAg6Ct8VwpYzGff3uctyCc Orca Whirlpool
        LBUZKhRxPF3XUpBCjp4YzTKgLccjZhTSDM9YuVaPwxo Meteora DLMM
        6EF8rrecthR5Dkzon8Nwu78hRvfCKubJ14M5uBEwF6P pump.fun
        CAMMCzo5YL8w4VFF8KVHrK22GGUsp5VTaW7grrKgrWqK Raydium CLMM
        2wT8Yq49kHgDzXuPxZSaeLaH1qbmGXtEyPy64bL7aD3c Lifinity v2
        obriQD1zbpyLz95G5n7nJe6a4DPjpFwa5XYPoNm113y Obric v2
        DjVE6JNiYqPL2QXyCUUh8rNjHrbz9hXHNYt99MQ59qw1 Orca v1
        PhoeNiXZ8ByJGLkxNfZRnkUfjvmuYqLR89jjFHGqdXY Phoenix
        22Y43yTVxuUkoRKdm9thyRhQ3SdgQS7c7kB6UNCiaczD Serum Swap
        9xQeWvG816bUx9EPjHmaT23yvVM2ZWbrrpZb9PusVFin Serum v3
        Eo7WjKq67rjJQSZxS6z3YkapzY3eMj6Xy8X5EQVn5UaB Meteora pools
        srmqPvymJeFKQ4zGQed1GFppgkRHL9kaELCbyksJtPX OpenBook v1
        9W959DqEETiGZocYWCQPaJ6sBmUzgfxXfqGeTEdp3aQP Orca v2
        LanMV9sAd7wArD4vJFi2qDdfnVhFxYSUg6eADduJ3uj Raydium LaunchLab
        SoLFiHG9TfgtdUXUjWAxi3LtvYuFyDLVhBWxdMZxyCe SolFi
        ZERor4xhbUycZ6gb9ntrhqscUcZmAbQDjEAtCf4hbZY ZeroFi
        HpNfyc2Saw7RKkQd8nEL4khUcuPhQ7WwY1B2qjx8jxFq PancakeSwap v3
        pAMMBay6oceH9fJKBRHGP5D4bD4sWpmSwMn52FMfXEA PumpSwap
        routeUGWgWzqBWFcrCfv8tritsqukccJPu3q5GPP3xS Raydium router
        SSwpkEEcbUqx4vtoEByFjSkhKdCT862DNVb52nZg1UZ Saber
        BiSoNHVpsVZW2F7rx2eQ59yQwKxzU5NvBcmKshCSUypi BisonFi
        REALQqNEomY6cQGZJUGwywTBD2UmDT32rZcNnfxQ5N2 Byreal CLMM
        H8W3ctz92svYg6mkn1UtGfu2aQr2fnUFHM1RhScEtQDt Cropper CLMM
        FLUXubRmkEi2q6K3Y9kBPg9248ggaZVsoSFhtJHSrm1X FluxBeam
        goonERTdGsjnkZqWuVjs73BZ3Pb9qoCUdBUL17BnS5j GoonFi
        9H6tua7jkLhdm3w8BvgpTn5LZNU7g4ZynDmCiNN3q6Rp HumidiFi
        HyaB3W9q6XdA5xwpU4XnSZV94htfmbmqJXZcEbRaJutt Invariant
        61DFfeTKM7trxYcPQCM78bJ794ddZprZpAwAnLiwTpYH Jupiter RFQ (order engine)
        proVF4pMXVaYqmy4NjniPh4pqKNfMmsihgd4wdkCX3u OKX router
        CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C Raydium CPMM
        SwaPpA9LAaLfeLi3a68M4DjnLqgtticKg6CnyNwgAC8 SPL Token Swap
        SSwapUtytfBdBn1b9NUGG6foMVPtcWgpRU32HToDUZr Saros
        stkitrT1Uoy18Dk1fTrgPw8W6MVzoCfYoAFT4MLsmhq Stakedex
        swapNyd8XiQwJ6ianp9snpu4brUqFxadzvHebnAXjJZ stabble stable swap
        AMM55ShdkoGRB5jVYPjWziwk8m5MpwyDgsMWHaMSQWH6 Aldrin
        CURVGoZn8zycx6FXwwevgBTB2gVvdbGTEpvMJDbgs2t4 Aldrin v2
        ALPHAQmeA7bjrVuccPsYPiCvsi428SNwte66Srvs4pHA AlphaQ
        BSwp6bEBihVLdqJRKGgzjcGLHkcTuzmSo1TQkHepzH8p BonkSwap
        CLMM9tUoggJu2wagPkkqs9eFG4BWhVBZWkP1qv3Sp7tR Crema
        CTMAxxk34HjKWxQ3QLZK1HpaLXmBveao3ESePXbiyfzh Cropper
        DF1ow4tspfHX9JwWJsAb9epbkA8hmpSEAtxXy1V27QBH DFlow
        DSwpgjMvXhtGn6BsbqmacdBZyfLj6jSWf3HJpdJtmg6N Dexlab
        GFXsSL5sSaDfNFQUYsHekbWBW1TsFdjDYzACh62tEHxn GooseFX v2
        HEAVENoP2qxoeuF8Dj2oT1GHEnu49U5mJYkdeC8BAX2o Heaven
        JUP2jxvXaqu7NQY1GmNF4m1vodw12LVXYxbFL2uJvfo Jupiter v2
        JUP3c2Uh3WA4Ng34tw6kPd2G4C5BB21Xo36Je1s32Ph Jupiter v3
        JUP4Fb2cqiRUcaTHdrPC8h2gNsA2ETXiPDD33WcGuJB Jupiter v4
        EewxydAPCCVuNEyrVN68PuSYdQ7wKn27V9Gjeoi8dy3S Lifinity v1
        MNFSTqtC93rEfYHB6hF82sKdZpUDFWkViLByLd1k1Ms Manifest
        MERLuDFBMmsHnsBPZw2sDQZHvXFMwp8EdjudcU2HKky Mercurial
        cpamdpZCGKUy5JxQXB4dcpGPiikHawvSWAd6mEn1sGG Meteora DAMM v2
        dbcij3LWUppWqq96dh6gJWwBifmcGfLSB5D4DuSMaqN Meteora DBC
        MoonCVVNZFSYkqNXP6bxHLPL6QQJiMagDL3qcqUQTrG Moonshot
        6m2CDdhRgxpH4WjvdzxAYbGxwdGUz5MziiL5jek2kBma OKX DEX router
        opnb2LAfJYbRMAHHvqjCwQxanZn7ReEHp1k81EohpZb OpenBook v2
        PSwapMdSai8tjrEXcxFeQth87xC4rRsa4VA5mhGhXkP Penguin
        5quBtoiQqxF9Jv6KYKctB59NT3gtJD2Y65kdnB1Uev3h Raydium Stable
        DecZY86MU5Gj7kppfUCEmd4LbXXuyZH1yHaP2NTqdiZB Saber decimals
        5ocnV1qiCgaQR8Jb8xWnVbApfaygJ8tNoZfgPwsgx9kx Sanctum Infinity
        SV2EYYJyRz2YhfXwXnhNAevDEui5Q6yrfyo13WtupPF SolFi v2
        SSwpMgqNDsyV7mAgN9ady4bDVu5ySjmmXejXvy2vLt1 Step
        TessVdML9pBGgG9yGks7o4HewRaXVAMuoVj4x83GLQH TesseraV
        5U3EU2ubXtK84QcRjWVmYt9RaDyA8gKxdUrPFXmZyaki Virtuals
        WooFif76YGRNjk1pA8wCsN67aQsD9f9iLsz4NcJ1AVb WOOFi
        boop8hVGQGqehUK2iVEMEnMrL5RbjywRzHKBmBE7ry4 boop.fun
        swapFpHZwjELNnjvThjajtiVmkz3yPQEHjLtka2fwHW stabble weighted
    """,
    "order": """
        jupoNjAxXgZ4rjzxzPMP4oxduvQsQtZzyknqvzYNrNu Jupiter Limit v1
        j1o2qRpjcyUwEvwtcfhEQefh773ZgjxcVRry7LDqg5X Jupiter Limit v2
        DCA265Vj8a9CEuX1eb1LWRnDT7uK6q1xMipnNyatn23M Jupiter DCA
        VALaaymxQh2mNy2trH9jUqHT1mTow76wpTcGmSWSwJe Jupiter Value Averaging
    """,
    "lending": """
        jupeiUmn818Jg1ekPURTpr4mFo29p46vygyykFJ3wZC Jupiter Lend liquidity
        jupr81YtYssSyPt8jbnGuiWon5f6x9TcDEFxYe3Bdzi Jupiter Lend vaults
        jup3YeL8QhtSx1e253b2FDvsMNC87fDrgQZivbrndc9 Jupiter Lend earn
        KLend2g3cP87fffoy8q1mQqGKjrxjC8boSyAYavgmjD Kamino Lend
        So1endDq2YkqhipRh3WViPa8hdiSpxWy6z3Z6tMCpAo Save (Solend)
        MFv2hWf31Z9kbCa1snEPYctwafyhdvnV7FZnsebVacA marginfi v2
    """,
    "liquidity": """
        24Uqj9JCLxUeoC3hGfh5W3s9FM9uCHDS2SG3LYwBpyTi Meteora vault
        PERPHjGBqRHArX4DySjwM6UJHiR3sWAatqfdBS2qQJu Jupiter Perpetuals (JLP)
    """,
    "stake": """
        Stake11111111111111111111111111111111111111 Stake
        MarBmsSgKXdrN1egZf5sqe1TMai9K1rChYNDJgjq7aD Marinade
        SP12tWFxD9oJsVWNavTTBZvMbA6gkAmxtVgxdqvyvhY Sanctum SPL stake pool
        unpXTU2Ndrc7WWNyEhQWe4udTzSibLPi25SXv2xbCHQ Sanctum unstake
        SPoo1Ku8WFXoNDMHPsrGSTSG1Y47rzgn41SLUNakuHy SPL Stake Pool
    """,
    "bridge": """
        DLv3NggMiSaef97YCkew5xKUHDh13tVGZ7tydt3ZeAru Across spoke pool
        J88B7gmadHzTNGiy54c9Ms8BsEXNdB2fntFyhKpk3qoT Chainflip swap endpoint
        src5qyZHqTqecJV4aY6Cb6zDZLMDzrDKKezs22MPHr4 deBridge DLN source
        BrdgN2RPzEMWF96ZbnnJaUtQDQx7VRXYaHHbYCBvceWB Allbridge Core
        CCTPmbSD7gX1bxKPAmg77w8oFzNFpaQiQUWD43TKaecd Circle CCTP message transmitter
        CCTPiPYPc6AsJuwueEnWgSgucamXDZwBd53dQ11YiKX3 Circle CCTP token messenger
        FC4eXxkyrMPTjiYUpp4EAnkmwMbQyZ6NDCh1kfLn6vsf Mayan Swap
        BLZRi6frs4X4DNLw56V4EXai1b6QVESN1BhHBTYM9VcY Mayan Swift
        worm2ZoG2kUd4vFXhvjh93UUH596ayRfgQ2MgjNMTth Wormhole core
        wormDTUJ6AWPNvk59vGQbDvGJmqbDTdgWgAqcLBCgUb Wormhole token bridge
        dst5MGcFPoBeREFAA5E3tU5ij8m5uVYwkzkSAbsLbNo deBridge DLN destination
    """,
    "nft": """
        metaqbxxUerdq28cj1RbAWkYQm3ybzjb6a8bt518x1s Metaplex Token Metadata
        BGUMAp9Gq7iTEuizy4pqaxsTyUCBK68MDfK752saRPUY Metaplex Bubblegum
        CoREENxT6tW1HoK8ypY1SxRMZTcVPm7R94rH4PZNhX7d Metaplex Core
        M2mx93ekt1fmXSVkTrUL9xVFHkmME8HTUi5Cyc5aF7K Magic Eden v2
        TSWAPaqyCSx2KABk68Shruf4rp7CxcNi8hAsbdwmHbN Tensor Swap
        TCMPhJdwDryooaGtiocG1u3xcYbRpiJzb283XfCZsDp Tensor cNFT
    """,
}

# Programs without a family of their own: named so that a venue can be told; what they call decides.
NAMES = """
    jupnw4B6Eqs7ft6rxpzYLJZYSnrpRgPcr589n5Kv4oc Jupiter Lend oracle
    3i5JeuZuUxeKtVysUnwQNGerJP2bSMX9fTFfS4Nxe3Br LI.FI tracker
    DeJBGdMFa1uynnnKiwrVioatTuHmNLpyFKnmB5kaFdzQ Assert owner (Phantom)
    pfeeUxB6jkeY1Hxd7CsFCAjcbHA9rWtchMGdZ6VojVZ pump fees
    6qcFe4GKn54r5Vopzu8Cdx2gpwc8MxCD6zAqoUcZGqaE (unknown arbitrage guard)
    B7Av1b2CqhA1y1TLQdyUCyU8w37EMbmL39TPqxUsDaps (unknown wrapper around pump.fun)
    4MNPdKu9wFMvEeZBMt3Eipfs5ovVWTJb31pEXDJAAxX5 Assert owner (Serum)
    L2TExMFKdjpN9kozasaurPirfHy9P8sbXoAN1qA3S95 Lighthouse assertions
    BqirtYFXWbEaQr2VxcDKZ7nehZqNtqrLJbpoUaBpPZ6z NotArb bot
    cmtDvXumGCrqC1Age74AVPhSRVXJMd8PJS91L8KbNCK SPL Account Compression
    noopb9bkMVfRPU8AsbpTUg8AQkHtKwMYZiFUjNRtMmV SPL Noop
    TLPv2tuSVvn3fSk8RgW3yPddkp5oFivzZV3rA9hQxtX Tulip v2 vaults
    12YKFL4mnZz6CBEGePrf293mEzueQM3h8VLPUJsKpGs9 fee relayer (wraps Orca swaps)
    MAyhSmzXzV1pTf7LsNkrNwkWKTo4ougAJ1PPg47MD4e pump.fun Mayhem
    vo1tWgqZMjG61Z2T9qUaMYKqZ75CYzMuaZ2LZP1n7HV stabble vault
    11111111111111111111111111111111 System
    TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA SPL Token
    ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL Associated Token Account
    TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb Token-2022
    MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr Memo
    Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo Memo v1
    ComputeBudget111111111111111111111111111111 Compute Budget
"""

TIP_ACCOUNTS = frozenset(
    """
    DfXygSm4jCyNCybVYYK6DwvWqjKee8pbDmJGcLWNDXjh
    ADuUkR4vqLUMWXxW9gh6D6L8pMSawimctcNZ5pGwDcEt
    HWEoBxYs7ssKuudEjzjmpfJVX7Dvi7wescFsVx2L5yoY
    astrazznxsGUhWShqgNtAdfrzP2G83DzcWVJDxwV9bF
    DttWaMuVvTiduZRnguLF7jNxTgiMBZ1hyAumKUiL2KRL
    HFqU5x63VTqvQss8hp11i4wVV8bD44PvwucfZ2bU7gRe
    moonQBUKBpkifLcTd78bfxxt4PYLwmJ5admLW6cBBs8
    NexTBLockJYZ7QD7p2byrUa6df8ndV2WSd8GkbWqfbb
    astra4uejePWneqNaJKuFFA8oonqCE1sqF6b45kDMZm
    astra9xWY93QyfG6yM8zwsKsRodscjQ2uU2HKNL5prk
    astraEJ2fEj8Xmy6KLG7B3VfbKfsHXhHrNdCQx7iGJK
    astraRVUuTHjpwEVvNBeQEgwYx9w9CFyfxjYoobCZhL
    astraZW5GLFefxNPAatceHhYjfA1ciq9gvfEg2S47xk
    astraubkDw81n4LuutzSQ8uzHCv4BhPVhfvTcYv8SKC
    astrawVNP4xDBKT7rAdxrLYiTSTdqtUr63fSMduivXK
    2nyhqdwKcJZR2vcqCyrYsaPVdAnFoJjiksCXJ7hfEYgD
    2q5pghRs6arqVjRvT5gfgWfWcHWmw1ZuCzphgd5KfWGJ
    3KCKozbAaF75qEU33jtzozcJ29yJuaLJTy2jFdzUY8bT
    4ACfpUFoaSD9bfPdeu6DBt89gB6ENTeHBXCAi87NhDEE
    4TQLFNWK8AovT1gFvda5jfw2oJeRMKEmw7aH6MGBJ3or
    4vieeGHPYPG2MmyPRcYjdiDmmhN3ww7hsFNap8pVN3Ey
    5VY91ws6B2hMmBFRsXkoAAdsPHBJwRfBht4DXox3xkwn
    9bnz4RShgq1hAnLnZbP8kbgBg1kEmcJBYQq3gQbmnSta
    D2L6yPZ2FmmmTKPgzaMKdhu6EWZcTpLy1Vhx8uvZe7NZ
    wyvPkWjVZz1M8fHQnMMCDTQDbkManefNNhweYk5WkcF
    3AVi9Tg9Uo68tJfuvoKvqKNWKkC5wPdSSdeBnizKZ6jT
    96gYZGLnJYVFmbjzopPSU6QiEV5fGqZNyN9nmNhvrZU5
    ADaUMid9yfUytqMBgopwjb2DTLSokTSzL1zt6iGPaS49
    Cw8CFyM9FkoMi7K7Crf6HNQqf4uEMzpKw6QNghXLvLkY
    moonF2sz7qwAtdETnrgxNbjonnhGGjd6r4W4UC9284s
    moonKfftMiGSak3cezvhEqvkPSzwrmQxQHXuspC96yj
    moonXwpKwoVkMegt5Bc776cSW793X1irL5hHV1vJ3JA
    moonZ6u9E2fgk6eWd82621eLPHt9zuJuYECXAYjMY1C
    NEXTbLoCkB51HpLBLojQfpyVAMorm3zzKg7w9NFdqid
    NeXTBLoCKs9F1y5PJS9CKrFNNLU1keHW71rfh7KgA1X
    NexTbLoCkWykbLuB1NkjXgFWkX9oAtcoagQegygXXA2
    NextbLoCkVtMGcV47JzewQdvBpLqT9TxQFozQkN98pE
    nEXTBLockYgngeRmRrjDV31mGSekVPqZoMGhQEZtPVG
    neXtBLock1LeC67jYd1QdAa32kbVeubsfPNTJC1V5At
    nextBLoCkPMgmG8ZgJtABeScP35qLa2AMCNKntAP7Xc
    TEMPaMeCRFAS9EKF53Jd6KpHxgL47uWLcpFArU1Fanq
    noz3jAjPiHuBPqiSPkkugaJDkJscPuRhYnSpbi8UvC4
    noz3str9KXfpKknefHji8L1mPgimezaiUyCHYMDv1GE
    noz6uoYCDijhu1V7cutCpwxNiSovEwLdRHPwmgCGDNo
    noz9EPNcT7WH6Sou3sr3GGjHQYVkN3DNirpbvDkv9YJ
    nozFrhfnNGoyqwVuwPAW4aaGqempx4PU6g6D9CJMv7Z
    nozNVWs5N8mgzuD3qigrCG2UoKxZttxzZ85pvAQVrbP
    nozUacTVWub3cL4mJmGCYjKZTnE9RbdY5AP46iQgbPJ
    nozWCyTPppJjRuw2fpzDhhWbW355fzosWSzrrMYB1Qk
    nozWNju6dY353eMkMqURqwQEoM3SFgEKC6psLCSfUne
    nozc5yT15LazbLTFVZzoNZCwjh3yUtW86LoUyqsBu4L
    nozievPk7HyK1Rqy1MPJwVQ7qQg2QoJGyP71oeDwbsu
    noznbgwYnBLDHu8wcQVCEw6kDrXkPdKkydGJGNXGvL7
    nozpEGbwx4BcGp6pvEdAh1JoC2CQGZdU6HbNP1v2p6P
    nozrhjhkCr3zXT3BiT4WCodYCUFeQvcdUkM7MqhKqge
    nozrwQtWhEdrA6W8dkbt9gnUaMs52PdAv5byipnadq3
    nozxNBgWohjR75vdspfxR5H9ceC7XXH99xpxhVGt3Bb
    3UQUKjhMKaY2S6bjcQD6yHB7utcZt5bfarRCmctpRtUd
    95cfoy472fcQHaw4tPGBTKpn6ZQnfEPfBgDQx6gcRmRg
    FogxVNs6Mm2w9rnGL1vkARSwJxvLE8mujTv3LK8RnUhF
""".split()
)


def _rows(text: str) -> list[list[str]]:
    return [line.strip().split(" ", 1) for line in text.strip().splitlines()]


@dataclass(frozen=True)
class Programs:
    """The table as one value: id -> family, id -> name, and the operator's markers.

    Its repr is the same in every process, for it names the rules that stored entries were read by.
    """

    families: dict[str, str]
    names: dict[str, str]
    markers: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"Programs({self.families!r}, {self.names!r}, {sorted(self.markers)!r})"

    def family(self, program: str) -> str | None:
        """swap | order | lending | liquidity | stake | bridge | nft, or None where what it calls
        decides.
        """
        return self.families.get(program)

    def name(self, program: str) -> str:
        return self.names.get(program, "(unknown program)")

    def is_marker(self, program: str) -> bool:
        """Does this program mark a whole transaction as a trade (EXTRA_SWAP_PROGRAMS)?"""
        return program in self.markers

    def is_pool(self, program: str) -> bool:
        return self.names.get(program) in POOLS


def table(extra_swap_programs: Iterable[str] = ()) -> Programs:
    """The built-in table and the operator's EXTRA_SWAP_PROGRAMS."""
    families = {program: family for family, text in FAMILIES.items() for program, _ in _rows(text)}
    names = {program: name for text in (*FAMILIES.values(), NAMES) for program, name in _rows(text)}
    markers = frozenset(extra_swap_programs)
    for program in sorted(markers):
        families[program] = "swap"
        names.setdefault(program, "(configured swap program)")
    return Programs(families, names, markers)
