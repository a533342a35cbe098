"""NVIDIA's driver libraries through ctypes: what NVML tells, and a context on a card.

Formats: nvml.h (functions with their versions, structures) and cuda.h, the driver API; both libraries come
with the driver. Nothing here changes a setting: it reads, and a context is what any program opens.
"""

from __future__ import annotations

import ctypes
from typing import Any

MIB = 1 << 20
_NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE


class Absent(Exception):
    """A library or a function of it is not there, or it does not start."""


class _Pci(ctypes.Structure):
    _fields_ = [
        ("legacy", ctypes.c_char * 16), ("domain", ctypes.c_uint), ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint), ("device_id", ctypes.c_uint), ("subsystem", ctypes.c_uint),
        ("bus_id", ctypes.c_char * 32),
    ]  # fmt: skip


class _Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class _Process(ctypes.Structure):
    _fields_ = [
        ("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]  # fmt: skip


def _library(name: str) -> Any:
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        raise Absent(str(error)) from None


class Nvml:
    """The management library, open until `close`. Raises Absent."""

    def __init__(self) -> None:
        self._lib = _library("libnvidia-ml.so.1")
        self._call("nvmlInit_v2")

    def close(self) -> None:
        """Lets go of it."""
        self._lib.nvmlShutdown()

    def driver(self) -> str:
        """The driver's version."""
        text = ctypes.create_string_buffer(96)
        self._call("nvmlSystemGetDriverVersion", text, 96)
        return text.value.decode()

    def cards(self) -> list[dict[str, Any]]:
        """Each card: uuid, name, pci, memory and used (MiB), pids (None: not told)."""
        count = ctypes.c_uint()
        self._call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        return [self._card(number) for number in range(count.value)]

    def _card(self, number: int) -> dict[str, Any]:
        handle, pci, memory = ctypes.c_void_p(), _Pci(), _Memory()
        self._call("nvmlDeviceGetHandleByIndex_v2", number, ctypes.byref(handle))
        uuid, name = ctypes.create_string_buffer(96), ctypes.create_string_buffer(96)
        self._call("nvmlDeviceGetUUID", handle, uuid, 96)
        self._call("nvmlDeviceGetName", handle, name, 96)
        self._call("nvmlDeviceGetPciInfo_v3", handle, ctypes.byref(pci))
        self._call("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory))
        return {
            "uuid": uuid.value.decode(), "name": name.value.decode(), "pci": pci.bus_id.decode().lower(),
            "memory": memory.total // MIB, "used": memory.used // MIB, "pids": self._pids(handle),
        }  # fmt: skip

    def _pids(self, handle: Any) -> list[int] | None:
        room = 256
        for version in ("_v3", "_v2"):
            function = getattr(self._lib, f"nvmlDeviceGetComputeRunningProcesses{version}", None)
            if function is None:
                continue
            count, found = ctypes.c_uint(room), (_Process * room)()
            if function(handle, ctypes.byref(count), found) == 0:
                return sorted(int(one.pid) for one in found[: count.value])
        return None

    def _call(self, name: str, *arguments: Any) -> None:
        function = getattr(self._lib, name, None)
        if function is None:
            raise Absent(f"{name} is not there")
        status = function(*arguments)
        if status != 0:
            raise Absent(f"{name}: NVML status {status}")


class Cuda:
    """The driver API of this process, which sees what its environment lets it see. Raises Absent."""

    def __init__(self) -> None:
        self._lib = _library("libcuda.so.1")
        self.none = False
        status = self._lib.cuInit(0)
        if status == _NO_DEVICE:
            self.none = True
        elif status != 0:
            raise Absent(f"cuInit: status {status}")

    def uuids(self) -> list[str]:
        """The cards that this process sees, in its order."""
        if self.none:
            return []
        count = ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        return [self._uuid(self._device(number)) for number in range(count.value)]

    def hold(self, size: int) -> None:
        """Opens a context on the first card and takes `size` bytes of it; both end with the process."""
        context, pointer = ctypes.c_void_p(), ctypes.c_ulonglong()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._device(0))
        self._call("cuCtxSetCurrent", context)
        self._call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))

    def _device(self, number: int) -> Any:
        device = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(device), number)
        return device

    def _uuid(self, device: Any) -> str:
        raw = (ctypes.c_ubyte * 16)()
        self._call("cuDeviceGetUuid", ctypes.byref(raw), device)
        text = bytes(raw).hex()
        parts = (text[:8], text[8:12], text[12:16], text[16:20], text[20:])
        return "GPU-" + "-".join(parts)

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._lib, name)(*arguments)
        if status != 0:
            raise Absent(f"{name}: status {status}")
