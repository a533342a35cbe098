"""Nobody takes all the streams: how many one user reads is bounded, and counted only while they are read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from steelyard.api.streams import MAX_OF_ONE, MAX_SUBSCRIBERS, Readers
from steelyard.model.errors import UnavailableError


async def endless() -> AsyncGenerator[bytes, None]:
    while True:
        yield b"x"


def is_full(readers: Readers, user: str) -> bool:
    try:
        readers.admit(user)
    except UnavailableError:
        return True
    return False


def test_one_user_leaves_streams_for_others_and_those_that_ended_count_no_more() -> None:
    async def story() -> None:
        readers = Readers()
        mine = [readers.counted("us_1", endless()) for _ in range(MAX_OF_ONE)]
        for each in mine:
            assert await anext(each) == b"x"
        assert is_full(readers, "us_1")
        assert not is_full(readers, "us_2")
        await mine[0].aclose()
        assert not is_full(readers, "us_1")

    asyncio.run(story())


def test_all_together_are_bounded() -> None:
    async def story() -> None:
        readers = Readers()
        kept = [readers.counted(f"us_{number}", endless()) for number in range(MAX_SUBSCRIBERS)]
        for each in kept:
            await anext(each)
        assert is_full(readers, "us_new")

    asyncio.run(story())
