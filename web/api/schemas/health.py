"""The key that is asking, and the health of the instance."""

from typing import Literal

from web.api.schemas.base import (
    Address,
    Exact,
    Shape,
    Signature,
    Simulation,
    Time,
    Whole,
    absent,
    described,
)
from web.api.schemas.wallets import Quote

JobState = Literal["ok", "failing", "late", "off", "unknown"]


class AllowanceWindow(Shape):
    """What is left in one window of the owner's allowance."""

    window: Literal["minute", "hour", "day", "posts_minute"]
    limit: int
    remaining: int
    resetSeconds: int


class Me(Shape):
    """The key that is asking."""

    kind: Literal["read", "publish"]
    keyId: str
    ownerId: str
    botId: str | None = described("the bot a publishing key posts for")
    windows: list[AllowanceWindow]


class JobHealth(Shape):
    """A background job. It is failing where its passes fail for longer than 40 seconds beyond its
    interval, or by a fault of this program; before that lastError tells of it, and the status of
    this instance.
    """

    state: JobState
    heartbeatAt: Time | None
    ageSeconds: int | None = described("since the heartbeat")
    lastSuccessAt: Time | None
    lastError: str | None


class EngineHealth(Shape):
    """The heartbeat of the paper engine."""

    heartbeatAt: Time | None
    ageSeconds: int | None
    state: JobState


class WalletLag(Shape):
    """How far behind one wallet is."""

    wallet: Address
    lagSeconds: int | None = described("since it was polled; null while it never was")
    pending: int


class TroubledWallet(Shape):
    """A wallet that observing fails for at present; the others are observed all the same."""

    wallet: Address
    reason: str
    since: Time
    tries: int = described("failures in a row; each makes the pause before the next try longer")


class RefusedReceipt(Shape):
    """A receipt nothing could be derived from."""

    wallet: Address
    signature: Signature
    slot: int
    reason: str


class QuoteDifference(Quote):
    """What books in a stablecoin leave over."""

    differenceRaw: Whole
    difference: Exact


class WalletDifference(Shape):
    """A wallet whose books do not close, though no transaction is missing: to the lamport, or to
    the raw unit of a stablecoin.
    """

    wallet: Address
    differenceLamports: Whole
    byQuote: list[QuoteDifference]


class WalletNearLimit(Shape):
    """A wallet that used 80% or more of the limit on transactions or on token accounts. At 100%
    the oldest transactions, or accounts of tokens it never traded, may be left out.
    """

    wallet: Address
    percent: int


class BellHealth(Shape):
    """Whether nodes tell of transactions by themselves. silent: none does, and polls alone find
    them; unknown: the job that listens has not said anything lately.
    """

    state: Literal["listening", "silent", "off", "unknown"]
    heard: int = described("wallets of which a node tells everything")
    refused: int = described("subscriptions that nodes refused on their last connections")
    subscriptions: int
    lastNoticeAt: Time | None = described("when a node last told of something")
    endpoints: dict[str, Literal["connecting", "listening", "resting"]]


class ObserverHealth(JobHealth):
    """The job that observes wallets, and what it is behind with."""

    wallets: int
    lagSeconds: int | None = described("of the wallet polled longest ago")
    pending: int
    byWallet: list[WalletLag] = described("the ones polled longest ago")
    damagedCoverage: list[Address] = described(
        "of these, whose stored coverage cannot be read: the next poll writes it anew"
    )
    refused: list[RefusedReceipt]
    nearLimit: list[WalletNearLimit] = described("wallets near MAX_RECEIPTS_PER_WALLET")
    troubled: list[TroubledWallet] = described("wallets that observing fails for at present")
    troubledWallets: int
    differences: list[WalletDifference] = described("a defect of this program: please report it")
    walletsWithDifference: int
    requestsLastMinute: int | None = described("that nodes were asked; null before the first pass")
    endpoints: int | None
    resting: dict[str, float] | None = described("seconds that a node is left alone, by its name")
    waitingFor: str | None
    bell: BellHealth


class FeedHealth(Shape):
    """A part of the scout's work; waiting: it was not asked for yet."""

    state: Literal["ok", "failing", "late", "off", "unknown", "waiting"]
    lastSuccessAt: Time | None
    ageSeconds: int | None = described("since the last success")
    lastAttemptAt: Time | None
    lastError: str | None
    droppedRows: int = described("unreadable rows of the last answers, left out")


class DiscoveryHealth(FeedHealth):
    """Finding and pricing tokens."""

    feeds: dict[str, FeedHealth] = described("by question and provider")


class ProviderBudget(Shape):
    """What a provider was asked on this UTC day, and what its published limits allow in one."""

    requestsToday: int
    allowedToday: int
    heldBackToday: int = described(
        "how often its limits, or a wish to be left alone, made requests wait for a later pass"
    )
    heldBackAt: Time | None = described("when that last happened today")


class ScoutHealth(JobHealth):
    """The job that looks at the market."""

    discovery: DiscoveryHealth
    safety: FeedHealth
    budgets: dict[str, ProviderBudget] = described("by provider; empty before the first pass")


class DatabaseHealth(Shape):
    """The database: the version of what it is, and how it keeps its journal."""

    ok: bool
    sqlite: str = absent("the version, where it is SQLite")
    postgresql: str | None = absent("the version, where it is PostgreSQL")
    journal: str | None
    writable: bool = described(
        "false where the last write failed or one would: the disk is full, or somebody keeps it"
        " locked"
    )
    problem: str | None = described("why it is not writable, in a sentence")


class AllowanceHealth(Shape):
    """The counters of the allowance: without them no keyed request is served."""

    ok: bool
    store: Literal["file", "redis"]


class QuotaUse(Shape):
    """A quota of owners, none of whom is named."""

    quota: str
    setting: str = described("the operator's setting of it")
    limit: int
    mostUsed: int = described("by the owner who uses most of it")
    ownersAtLimit: int


class UseHealth(Shape):
    """How much of the instance is used."""

    databaseBytes: int
    quotas: list[QuotaUse]


class ConnectionsHealth(Shape):
    """Connections of clients, in all workers."""

    maxPerAddress: int | None = described(
        "open at once from one address, in each worker; null behind a proxy"
    )
    closed: int = described("closed since the start, for an address that had too many")


class ProgramsHealth(Shape):
    """What the operator put beside the built-in table of programs."""

    markers: list[Address] = described(
        "EXTRA_SWAP_PROGRAMS: a transaction that calls one of them is a trade as a whole"
    )
    added: int = described("programs that DATA_DIR/programs.csv adds to the table")


class Health(Shape):
    """Whether this instance serves, and how its jobs are. Jobs are left out while it is down."""

    status: Literal["ok", "degraded", "down"]
    mode: Literal["simulated"] = described("of the engine: it never trades")
    simulated: Simulation
    engine: EngineHealth = absent("the engine's heartbeat")
    strategyEngine: JobHealth = absent("the job that plays paper mode")
    walletObserver: ObserverHealth = absent("the job that observes wallets")
    scout: ScoutHealth = absent("the job that looks at the market")
    database: DatabaseHealth
    allowance: AllowanceHealth
    connections: ConnectionsHealth
    programs: ProgramsHealth
    use: UseHealth = absent("how much of the instance is used")
    version: str


class MarketHealth(Shape):
    """How the scout's work goes."""

    discovery: DiscoveryHealth
    safety: FeedHealth
    budgets: dict[str, ProviderBudget] = described("by provider; empty before the first pass")
