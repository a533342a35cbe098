"""The client: one method for each thing that can be asked of a server."""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, cast
from urllib.parse import quote

from steelyard.client.errors import ApiError, NotReachableError, WaitTimeoutError
from steelyard.client.execution import Execution, open_execution
from steelyard.client.releases import ReleaseRequests
from steelyard.client.requests import PAGE
from steelyard.client.transport import parsed
from steelyard.client.views import ApplyResult, Json, LogChunk, WorkloadRow, WorkloadView
from steelyard.model.execution import TerminalSize

_RECONNECTS = 3  # of a followed log, without a byte between them
_POLL = (0.1, 1.0)  # seconds: the first pause of a wait, and the longest
#: How long what reads the whole house may take: minutes, where hundreds of thousands of workloads have run.
AUDIT_SECONDS = 1800.0
#: Workloads in one request of `submit_many`.
BULK = 500


class Client(ReleaseRequests):
    """A server as a program sees it. Usable as a context manager; not shared between threads.

    Methods raise `ApiError` for a problem the server answered with and `NotReachableError` where there
    is no answer. Times are µs UTC.
    """

    # --- who we are -------------------------------------------------------------------------------

    def login(self, user: str, password: str) -> Json:
        """Opens a session and uses it from now on: {token, expires_at, user}."""
        opened = self._post("/v1/sessions", {"user": user, "password": password}, repeatable=False)
        self._transport.token = opened["token"]
        return cast(Json, opened)

    def logout(self) -> None:
        """Ends the session."""
        self._delete("/v1/sessions/current")
        self._transport.token = None

    def me(self) -> Json:
        """The own name and bindings."""
        return cast(Json, self._get("/v1/me"))

    def users(self) -> list[Json]:
        """All users."""
        return self._items("/v1/users")

    def create_user(self, name: str, display_name: str | None = None) -> Json:
        """A new user, with a one-time password that is shown once."""
        body = {"name": name} | ({"display_name": display_name} if display_name else {})
        return cast(Json, self._post("/v1/users", body, repeatable=False))

    def set_password(self, name: str, new: str, old: str | None = None) -> None:
        """Sets a password; the own one needs the old."""
        body = {"new": new} | ({"old": old} if old is not None else {})
        self._post(f"/v1/users/{_part(name)}/password", body, repeatable=False)

    def disable_user(self, name: str) -> Any:
        """Ends a user's sessions and tokens."""
        return self._post(f"/v1/users/{_part(name)}/disable")

    def tokens(self) -> list[Json]:
        """Tokens, without their secrets."""
        return self._items("/v1/tokens")

    def create_token(
        self, name: str, user: str | None = None, expires_in: int | str | None = None
    ) -> Json:
        """A new token, shown once. `expires_in`: seconds, or a text such as `30d`; None: until revoked."""
        body: Json = {"name": name}
        if user is not None:
            body["user"] = user
        if expires_in is not None:
            body["expires_in"] = expires_in
        return cast(Json, self._post("/v1/tokens", body, repeatable=False))

    def revoke_token(self, token_id: str) -> None:
        """Ends a token."""
        self._delete(f"/v1/tokens/{_part(token_id)}")

    # --- declared objects -------------------------------------------------------------------------

    def apply(self, documents: list[Json], *, dry_run: bool = False) -> list[ApplyResult]:
        """Declares objects: what became of each, with its differences."""
        answer = self._post("/v1/objects:apply", {"documents": documents}, query={"dry_run": dry_run})
        return cast(list[ApplyResult], answer["results"])

    def diff(self, documents: list[Json]) -> list[ApplyResult]:
        """What `apply` would do."""
        return self.apply(documents, dry_run=True)

    def export(self) -> list[Json]:
        """All declared documents in the order in which they can be applied."""
        answer = self._get("/v1/objects:export")
        return cast(list[Json], answer if isinstance(answer, list) else _first(answer, "documents", "items"))

    def objects(self, kind: str, *, at: int | None = None) -> list[Json]:
        """Declared objects of a kind, now or at an instant."""
        return self._items("/v1/objects", {"kind": kind, "at": at})

    def object(self, kind: str, name: str) -> Json:
        """One declared object."""
        return cast(Json, self._get(f"/v1/objects/{_part(kind)}/{_part(name)}"))

    def object_history(self, kind: str, name: str) -> list[Json]:
        """Its versions."""
        return self._items(f"/v1/objects/{_part(kind)}/{_part(name)}/history")

    def retire(self, kind: str, name: str) -> Any:
        """Retires an object."""
        return self._delete(f"/v1/objects/{_part(kind)}/{_part(name)}")

    # --- workloads --------------------------------------------------------------------------------

    def submit(self, document: Json, *, dry_run: bool = False, key: str | None = None) -> Json:
        """Submits a workload: its view, or with `dry_run` {would, reasons, placement}.

        `key` is the Idempotency-Key: the same key with the same document makes one workload, however
        often it is sent. Raises ApiError with code `refused` and all reasons.
        """
        return cast(Json, self._post("/v1/workloads", document, key=key, query={"dry_run": dry_run}))

    def submit_many(self, documents: list[Json], *, key: str | None = None) -> list[Json]:
        """Submits many workloads, `BULK` a request: for each in its order {status, id, problem, replayed}.

        One that is refused leaves the others alone; nothing is raised for it. With `key` the same
        documents make each workload once, however often they are sent.
        """
        results: list[Json] = []
        for number, begin in enumerate(range(0, len(documents), BULK)):
            part = None if key is None else f"{key}.{number}"
            body = {"documents": documents[begin : begin + BULK]}
            results += self._post("/v1/workloads:submit", body, key=part)["results"]
        return results

    def workloads(self, most: int | None = None, **query: str | int | bool | None) -> list[WorkloadRow]:
        """Workloads, the newest first; `query` as in the API (project, phase, outcome, queue, q …)."""
        return cast(list[WorkloadRow], self._items("/v1/workloads", query, most))

    def workload(self, workload_id: str) -> WorkloadView:
        """The page of one workload."""
        return cast(WorkloadView, self._get(f"/v1/workloads/{_part(workload_id)}"))

    def find(self, name: str) -> str:
        """The id of a workload by id or by name, the newest of that name. Raises ApiError not-found."""
        if name.startswith("wl_"):
            return name
        for row in self.workloads(PAGE, q=name, order="newest"):
            if row["name"] == name:
                return row["id"]
        raise ApiError(404, {"code": "not-found", "params": {"kind": "workload", "id": name[:80]}})

    def refusal(self, refusal_id: str) -> Json:
        """One refusal."""
        return cast(Json, self._get(f"/v1/refusals/{_part(refusal_id)}"))

    def explain(self, workload_id: str) -> Json:
        """Why it waits, now, asked of the scheduler itself."""
        return cast(Json, self._get(f"/v1/workloads/{_part(workload_id)}/explanation"))

    def cancel(self, workload_id: str, *, version: int | None = None) -> WorkloadView:
        """Asks a workload to end; one that waits is withdrawn."""
        return self._act(workload_id, "cancel", version)

    def retry(self, workload_id: str, *, version: int | None = None) -> WorkloadView:
        """Lets a finished workload try again."""
        return self._act(workload_id, "retry", version)

    def scale(self, workload_id: str, replicas: int, *, version: int | None = None) -> WorkloadView:
        """Asks for another number of replicas of a service."""
        return self._act(workload_id, "scale", version, {"replicas": replicas})

    def hold(self, workload_id: str, *, version: int | None = None) -> WorkloadView:
        """Takes a waiting workload out of the queue."""
        return self._act(workload_id, "hold", version)

    def release(self, workload_id: str, *, version: int | None = None) -> WorkloadView:
        """Puts a held workload back into the queue."""
        return self._act(workload_id, "release", version)

    def _act(self, number: str, verb: str, version: int | None, body: Json | None = None) -> WorkloadView:
        path = f"/v1/workloads/{_part(number)}/{verb}"
        return cast(WorkloadView, self._post(path, body, version=version))

    def log_chunk(self, workload_id: str, member: str | None = None, offset: int = 0) -> LogChunk:
        """A piece of a member's log from a byte offset."""
        path = f"/v1/workloads/{_part(workload_id)}/logs"
        return cast(LogChunk, self._get(path, {"member": member, "offset": offset}))

    def logs(self, workload_id: str, member: str | None = None) -> Iterator[bytes]:
        """What a member has written so far."""
        offset = 0
        while True:
            chunk = self.log_chunk(workload_id, member, offset)
            data = base64.b64decode(chunk["data_base64"])
            if data:
                yield data
            if not data or chunk["next_offset"] <= offset:
                return
            offset = chunk["next_offset"]

    def follow_logs(self, workload_id: str, member: str | None = None) -> Iterator[bytes]:
        """What a member writes, as it comes, until it has ended. A lost connection is taken up again."""
        path = f"/v1/workloads/{_part(workload_id)}/logs/stream"
        offset, failures = 0, 0
        while True:
            try:
                for name, data in self._transport.stream(path, query={"member": member, "offset": offset}):
                    if name == "log":
                        failures, piece = 0, base64.b64decode(data)
                        offset += len(piece)
                        yield piece
                    elif name == "error":
                        raise ApiError(503, parsed(data) or {})
                    elif name == "end":
                        return
                return
            except NotReachableError:
                failures += 1
                if failures >= _RECONNECTS:
                    raise
                self._sleep(1.0)

    def execute(
        self,
        workload_id: str,
        command: Sequence[str],
        member: str | None = None,
        *,
        terminal: TerminalSize | None = None,
        term: str | None = None,
    ) -> Execution:
        """Runs a command beside a member that runs, in its surroundings; it ends when it is let go.

            with client.execute("wl_…", ["nvidia-smi"]) as running:
                output = b"".join(data for _, data in running.pieces())
        """
        request: Json = {"command": list(command)}
        if terminal is not None:
            request["terminal"] = {"rows": terminal.rows, "columns": terminal.columns}
        if term is not None:
            request["term"] = term
        transport = self._transport
        return open_execution(transport.url, transport.token, self._lang, workload_id, member, request)

    def attach(self, workload_id: str, member: str | None = None) -> Execution:
        """The terminal of a member's own program, where it has one; letting go of it ends nothing."""
        transport = self._transport
        return open_execution(transport.url, transport.token, self._lang, workload_id, member, None)

    def events(self) -> Iterator[Json]:
        """Changes as they happen: {kind, id, phase, version}."""
        for name, data in self._transport.stream("/v1/events/stream"):
            if name == "change" and isinstance(found := parsed(data), dict):
                yield found

    def wait(
        self,
        workload_id: str,
        until: str | Collection[str] = "finished",
        *,
        timeout: float | None = None,
        on_change: Callable[[WorkloadView], None] | None = None,
    ) -> WorkloadView:
        """Waits until the workload is in one of the phases, or has finished. `timeout` in seconds.

        Raises WaitTimeoutError with the phase it was last seen in.
        """
        wanted = {until} if isinstance(until, str) else set(until)
        deadline = None if timeout is None else self._clock() + timeout
        pause, seen = _POLL[0], -1
        while True:
            view = self.workload(workload_id)
            if view["version"] != seen:
                seen, pause = view["version"], _POLL[0]
                if on_change is not None:
                    on_change(view)
            if view["phase"] in wanted or view["phase"] == "finished":
                return view
            if deadline is not None and self._clock() >= deadline:
                raise WaitTimeoutError(
                    "wait-timed-out", id=workload_id, seconds=int(timeout or 0), phase=view["phase"]
                )
            self._sleep(pause)
            pause = min(pause * 1.5, _POLL[1])

    # --- resources --------------------------------------------------------------------------------

    def inventory(self, **query: str | int | bool | None) -> list[Json]:
        """Nodes with their devices; `query`: cluster, class, pool."""
        return self._items("/v1/inventory", query)

    def inventory_summary(self) -> Json:
        """Clusters, and capacity by class."""
        return cast(Json, self._get("/v1/inventory/summary"))

    def device(self, device_id: str) -> Json:
        """A device with the history of its facts."""
        return cast(Json, self._get(f"/v1/devices/{_part(device_id)}"))

    def queues(self) -> list[Json]:
        """The queue tree with limits and use."""
        return self._items("/v1/queues")

    def quotas(self) -> list[Json]:
        """The organisation tree with limits and use."""
        return self._items("/v1/quotas")

    # --- evidence ---------------------------------------------------------------------------------

    def refusals(self, most: int | None = None, *, project: str | None = None) -> list[Json]:
        """Refusals, the newest first."""
        return self._items("/v1/refusals", {"project": project}, most)

    def failures(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        project: str | None = None,
        stage: str | None = None,
        group: str | None = None,
        order: str | None = None,
        limit: int | None = None,
    ) -> Json:
        """Failed attempts and refusals by signature, the worst first; `order`: count, lost-time, newest."""
        query = {"from": start, "to": end, "project": project, "stage": stage, "group": group}
        return cast(Json, self._get("/v1/failures", {**query, "order": order, "limit": limit}))

    def usage(self, start: int | None = None, end: int | None = None, by: str | None = None) -> Json:
        """Who used what in `[start, end)` (µs UTC), summed by the keys of `by`."""
        return cast(Json, self._get("/v1/usage", {"from": start, "to": end, "by": by}))

    def review(self, start: int | None = None, end: int | None = None) -> Json:
        """Five questions on `[start, end)` (µs UTC): {answers: {question: {code, params, rows}}}."""
        return cast(Json, self._get("/v1/usage/review", {"from": start, "to": end}))

    def audit_leaves(
        self, stream: str | None = None, *, after: int | None = None, most: int | None = None
    ) -> Json:
        """Log entries of a stream: {stream, head, items}."""
        return cast(Json, self._get("/v1/audit/leaves", {"stream": stream, "after": after, "limit": most}))

    def audit_checkpoint(self) -> Json:
        """The newest signed checkpoint."""
        return cast(Json, self._get("/v1/audit/checkpoint"))

    def audit_proof(self, seq: int) -> str:
        """That an entry is in the log, as text."""
        return self.download(f"/v1/audit/proof/{seq}", method="GET").decode("utf-8", "replace")

    def audit_consistency(self, start: int, end: int) -> Any:
        """That the log only grew between two sizes."""
        return self._get("/v1/audit/consistency", {"from": start, "to": end})

    def audit_checks(self) -> Json:
        """Runs the checks of conservation and integrity: {ok, checks}."""
        return cast(Json, self._post("/v1/audit/checks", patience=AUDIT_SECONDS))

    def audit_bundle(self, start: int | None = None, end: int | None = None) -> bytes:
        """An evidence bundle as a tar file."""
        body = {key: value for key, value in (("from", start), ("to", end)) if value is not None}
        return self.download("/v1/audit/bundle", body, patience=AUDIT_SECONDS)

    def cycles(self, most: int | None = None) -> list[Json]:
        """Scheduling cycles that changed something, the newest first."""
        return self._items("/v1/cycles", None, most)

    def cycle(self, cycle_id: str) -> Json:
        """One cycle whole."""
        return cast(Json, self._get(f"/v1/cycles/{_part(cycle_id)}"))

    def replay(self, cycle_id: str) -> Json:
        """Decides a stored cycle again: {same, differences}."""
        return cast(Json, self._post(f"/v1/cycles/{_part(cycle_id)}/replay"))

    # --- the server -------------------------------------------------------------------------------

    def doctor(self) -> Json:
        """What is in order, and what is not."""
        return cast(Json, self._get("/v1/doctor"))

    def version(self) -> Json:
        """The server's version and install id."""
        return cast(Json, self._get("/v1/version"))


def _part(text: str) -> str:
    """One segment of a path; nothing in it can lead elsewhere."""
    return quote(text, safe="") if text.strip(".") else quote(text, safe="").replace(".", "%2E")


def _first(answer: Mapping[str, Any], *keys: str) -> Any:
    return next((answer[key] for key in keys if key in answer), [])
