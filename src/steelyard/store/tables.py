"""Every table. The only description of the database; migrations are generated from it and frozen.

Long because it is one table after another: a reader looks for a table here, and in no second file.

Conventions: ids are 63-bit integers; times are µs UTC; `*_json` columns are JSON text; quantities are
integers in the class's unit. Interval tables (`valid_from`, `valid_to`, `version`) are never updated
but for the one closing of `valid_to`. `head_*` columns hold the object's own evidence stream head.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    text,
)

metadata = MetaData()


def _id(name: str = "id") -> Column[int]:
    return Column(name, BigInteger, primary_key=True, autoincrement=False)


def _int(name: str, nullable: bool = True) -> Column[int]:
    return Column(name, BigInteger, nullable=nullable)


def _str(name: str, nullable: bool = True) -> Column[str]:
    return Column(name, String, nullable=nullable)


def _text(name: str, nullable: bool = True) -> Column[str]:
    return Column(name, Text, nullable=nullable)


def _flag(name: str) -> Column[bool]:
    return Column(name, Boolean, nullable=False, server_default=text("false"))


def _interval() -> tuple[Column[int], Column[int], Column[int]]:
    return _int("valid_from", False), _int("valid_to"), _int("version", False)


def _heads() -> tuple[Column[int], Column[int], Column[bytes]]:
    return (
        Column("head_n", BigInteger, nullable=False, server_default=text("0")),
        Column("head_seq", BigInteger, nullable=False, server_default=text("-1")),
        Column("head_hash", LargeBinary, nullable=True),
    )


# --- the evidence log ---------------------------------------------------------------------------
log = Table(
    "log",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    _int("size", False),
    Column("frontier", LargeBinary, nullable=False),
    _int("epoch", False),
    _str("origin", False),
    _int("last_ts", False),
)
leaf = Table(
    "leaf",
    metadata,
    _id("seq"),
    _int("ts", False),
    _str("action", False),
    _str("object_kind", False),
    _str("object_id", False),
    _str("outcome", False),
    Column("hash", LargeBinary, nullable=False),
    Column("body", LargeBinary, nullable=False),
)
tile = Table(
    "tile",
    metadata,
    _int("level", False),
    _int("idx", False),
    Column("hashes", LargeBinary, nullable=False),
    PrimaryKeyConstraint("level", "idx"),
)
stream_head = Table(
    "stream_head",
    metadata,
    Column("name", String, primary_key=True),
    _int("n", False),
    _int("seq", False),
    Column("hash", LargeBinary, nullable=False),
)
checkpoint = Table(
    "checkpoint", metadata, _id("size"), _int("ts", False), _str("reason", False), _text("note", False)
)
confidential = Table(
    "confidential",
    metadata,
    Column("digest", String, primary_key=True),
    Column("salt", LargeBinary),
    _text("value"),
    _int("erased_at"),
)
log_key = Table(
    "log_key",
    metadata,
    Column("fingerprint", String, primary_key=True),
    _str("name", False),
    _str("vkey", False),
    _int("from_seq", False),
    _int("created_at", False),
    _int("retired_at"),
)

# --- the installation ---------------------------------------------------------------------------
counter = Table("counter", metadata, Column("name", String, primary_key=True), _int("value", False))
setting = Table("setting", metadata, Column("name", String, primary_key=True), _text("value", False))
lease = Table(
    "lease",
    metadata,
    Column("name", String, primary_key=True),
    _str("holder", False),
    _int("epoch", False),
    _int("expires_at", False),
)
idempotency = Table(
    "idempotency",
    metadata,
    _str("principal", False),
    _str("key", False),
    _str("request_digest", False),
    _int("status", False),
    _text("response_json", False),
    _int("at", False),
    PrimaryKeyConstraint("principal", "key"),
)

# --- organisation and declared objects ----------------------------------------------------------
declared = Table(
    "declared",
    metadata,
    _id(),
    _str("kind", False),
    _str("name", False),
    *_interval(),
    _text("labels_json", False),
    _text("spec_json", False),
    _str("digest", False),
    *_heads(),
    Index("declared_current", "kind", "name", "version", unique=True),
)
org_edge = Table(
    "org_edge",
    metadata,
    _str("kind", False),
    _str("child", False),
    _str("parent"),
    *_interval(),
    _int("org_version", False),
    _str("environment"),
    _str("cost_centre"),
    PrimaryKeyConstraint("kind", "child", "version"),
)
binding = Table(
    "binding",
    metadata,
    _id(),
    _str("name", False),
    _str("user", False),
    _str("role", False),
    _str("project"),
    *_interval(),
    Index("binding_user", "user"),
)
quota_limit = Table(
    "quota_limit",
    metadata,
    _id(),
    _str("tree", False),
    _str("node", False),
    _str("subject", False),
    _int("nominal", False),
    _int("borrowing_limit"),
    _int("lending_limit"),
    _str("on_exceed", False),
    _str("on_lowered"),
    Column("drain_for", BigInteger, nullable=False, server_default="0"),
    _str("declared_by", False),
    *_interval(),
    Index("quota_limit_node", "tree", "node", "subject"),
)
quota_usage = Table(
    "quota_usage",
    metadata,
    _str("tree", False),
    _str("node", False),
    _str("subject", False),
    _int("used", False),
    PrimaryKeyConstraint("tree", "node", "subject"),
)
user = Table(
    "account",
    metadata,
    _id(),
    Column("name", String, nullable=False, unique=True),
    _str("display_name"),
    _str("password_hash"),
    _flag("disabled"),
    _flag("must_change"),
    _int("version", False),
    _int("created_at", False),
    *_heads(),
)
credential = Table(
    "credential",
    metadata,
    _id(),
    _int("user_id", False),
    _str("kind", False),
    _str("name"),
    Column("digest", String, nullable=False, unique=True),
    _int("created_at", False),
    _int("expires_at"),
    _int("revoked_at"),
)

# --- resources ----------------------------------------------------------------------------------
node = Table(
    "node",
    metadata,
    _id(),
    _str("cluster", False),
    _str("name", False),
    _str("availability", False),
    _str("reason"),
    _text("reason_text"),
    _text("labels_json", False),
    _flag("simulated"),
    _int("version", False),
    *_heads(),
    Index("node_name", "cluster", "name", unique=True),
)
#: What a node was: its state and its labels, a row for each change. `set_by`: whose engine says it.
node_state = Table(
    "node_state",
    metadata,
    _int("node_id", False),
    _str("availability", False),
    _str("reason"),
    _text("reason_text"),
    _text("labels_json", False),
    _str("set_by", False),
    *_interval(),
    PrimaryKeyConstraint("node_id", "version"),
    Index("node_state_from", "valid_from"),
)
device = Table(
    "device",
    metadata,
    _id(),
    _str("cluster", False),
    _int("node_id", False),
    _str("uid", False),
    Column("class", String, nullable=False, key="device_class"),
    _str("family", False),
    _str("model", False),
    _int("capacity", False),
    _int("memory"),
    _int("parent_id"),
    _flag("has_children"),
    _str("availability", False),
    _str("reason"),
    _text("reason_text"),
    _flag("simulated"),
    _int("registered_at", False),
    _int("retired_at"),
    _int("version", False),
    *_heads(),
    Index(
        "device_uid",
        "cluster",
        "uid",
        unique=True,
        sqlite_where=text("retired_at IS NULL"),
        postgresql_where=text("retired_at IS NULL"),
    ),
    CheckConstraint("(availability = 'available') = (reason IS NULL)", name="device_reason"),
)
#: What sources said of a device and who was seen on it; no row while it is healthy and nobody was.
device_condition = Table(
    "device_condition",
    metadata,
    _int("device_id", False),
    _str("health", False),
    _text("signs_json", False),
    _text("holders_json", False),
    _int("occupied", False),
    _text("reason_text"),
    *_interval(),
    PrimaryKeyConstraint("device_id", "version"),
    Index(
        "device_condition_open",
        "device_id",
        sqlite_where=text("valid_to IS NULL"),
        postgresql_where=text("valid_to IS NULL"),
    ),
    Index("device_condition_from", "valid_from"),
    Index("device_condition_to", "valid_to"),
)
#: What an operator (or the proof of release) decided about a node or a device: who, when, why, until when.
flag = Table(
    "flag",
    metadata,
    _id(),
    _str("kind", False),  # node | device
    _int("object_id", False),
    _str("cluster", False),
    _str("flag", False),
    _str("drain"),
    *_interval(),
    _str("set_by", False),
    _text("reason", False),
    _str("lifted_by"),
    _text("lift_reason"),
    _int("attempt_id"),
    *_heads(),
    Index(
        "flag_open",
        "object_id",
        "flag",
        unique=True,
        sqlite_where=text("valid_to IS NULL"),
        postgresql_where=text("valid_to IS NULL"),
    ),
    Index("flag_of", "object_id"),
    Index("flag_from", "valid_from"),
)
#: What became of a device that was found, where it was not simply registered: refused, duplicate, retired.
registration = Table(
    "registration",
    metadata,
    _id(),
    _int("at", False),
    _str("cluster", False),
    _str("node", False),
    _str("uid", False),
    _int("device_id"),
    _str("outcome", False),
    _str("reason"),
    _str("source", False),
    _str("set_by", False),
    Index("registration_place", "cluster", "node"),
)
device_fact = Table(
    "device_fact",
    metadata,
    _int("device_id", False),
    _str("key", False),
    _text("value_json", False),
    _str("provenance", False),
    _str("source", False),
    _int("at", False),
    *_interval(),
    PrimaryKeyConstraint("device_id", "key", "version"),
    Index("device_fact_from", "valid_from"),
    Index(
        "device_fact_to",
        "valid_to",
        sqlite_where=text("valid_to IS NOT NULL"),
        postgresql_where=text("valid_to IS NOT NULL"),
    ),
)
pool_member = Table(
    "pool_member",
    metadata,
    _int("device_id", False),
    _str("pool", False),
    _str("flavor"),
    *_interval(),
    PrimaryKeyConstraint("device_id", "pool", "version"),
)
#: When a pool let nothing new in: for what differs from what was declared, or because somebody closed it.
pool_closing = Table(
    "pool_closing",
    metadata,
    _id(),
    _str("pool", False),
    _str("cause", False),  # drift | operator
    _text("findings_json", False),  # what differs; empty where somebody closed it
    _int("closed_at", False),
    _str("closed_by", False),
    _text("close_reason"),
    _int("opened_at"),
    _str("opened_by"),
    _text("open_reason"),
    _int("version", False),
    *_heads(),
    Index(
        "pool_closing_open",
        "pool",
        "cause",
        unique=True,
        sqlite_where=text("opened_at IS NULL"),
        postgresql_where=text("opened_at IS NULL"),
    ),
    Index("pool_closing_of", "pool", "closed_at"),
)
#: The way of a new type of resource into the house, step by step.
resource_admission = Table(
    "resource_admission",
    metadata,
    _id(),
    Column("class", String, nullable=False, key="device_class"),
    _str("family", False),
    _str("model", False),
    _str("state", False),  # open | admitted
    _text("steps_json", False),
    _text("reason"),
    _int("started_at", False),
    _str("started_by", False),
    _int("finished_at"),
    _str("finished_by"),
    _int("version", False),
    *_heads(),
    Index("resource_admission_type", "family", "model", unique=True),
)
#: A real workload that ended well on a model of device: what is verified, by which evidence, until when.
verification = Table(
    "verification",
    metadata,
    _id(),
    _str("kind", False),
    Column("class", String, nullable=False, key="device_class"),
    _str("family", False),
    _str("model", False),
    _str("pool"),
    _str("flavor"),
    _text("environment_json", False),
    _text("software_json", False),
    _int("admission_id"),
    _int("workload_id", False),
    _int("attempt_id", False),
    _int("leaf_seq", False),
    _int("issued_at", False),
    _str("issued_by", False),
    _int("expires_at", False),
    _int("ended_at"),
    _str("ended_by"),
    _text("end_reason"),
    _int("version", False),
    *_heads(),
    Index("verification_model", "family", "model", "kind"),
)
observation = Table(
    "observation",
    metadata,
    Column("cluster", String, primary_key=True),
    _int("as_of", False),
    _int("version", False),
    _flag("reachable"),
    *_heads(),
)
coverage = Table(
    "coverage",
    metadata,
    _str("cluster", False),
    _int("t0", False),
    _int("t1"),
    _str("reason", False),
    PrimaryKeyConstraint("cluster", "t0"),
)
quarantine = Table(
    "quarantine",
    metadata,
    _int("device_id", False),
    _int("attempt_id", False),
    _int("quantity", False),
    _str("reason", False),
    _int("t0", False),
    _int("t1"),
    PrimaryKeyConstraint("device_id", "attempt_id"),
)
#: A release that was not proven: one for each attempt that left something in quarantine.
unproven_release = Table(
    "unproven_release",
    metadata,
    _id("attempt_id"),
    _int("workload_id", False),
    _str("project", False),
    _text("clusters_json", False),
    _str("state", False),
    _int("quarantined_at", False),
    _text("reasons_json", False),
    _text("seen_json", False),
    _str("asked"),
    _str("asked_by"),
    _text("asked_reason"),
    _int("asked_at"),
    _text("answer_json"),
    _int("fenced_at"),
    _int("closed_at"),
    _str("closed_by"),
    _text("receipt_json"),
    _int("version", False),
    *_heads(),
    Index(
        "unproven_release_open",
        "quarantined_at",
        sqlite_where=text("closed_at IS NULL"),
        postgresql_where=text("closed_at IS NULL"),
    ),
)

# --- workloads ----------------------------------------------------------------------------------
shape = Table(
    "shape", metadata, _id(), Column("key", String, nullable=False, unique=True), _text("body_json", False)
)
workload = Table(
    "workload",
    metadata,
    _id(),
    _str("name", False),
    _str("namespace", False),
    _str("project", False),
    _str("kind", False),
    _str("queue", False),
    _str("priority_class", False),
    _int("priority", False),
    _int("shape_id", False),
    _str("phase", False),
    _str("outcome"),
    _int("attempt", False),
    _str("submitter", False),
    _text("spec_json", False),
    _int("submitted_at", False),
    _int("finished_at"),
    _int("cancel_requested_at"),
    _str("cancel_reason"),
    _int("version", False),
    *_heads(),
    _int("group_id"),  # the first of the workloads that belong together
    _int("group_index"),
    _flag("guaranteed"),
    _flag("standby"),  # born without being wanted yet …
    _int("activated_at"),  # … until then
    _int("starving_bound"),  # µs within which it should have started; null: it has not waited so long
    Index("workload_project", "project", "id"),
    Index(
        "workload_group_members",
        "group_id",
        sqlite_where=text("group_id IS NOT NULL"),
        postgresql_where=text("group_id IS NOT NULL"),
    ),
    Index(
        "workload_ended_badly",
        "finished_at",
        sqlite_where=text("outcome IN ('failed', 'timed-out', 'lost')"),
        postgresql_where=text("outcome IN ('failed', 'timed-out', 'lost')"),
    ),
    Index(
        "workload_live",
        "phase",
        "id",
        sqlite_where=text("phase <> 'finished'"),
        postgresql_where=text("phase <> 'finished'"),
    ),
)
Index(
    "workload_waiting",
    workload.c.queue,
    workload.c.priority.desc(),
    workload.c.submitted_at,
    workload.c.id,
    workload.c.project,
    workload.c.namespace,
    sqlite_where=text("phase = 'queued'"),
    postgresql_where=text("phase = 'queued'"),
)
workload_group = Table(  # replicas of a service, or tasks of an array: what is wanted of them
    "workload_group",
    metadata,
    _id(),  # of its first workload
    _str("kind", False),  # service | array
    _int("wanted", False),  # replicas that are to run, tasks that may run at a time
    _int("guaranteed", False),
    _int("most", False),  # replicas at most, tasks in all
    _flag("lend"),
    _int("next_index", False),
    _int("stopped_at"),
)
use = Table(  # of attempts that have an idle limit, by the newest samples; null: not known
    "attempt_use",
    metadata,
    _id("attempt_id"),
    _int("sampled_at"),
    _int("idle_for", False),
    _int("known", False),
    _int("cpu"),
    _int("device"),
)
evaluation = Table(
    "evaluation",
    metadata,
    _id("workload_id"),
    _int("attempt_id", False),
    _int("model_workload"),
    _str("state", False),
    _str("digest"),
    _int("bytes"),
    _text("result_json"),
    _int("recorded_at", False),
    Index("evaluation_model", "model_workload"),
)
role = Table(
    "role",
    metadata,
    _int("workload_id", False),
    _str("name", False),
    _int("ordinal", False),
    _int("count", False),
    _int("next_index", False),
    _text("request_json", False),
    PrimaryKeyConstraint("workload_id", "name"),
)
attempt = Table(
    "attempt",
    metadata,
    _id(),
    _int("workload_id", False),
    _int("number", False),
    _str("phase", False),
    _str("sub_stage"),
    _str("cluster"),
    _flag("simulated"),
    _str("queue", False),
    _str("revision"),
    _int("priority", False),
    _int("submitted", False),
    _int("eligible"),
    _int("reserved"),
    _int("placed"),
    _int("started"),
    _int("ready"),
    _int("stopping"),
    _int("ended"),
    _int("release_confirmed"),
    _int("not_before"),
    _str("stop_reason"),
    _str("outcome"),
    _text("verdict_json"),
    _str("failure_signature"),  # of a verdict that is a failure: equal for those of one kind
    _str("failure_stage"),
    _str("failure_group"),
    _text("avoid_json"),  # nodes on which an attempt before it failed, through no fault of its own
    _int("joins_off"),  # since when nobody joins it any more: one could not start
    _int("policy_version"),
    _int("cycle_id"),
    _int("version", False),
    Index("attempt_workload", "workload_id", "number", unique=True),
    Index(
        "attempt_failure",
        "failure_signature",
        sqlite_where=text("failure_signature IS NOT NULL"),
        postgresql_where=text("failure_signature IS NOT NULL"),
    ),
)
member = Table(
    "member",
    metadata,
    _id(),
    _int("attempt_id", False),
    _str("role", False),
    _int("idx", False),
    _str("phase", False),
    _str("cluster", False),
    _int("node_id", False),
    _int("started_at"),
    _int("ended_at"),
    _int("exit_code"),
    _int("exit_signal"),
    _str("failure"),
    _str("endpoint"),
    _str("limits"),
    _flag("apart"),  # started, stopped and released by itself: its attempt can go on without it
    _int("leaving_at"),  # asked to stop while its attempt goes on
    _int("released_at"),
    _int("joined_at"),  # while its attempt ran already
    Index("member_attempt", "attempt_id"),
)
allocation = Table(
    "allocation",
    metadata,
    _id(),
    _int("member_id", False),
    _int("attempt_id", False),
    _str("cluster", False),
    _int("node_id", False),
    _int("device_id"),
    _str("flavor", False),
    Column("class", String, nullable=False, key="device_class"),
    _str("dimension", False),
    _int("quantity", False),
    _str("share_kind", False),
    _int("t0", False),
    _int("t1"),
    _int("org_version", False),
    _int("policy_version", False),
    _str("queue", False),
    _str("quota_basis", False),
    _str("lender"),
    Index("allocation_attempt", "attempt_id"),
    Index("allocation_device", "device_id", "t0"),
    Index(
        "allocation_open", "device_id", sqlite_where=text("t1 IS NULL"), postgresql_where=text("t1 IS NULL")
    ),
    Index(
        "allocation_ended", "t1", sqlite_where=text("t1 IS NOT NULL"), postgresql_where=text("t1 IS NOT NULL")
    ),
)
shape_reason = Table(
    "shape_reason",
    metadata,
    _int("shape_id", False),
    _int("t0", False),
    _int("t1"),
    _int("cycle_id", False),
    _text("reasons_json", False),
    _flag("approximate"),
    Column("looks", BigInteger, nullable=False, server_default="1"),  # how often it was found
    PrimaryKeyConstraint("shape_id", "t0"),
    Index(
        "shape_reason_open", "shape_id", sqlite_where=text("t1 IS NULL"), postgresql_where=text("t1 IS NULL")
    ),
)
wait_slice = Table(
    "wait_slice",
    metadata,
    _int("attempt_id", False),
    _int("t0", False),
    _int("t1", False),
    _str("reason", False),
    PrimaryKeyConstraint("attempt_id", "t0"),
)
hold = Table("hold", metadata, _id("attempt_id"), _int("at", False), _text("plan_json", False))
eviction = Table(
    "eviction",
    metadata,
    _id("attempt_id"),
    _int("workload_id", False),
    _int("preemptor_id"),  # NULL: it stopped for nobody, a limit was lowered
    _str("rule", False),
    _int("policy_version", False),
    _text("quantity_json", False),
    _int("lost_time", False),
    _int("at", False),
    _int("cycle_id"),  # NULL from here on: of an eviction from before this was recorded
    _str("queue"),  # the victim's, where it waits again
    _int("priority"),
    _int("preemptor_attempt_id"),
    _str("preemptor_queue"),
    _int("preemptor_priority"),
    _text("requested_json"),  # by class, what the preemptor asks for; in one of its evictions of a cycle only
    _text("shares_json"),  # where shares decided
    _text("limit_json"),  # where a limit was lowered: which, what it is, what was used
    _int("saved_at"),  # µs: up to when the victim's work is known to be saved
    _int("shrunk_id"),  # of a gang that goes on: its attempt; `attempt_id` is the first member that leaves
    _text("members_json"),  # of such a gang: who leaves
    _int("stay"),  # … and with how many members it goes on
    Index("eviction_at", "at"),
    Index("eviction_preemptor", "preemptor_id"),
)
receipt = Table(
    "receipt",
    metadata,
    _id("attempt_id"),
    _str("state", False),
    _int("confirmed_at", False),
    _str("control", False),
    _str("ledger", False),
    _str("probe", False),
    _text("checks_json", False),
    _text("residue_json", False),
    _int("probed_at"),
    _text("counts_json"),
    _text("reasons_json"),
)
refusal = Table(
    "refusal",
    metadata,
    _id(),
    _int("at", False),
    _str("principal", False),
    _str("submitter", False),
    _str("project"),
    _str("namespace"),
    _str("name"),
    _str("kind"),
    _str("request_digest", False),
    _text("asked_json", False),
    _text("reasons_json", False),
    _flag("complete"),
    _int("policy_version", False),
    _str("review_state", False),
    _str("failure_signature"),
    _str("failure_stage"),
    *_heads(),
    Index("refusal_failure", "failure_signature"),
)
cycle = Table(
    "cycle",
    metadata,
    _id(),
    _int("at", False),
    _int("log_size", False),
    Column("last_hash", LargeBinary),
    _text("observations_json", False),
    _int("policy_version", False),
    _text("decisions_json", False),
    _text("reasons_json", False),
)

#: Decayed use by whom it was, as of instants of a fixed grid; what cycles in between rest on.
use_history = Table(
    "use_history",
    metadata,
    _id("at"),
    _text("body_json", False),
)

#: When an attempt that waits was first expected to start (`[earliest, latest]`; null: not known, and why).
start_estimate = Table(
    "start_estimate",
    metadata,
    _id("attempt_id"),
    _int("made_at", False),
    _int("earliest"),
    _int("latest"),
    _str("why"),
    Index("start_estimate_made", "made_at"),
)

#: What room on devices can still earn, as of when it was made; cycles rest on the list they name.
price_list = Table("price_list", metadata, _id("at"), _text("body_json", False))

#: How long work of a template or a kind took, as it was learned at an instant; cycles rest on what they name.
run_times = Table("run_times", metadata, _id("at"), _text("body_json", False))

# --- usage ----------------------------------------------------------------------------------------
capacity_segment = Table(
    "capacity_segment",
    metadata,
    _int("device_id", False),
    _int("t0", False),
    _int("t1", False),
    _str("cluster", False),
    _str("pool"),
    Column("class", String, nullable=False, key="device_class"),
    _str("dimension", False),
    _int("capacity", False),
    _str("availability", False),
    _str("reason"),
    _flag("simulated"),
    PrimaryKeyConstraint("device_id", "t0"),
)
unheld_segment = Table(
    "unheld_segment",
    metadata,
    _int("device_id", False),
    _int("t0", False),
    _int("t1", False),
    _str("state", False),
    _str("reason", False),
    _int("quantity", False),
    _str("cluster", False),
    Column("class", String, nullable=False, key="device_class"),
    _flag("simulated"),
    PrimaryKeyConstraint("device_id", "t0", "state", "reason"),
)
holding_segment = Table(
    "holding_segment",
    metadata,
    Column("record_id", LargeBinary, primary_key=True),
    _int("device_id"),
    _int("allocation_id", False),
    _str("cluster", False),
    Column("class", String, nullable=False, key="device_class"),
    _str("dimension", False),
    _str("flavor", False),
    _str("share_kind", False),
    _int("quantity", False),
    _int("t0", False),
    _int("t1", False),
    _str("state", False),
    _int("workload_id", False),
    _int("attempt_id", False),
    _str("kind", False),
    _str("queue", False),
    _int("priority", False),
    _int("policy_version", False),
    _str("submitter", False),
    _str("namespace", False),
    _str("project", False),
    _str("team"),
    _str("environment"),
    _str("cost_centre"),
    _int("org_version", False),
    _str("attribution", False),
    _str("quota_basis", False),
    _str("lender"),
    _str("end_reason"),
    _str("failure_stage"),
    _str("failure_code"),
    _str("release", False),
    _flag("simulated"),
    Index("holding_time", "t0"),
)
#: The open state of the meter: what each device is doing since when. The only usage rows ever updated.
device_meter = Table(
    "device_meter",
    metadata,
    _id("device_id"),
    _int("capacity_since", False),
    _text("unheld_json", False),
    _int("held", False),
    _int("version", False),
)
