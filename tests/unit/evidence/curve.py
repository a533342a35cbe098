"""Arithmetic on edwards25519 that only tests need: multiples, and the points of small order."""

from __future__ import annotations

from steelyard.evidence.verify import NEUTRAL, L, Point, point_add, point_decode, point_encode


def multiply(count: int, point: Point) -> Point:
    """count · point, by doubling and adding."""
    result: Point = NEUTRAL
    for bit in bin(count)[2:]:
        result = point_add(result, result)
        if bit == "1":
            result = point_add(result, point)
    return result


def small_order_points() -> list[bytes]:
    """The eight encoded points whose order divides 8: what is left of any point after L times it."""
    found: set[bytes] = set()
    y = 2
    while len(found) < 8:
        point, y = point_decode(y.to_bytes(32, "little")), y + 1
        if point is not None:
            torsion = multiply(L, point)
            found |= {point_encode(multiply(count, torsion)) for count in range(8)}
    return sorted(found)
