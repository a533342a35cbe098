"""Programs that run: what they write, and commands beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from steelyard.client.calls import workloads
from steelyard.client.errors import NotReachableError
from steelyard.client.execution import Execution, open_execution, request_of
from steelyard.client.requests import Requests
from steelyard.client.steps import RECONNECT_SECONDS, Following, log_piece
from steelyard.client.transport import parsed
from steelyard.client.views import Json, LogChunk
from steelyard.model.execution import TerminalSize


class Programs(Requests):
    """Logs, events, and commands beside members."""

    def log_chunk(self, workload_id: str, member: str | None = None, offset: int = 0) -> LogChunk:
        """A piece of a member's log from a byte offset."""
        return self._ask(workloads.log_chunk(workload_id, member, offset))

    def logs(self, workload_id: str, member: str | None = None) -> Iterator[bytes]:
        """What a member has written so far."""
        offset: int | None = 0
        while offset is not None:
            piece, offset = log_piece(self.log_chunk(workload_id, member, offset), offset)
            if piece:
                yield piece

    def follow_logs(self, workload_id: str, member: str | None = None) -> Iterator[bytes]:
        """What a member writes, as it comes, until it has ended. A lost connection is taken up again."""
        following = Following(workload_id, member)
        while True:
            try:
                for name, data in self._transport.stream(following.path, query=following.query()):
                    if piece := following.heard(name, data):
                        yield piece
                    if following.ended:
                        return
                return
            except NotReachableError as error:
                following.lost(error)
                self._sleep(RECONNECT_SECONDS)

    def events(self) -> Iterator[Json]:
        """Changes as they happen: {kind, id, phase, version}."""
        for name, data in self._transport.stream("/v1/events/stream"):
            if name == "change" and isinstance(found := parsed(data), dict):
                yield found

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
        transport, request = self._transport, request_of(command, terminal, term)
        return open_execution(transport.url, transport.token, self._lang, workload_id, member, request)

    def attach(self, workload_id: str, member: str | None = None) -> Execution:
        """The terminal of a member's own program, where it has one; letting go of it ends nothing."""
        transport = self._transport
        return open_execution(transport.url, transport.token, self._lang, workload_id, member, None)
