"""Programs that run: what they write, and commands beside them, awaited."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

from steelyard.client.asynchronous.execution import AsyncExecution, open_execution
from steelyard.client.asynchronous.requests import AsyncRequests
from steelyard.client.calls import workloads
from steelyard.client.errors import NotReachableError
from steelyard.client.execution import request_of
from steelyard.client.steps import RECONNECT_SECONDS, Following, log_piece
from steelyard.client.transport import parsed
from steelyard.client.views import Json, LogChunk
from steelyard.model.execution import TerminalSize


class AsyncPrograms(AsyncRequests):
    """Logs, events, and commands beside members."""

    async def log_chunk(self, workload_id: str, member: str | None = None, offset: int = 0) -> LogChunk:
        """A piece of a member's log from a byte offset."""
        return await self._ask(workloads.log_chunk(workload_id, member, offset))

    async def logs(self, workload_id: str, member: str | None = None) -> AsyncIterator[bytes]:
        """What a member has written so far."""
        offset: int | None = 0
        while offset is not None:
            piece, offset = log_piece(await self.log_chunk(workload_id, member, offset), offset)
            if piece:
                yield piece

    async def follow_logs(self, workload_id: str, member: str | None = None) -> AsyncIterator[bytes]:
        """What a member writes, as it comes, until it has ended. A lost connection is taken up again."""
        following = Following(workload_id, member)
        while True:
            try:
                stream = self._transport.stream(following.path, query=following.query())
                async with aclosing(stream) as events:
                    async for name, data in events:
                        if piece := following.heard(name, data):
                            yield piece
                        if following.ended:
                            return
                return
            except NotReachableError as error:
                following.lost(error)
                await self._sleep(RECONNECT_SECONDS)

    async def events(self) -> AsyncIterator[Json]:
        """Changes as they happen: {kind, id, phase, version}."""
        async with aclosing(self._transport.stream("/v1/events/stream")) as events:
            async for name, data in events:
                if name == "change" and isinstance(found := parsed(data), dict):
                    yield found

    async def execute(
        self,
        workload_id: str,
        command: Sequence[str],
        member: str | None = None,
        *,
        terminal: TerminalSize | None = None,
        term: str | None = None,
    ) -> AsyncExecution:
        """Runs a command beside a member that runs, in its surroundings; it ends when it is let go.

            async with await client.execute("wl_…", ["nvidia-smi"]) as running:
                output = b"".join([data async for _, data in running.pieces()])
        """
        transport, request = self._transport, request_of(command, terminal, term)
        return await open_execution(
            transport.url, transport.token, self._lang, workload_id, member, request
        )

    async def attach(self, workload_id: str, member: str | None = None) -> AsyncExecution:
        """The terminal of a member's own program, where it has one; letting go of it ends nothing."""
        transport = self._transport
        return await open_execution(transport.url, transport.token, self._lang, workload_id, member, None)
