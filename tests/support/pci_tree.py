"""An imitated machine: cards on a PCI bus and device files, below a folder of a test's own."""

from __future__ import annotations

import shutil
from pathlib import Path


def add_card(
    root: Path,
    address: str,
    vendor: str,
    kind: str,
    *,
    device: str = "0x2330",
    driver: str | None = None,
    width: tuple[int, int] | None = None,
    numa: int | None = None,
    virtual_of: str | None = None,
) -> Path:
    """A card as the kernel shows it. `width`: lanes in use, lanes it has."""
    folder = root / "sys/bus/pci/devices" / address
    folder.mkdir(parents=True)
    values = {"vendor": vendor, "class": kind, "device": device, "numa_node": numa}
    if width is not None:
        values |= {"current_link_width": width[0], "max_link_width": width[1]}
    for name, value in values.items():
        if value is not None:
            (folder / name).write_text(f"{value}\n")
    if driver is not None:
        (folder / "driver").symlink_to(f"../../../../bus/pci/drivers/{driver}")
    if virtual_of is not None:
        (folder / "physfn").symlink_to(f"../{virtual_of}")
    return folder


def remove_card(root: Path, address: str) -> None:
    """The card is not on the bus any more."""
    shutil.rmtree(root / "sys/bus/pci/devices" / address)


def add_file(root: Path, path: str) -> Path:
    """An empty file where a device's would be."""
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    return file
