"""The standalone verifier of evidence bundles.

    python3 -I verify.py DIR [--key FINGERPRINT] [--anchor CODE] [--lang zh|en] [--json]

It checks a folder that was exported as evidence, on a machine that knows nothing of the product: standard
library only, no network, no other file of the product. What it rests on is in here: SHA-256 of hashlib, and
Ed25519, Merkle proofs, notes and canonical JSON as far as they are needed. VERIFY.md beside it says how to do
the same steps by hand.

Exit status: 0 all checks hold (what they can't say is stated: key not known, self-attested), 1 something is
wrong (each problem names its file), 2 wrong usage.

Formats: RFC 8032, RFC 6962, RFC 8785, DSSE v1, in-toto Statement v1, C2SP signed-note, tlog-checkpoint,
tlog-cosignature, tlog-policy, tlog-proof.

Long because one file has to hold all of it, its texts in both languages too, so that a reviewer can read it
from top to bottom and carry it alone.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import io
import json
import os
import re
import stat
import sys
import time
import unicodedata
from collections import defaultdict
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Sequence, Tuple  # noqa: UP035 (for 3.8)

PREDICATE_TYPE = "https://steelyard.dev/poc-evidence/v1"
SIGNOFF_TYPE = "https://steelyard.dev/sign-off/v1"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
ROTATION_DOMAIN = b"steelyard.dev/key-rotation/v1\n"
ROLES = ("platform", "ai-engineering", "security", "procurement", "finance")
DECISIONS = ("accept", "accept-with-pending", "reject")
UNLISTED = {"manifest.json", "manifest.dsse.json"} | {f"signoff/{role}.dsse.json" for role in ROLES}
SELF = "verify/verify.py"
LEAVES, START, END = "audit/leaves.jsonl", "audit/start.ckpt", "audit/end.ckpt"
CONSISTENCY, HEADS, POLICY = "audit/consistency.json", "audit/stream-heads.json", "audit/policy.txt"
SEGMENTS, CAPACITY = "usage/segments.jsonl", "usage/capacity.jsonl"
RECEIPTS = "usage/receipts.jsonl"
KINDS = ("holding", "idle", "unavailable", "unknown")
MAX_INT = 2**53 - 1
OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+=@-]*")
HEX64 = re.compile(r"[0-9a-f]{64}")
DECIMAL = re.compile(r"0|[1-9][0-9]{0,18}")
ANCHOR = re.compile(r"(0|[1-9][0-9]{0,18})((?:-[A-Z2-7]{4}){4})")

# Every sentence this program prints: code -> (English, Chinese).
TEXTS: dict[str, tuple[str, str]] = {
    "usage-key": ("--key takes 64 hex digits, not {given}.", "--key 应为 64 位十六进制数，而不是 {given}。"),
    "usage-anchor": (
        "--anchor takes a short code such as SIZE-XXXX-XXXX-XXXX-XXXX, not {given}.",
        "--anchor 应为短码，形如 SIZE-XXXX-XXXX-XXXX-XXXX，而不是 {given}。",
    ),
    "usage-folder": ("There is no folder {given}.", "没有目录 {given}。"),
    "ok": ("OK: all checks hold", "通过：所有检查均成立"),
    "fail": ("FAIL: {count} problem(s)", "不通过：{count} 个问题"),
    "summary": (
        "{files} files, {leaves} audit leaves, log {origin} of size {size}, signed by {signer}",
        "{files} 个文件，{leaves} 条审计记录，日志 {origin} 大小 {size}，签名者 {signer}",
    ),
    # notes
    "key-known": ("key known: {key}", "密钥已知：{key}"),
    "key-not-known": (
        "key not known: the manifest is signed by {key}; compare it with a fingerprint that you got "
        "another way, and pass that as --key",
        "密钥未知（key not known）：清单由 {key} 签名；请与另行取得的指纹核对，并用 --key 传入",
    ),
    "self-attested": (
        "self-attested: no witness has co-signed the end checkpoint; order is proven, absolute time is not",
        "自证（self-attested）：没有见证人联署结束检查点；可证明先后顺序，不能证明绝对时间",
    ),
    "witnessed": (
        "co-signed by witness {name} at {time}; its key {key} is named by the bundle itself, "
        "not known",
        "见证人 {name} 于 {time} 联署；其密钥 {key} 由证据包自身给出，未知",
    ),
    "witnessed-known": (
        "co-signed by witness {name} at {time} (key known: {key})",
        "见证人 {name} 于 {time} 联署（密钥已知：{key}）",
    ),
    "complete": ("the log is complete from its first leaf", "日志自第一条起完整"),
    "streams": ("complete for these streams: {names}", "以下流完整：{names}"),
    "no-log": ("the bundle holds no audit log", "证据包不含审计日志"),
    "receipts": ("receipts of releases: {count}", "释放回执：{count} 份"),
    "no-usage": ("the bundle holds no usage segments", "证据包不含用量分段"),
    "usage": (
        "usage: held + idle + unavailable + unknown = capacity at every instant, {count} resource dimensions",
        "用量：每一时刻 占用+空闲+不可用+未知=容量，共 {count} 个资源维度",
    ),
    "anchor": ("the log begins with what the anchor {anchor} stands for", "日志开头与锚点 {anchor} 相符"),
    "other-signer": (
        "the manifest is signed by {key}, which is not the log's key; the log's key is {log}",
        "清单由 {key} 签名，不是日志密钥；日志密钥为 {log}",
    ),
    "rotated": (
        "leaf {seq}: the log's key changed from {old} to {new}",
        "第 {seq} 条：日志密钥由 {old} 换为 {new}",
    ),
    "key-lost": (
        "leaf {seq}: the log's key {old} was given up as lost, {new} signs from here on; nothing signed by "
        "the lost key joins the two, checkpoints of it reach to {signed} leaves",
        "第 {seq} 条：日志密钥 {old} 声明为遗失，此后由 {new} 签名；"
        "两者之间没有旧密钥的签名，旧密钥的检查点到第 {signed} 条为止",
    ),
    "restored": (
        "leaf {seq}: the log was restored from a backup at {time}",
        "第 {seq} 条：日志于 {time} 从备份恢复",
    ),
    "blind": (
        "leaf {seq}: the log admits that it was blind: {action} ({count} such leaves)",
        "第 {seq} 条：日志自述曾无法观测：{action}（共 {count} 条）",
    ),
    "clock-back": (
        "leaf {seq}: its time is before that of the leaf before ({count} such leaves)",
        "第 {seq} 条：时间早于上一条（共 {count} 条）",
    ),
    "simulated": (
        "holds simulated devices: verifies nothing about hardware",
        "含模拟设备（simulated）：不证明任何硬件事实",
    ),
    "signed-off": ("sign-off by {role}: {decision} (key {key})", "{role} 签署：{decision}（密钥 {key}）"),
    "no-sign-off": ("no sign-off by: {roles}", "尚未签署：{roles}"),
    # problems: files
    "missing": ("listed, but not there", "清单中有，但文件不存在"),
    "missing-part": ("needed, but not there", "必需，但不存在"),
    "extra": ("not listed in the manifest", "不在清单中"),
    "size": ("has {size} bytes, the manifest says {listed}", "大小为 {size} 字节，清单为 {listed}"),
    "digest": ("its content is not what the manifest lists", "内容与清单不符"),
    "swapped": ("has the content of {other}", "内容是 {other} 的内容"),
    "case": ("is there as {other}: upper and lower case differ", "实际名称为 {other}：大小写不同"),
    "symlink": ("is a symbolic link", "是符号链接"),
    "not-a-file": ("is neither file nor folder", "不是文件或文件夹"),
    "empty-folder": ("is an empty folder", "是空文件夹"),
    "name": ("is not an acceptable file name", "文件名不可接受"),
    "name-collision": ("differs from {other} in case only", "与 {other} 仅大小写不同"),
    "unreadable": ("can't be read: {why}", "无法读取：{why}"),
    # problems: manifest and signatures
    "malformed": ("malformed: {why}", "格式错误：{why}"),
    "not-canonical": ("is not in canonical form (RFC 8785)", "不是规范形式（RFC 8785）"),
    "manifest-differs": ("differs from the signed payload", "与已签名的内容不同"),
    "unsigned": ("carries no signature of a key it names", "没有所列密钥的签名"),
    "signature": ("the signature of {key} does not hold", "{key} 的签名不成立"),
    "keyid": ("signature by {key}, which is not named in the manifest", "签名密钥 {key} 未列于清单"),
    "key-mismatch": ("signed by {key}, not by the key you named", "由 {key} 签名，不是您指定的密钥"),
    "count": ("lists {listed} files, says {count}", "列出 {listed} 个文件，声明为 {count}"),
    "type": ("is of type {type}, which is not known here", "类型 {type} 未知"),
    "order": ("its list is not sorted, or names a file twice", "列表未排序或有重复"),
    "other-manifest": ("signs another manifest", "签署的是另一份清单"),
    "role": ("speaks for the role {role}", "声明的角色是 {role}"),
    "signer-is-exporter": ("signed with the key that exported the bundle", "由导出证据包的密钥签署"),
    # problems: log
    "leaf": ("line {line}: {why}", "第 {line} 行：{why}"),
    "seq": (
        "line {line}: seq {seq} where {expected} was expected",
        "第 {line} 行：seq 为 {seq}，应为 {expected}",
    ),
    "seq-order": ("line {line}: seq {seq} is out of order", "第 {line} 行：seq {seq} 次序错误"),
    "count-leaves": ("{count} leaves, the checkpoint says {size}", "{count} 条记录，检查点为 {size} 条"),
    "root": ("the leaves do not have the root of {file}", "记录的根与 {file} 不符"),
    "origin": ("names the log {origin}, not {expected}", "日志名为 {origin}，应为 {expected}"),
    "ckpt-key": ("is not signed with the log's key of that time ({key})", "未由当时的日志密钥（{key}）签名"),
    "ckpt-order": ("the start checkpoint is after the end checkpoint", "起始检查点晚于结束检查点"),
    "consistency": ("does not prove that the end extends the start", "不能证明结束检查点是起始的延续"),
    "no-proof": ("leaf {seq} has no inclusion proof", "第 {seq} 条没有包含证明"),
    "inclusion": ("does not prove leaf {seq}", "不能证明第 {seq} 条"),
    "proof-checkpoint": ("is not for the end checkpoint", "不是针对结束检查点"),
    "proof-name": (
        "is the proof of leaf {seq}, which is not its name or not in the export",
        "是第 {seq} 条的证明，名称不符或未导出",
    ),
    "stream-gap": (
        "leaf {seq}: stream {name} has a gap before n = {n}",
        "第 {seq} 条：流 {name} 在 n = {n} 之前有缺口",
    ),
    "stream-link": (
        "leaf {seq}: stream {name} is not linked to the leaf before",
        "第 {seq} 条：流 {name} 未链接到上一条",
    ),
    "stream-name": (
        "leaf {seq}: its streams do not fit its object and actor",
        "第 {seq} 条：流与对象、操作者不符",
    ),
    "stream-end": ("stream {name} does not end where the heads leaf says", "流 {name} 的末尾与流首记录不符"),
    "heads-leaf": ("is not what leaf {seq} says", "与第 {seq} 条不符"),
    "no-stream": (
        "leaf {seq} belongs to no stream that the export covers",
        "第 {seq} 条不属于所导出的任何流",
    ),
    "rotation": (
        "leaf {seq}: the change of keys is not signed with both keys",
        "第 {seq} 条：密钥更换未由新旧密钥共同签名",
    ),
    "rotation-chain": (
        "leaf {seq}: the change of keys does not start from the log's key",
        "第 {seq} 条：密钥更换不是从日志密钥开始",
    ),
    "policy": ("line {line}: {why}", "第 {line} 行：{why}"),
    "policy-key": (
        "names the log key {key}, to which no change of keys leads",
        "列出的日志密钥 {key} 没有更换记录",
    ),
    "revoked": ("is signed with {key}, which was revoked", "由已吊销的密钥 {key} 签名"),
    "rotated-out": ("is signed with {key}, which was the log's key no more", "由已停用的日志密钥 {key} 签名"),
    "quorum": ("the policy asks for more witnesses than have co-signed", "联署的见证人少于策略要求"),
    "witness-key": (
        "witness {name} has the key of the log or of the exporter",
        "见证人 {name} 使用了日志或导出者的密钥",
    ),
    "anchor-differs": (
        "the log does not begin with what the anchor {anchor} stands for",
        "日志开头与锚点 {anchor} 不符",
    ),
    "anchor-short": (
        "the anchor {anchor} covers more leaves than the log has: its end was cut off",
        "锚点 {anchor} 的记录数多于日志：日志末尾被截断",
    ),
    "anchor-unchecked": (
        "the anchor {anchor} can only be checked with the complete log",
        "锚点 {anchor} 只能用完整日志核对",
    ),
    # problems: usage
    "row": ("line {line}: {why}", "第 {line} 行：{why}"),
    "receipt": (
        "leaf {leaf} has the receipt of {of}; it is not here, or says something else",
        "第 {leaf} 条记录含 {of} 的回执；此文件中没有，或内容不同",
    ),
    "conservation": (
        "{resource} {dimension}: from {t} µs on, held + idle + unavailable + unknown is capacity + {by}",
        "{resource} {dimension}：自 {t} 微秒起，占用+空闲+不可用+未知 = 容量 + {by}",
    ),
}


class Finding(NamedTuple):
    """A problem or a note: which file, what (a code of TEXTS), and what fills the sentence."""

    file: str
    code: str
    params: dict[str, Any]

    def text(self, lang: str) -> str:
        """The sentence in zh or en; control characters are shown, not sent to the terminal."""
        params = {key: visible(str(value)) for key, value in self.params.items()}
        return TEXTS[self.code][lang == "zh"].format(**params)


class Wrong(Exception):
    """A check does not hold; ends the check it is raised in, not the others."""

    def __init__(self, file: str, code: str, /, **params: Any) -> None:
        super().__init__(file, code, params)
        self.finding = Finding(file, code, params)


def reason(error: Exception) -> str:
    """What went wrong inside a line, in few words."""
    if isinstance(error, Wrong):
        return " ".join([error.finding.code, *(str(value) for value in error.finding.params.values())])
    return f"{type(error).__name__}: {error}"[:120]


class Entry(NamedTuple):
    """A file as it was found; `data` only for those that are looked into."""

    size: int
    sha256: str
    data: bytes | None


class Report:
    """What was found so far."""

    def __init__(self) -> None:
        self.problems: list[Finding] = []
        self.notes: list[Finding] = []
        self.facts: dict[str, Any] = {
            "files": 0, "leaves": 0, "origin": "-", "log_size": 0, "signers": [],
            "key_known": False, "self_attested": True, "complete": False,
        }  # fmt: skip

    def problem(self, file: str, code: str, /, **params: Any) -> None:
        """Note that something is wrong."""
        finding = Finding(file, code, params)
        if finding not in self.problems:
            self.problems.append(finding)

    def note(self, code: str, /, **params: Any) -> None:
        """Note something that a reader has to know."""
        self.notes.append(Finding("", code, params))

    def attempt(self, file: str, check: Callable[..., Any], *args: Any) -> Any:
        """Run one check; what it raises becomes a problem (of `file`, if it does not say which)."""
        try:
            return check(*args)
        except Wrong as wrong:
            self.problem(*wrong.finding[:2], **wrong.finding.params)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError) as error:
            self.problem(file, "malformed", why=reason(error))
        return None


def visible(text: str) -> str:
    """Text that can be printed: everything else escaped."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def utc(seconds: int) -> str:
    """A time as people write it."""
    try:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
    except (OverflowError, OSError, ValueError):
        return f"{seconds} s"


# --- Ed25519 (RFC 8032 5.1), verification only ----------------------------------------------------------

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
SQRT_M1 = pow(2, (P - 1) // 4, P)
Point = Tuple[int, int, int, int]  # noqa: UP006 (for 3.8)
"""(X, Y, Z, T) with x = X/Z, y = Y/Z, xy = T/Z."""


def point_add(p: Point, q: Point) -> Point:
    """Sum of two points; the formula is complete, so it doubles, too."""
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % P, (p[1] + p[0]) * (q[1] + q[0]) % P
    c, d = 2 * p[3] * q[3] * D % P, 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def point_encode(p: Point) -> bytes:
    """32 bytes: y, and the lowest bit of x."""
    inverse = pow(p[2], P - 2, P)
    x, y = p[0] * inverse % P, p[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def point_decode(raw: bytes) -> Point | None:
    """The point of 32 bytes; None if there is none, or if it is not written in its one way."""
    value = int.from_bytes(raw, "little")
    sign, y = value >> 255, value & (2**255 - 1)
    if len(raw) != 32 or y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * SQRT_M1 % P
    if (x * x - square) % P or (x == 0 and sign):
        return None
    if x & 1 != sign:
        x = P - x
    return (x, y, 1, x * y % P)


NEUTRAL = (0, 1, 1, 0)
BASE = point_decode((4 * pow(5, P - 2, P) % P).to_bytes(32, "little")) or NEUTRAL


def is_small_order(p: Point) -> bool:
    """Whether 8p is the neutral point: such a key signs everything and proves nothing."""
    for _ in range(3):
        p = point_add(p, p)
    return p[0] % P == 0 and (p[1] - p[2]) % P == 0


def ed25519_verify(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """RFC 8032 5.1.7 without cofactor: S < L and encode(S·B - h·A) = R; no keys of small order."""
    key = point_decode(public_key)
    if key is None or is_small_order(key) or len(signature) != 64:
        return False
    s = int.from_bytes(signature[32:], "little")
    if s >= L:
        return False
    digest = hashlib.sha512(signature[:32] + public_key + message).digest()
    h = int.from_bytes(digest, "little") % L
    minus = (P - key[0], key[1], 1, P - key[3])
    table = (NEUTRAL, BASE, minus, point_add(BASE, minus))
    result: Point = NEUTRAL
    for bit in range(max(s.bit_length(), h.bit_length()) - 1, -1, -1):
        result = point_add(result, result)
        pick = (s >> bit & 1) | (h >> bit & 1) << 1
        if pick:
            result = point_add(result, table[pick])
    return point_encode(result) == signature[:32]


def fingerprint(public_key: bytes) -> str:
    """How people compare keys: hex SHA-256 of the 32 raw bytes."""
    return hashlib.sha256(public_key).hexdigest()


# --- encodings ------------------------------------------------------------------------------------------


def b64(text: str, file: str) -> bytes:
    """Bytes of base64 that is written in its one canonical way."""
    data = base64.b64decode(text.encode("ascii"), validate=True)
    if base64.b64encode(data).decode() != text:
        raise Wrong(file, "malformed", why="base64")
    return data


def canonical(value: Any) -> bytes:
    """RFC 8785 bytes, for objects with ASCII keys and integers within 2**53 - 1 (see `loads`)."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def loads(data: bytes, file: str) -> Any:
    """JSON without duplicate keys, floats, wide integers, keys that are not ASCII, text that is not NFC."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(items)
        if len(result) != len(items) or not all(key.isascii() for key in result):
            raise Wrong(file, "malformed", why="keys")
        return result

    def no_float(text: str) -> Any:
        raise Wrong(file, "malformed", why=f"number {text[:20]}")

    def integer(text: str) -> int:
        return int(text) if len(text) < 18 and abs(int(text)) <= MAX_INT else no_float(text)

    text = data.decode("utf-8")
    if not unicodedata.is_normalized("NFC", text):
        raise Wrong(file, "malformed", why="not in form NFC")
    return json.loads(
        text, object_pairs_hook=pairs, parse_float=no_float, parse_constant=no_float, parse_int=integer
    )


def loads_canonical(data: bytes, file: str) -> Any:
    """JSON whose bytes are exactly the canonical ones: no other white space, order or escapes."""
    value = loads(data, file)
    if canonical(value) != data:
        raise Wrong(file, "not-canonical")
    return value


def need(condition: bool, file: str, why: str) -> None:
    """Structure that can't be missing."""
    if not condition:
        raise Wrong(file, "malformed", why=why)


# --- Merkle tree (RFC 6962, RFC 9162 2.1.3.2 and 2.1.4.2) -----------------------------------------------


def node_hash(left: bytes, right: bytes) -> bytes:
    """SHA-256(0x01 ‖ left ‖ right)."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def root_of(hashes: Sequence[bytes]) -> bytes:
    """Root over leaf hashes: pairs level by level, the odd last one carried up (equals RFC 6962's MTH)."""
    if not hashes:
        return hashlib.sha256(b"").digest()
    row = list(hashes)
    while len(row) > 1:
        odd = row[-1:] if len(row) % 2 else []
        row = [node_hash(row[nth], row[nth + 1]) for nth in range(0, len(row) - 1, 2)] + odd
    return row[0]


def inclusion_holds(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Whether the leaf hash stands at `index` in the tree of `size` leaves with this root."""
    if not 0 <= index < size:
        return False
    node, last = index, size - 1
    for step in proof:
        if last == 0:
            return False
        if node & 1 or node == last:
            leaf = node_hash(step, leaf)
            while node and not node & 1:
                node, last = node >> 1, last >> 1
        else:
            leaf = node_hash(leaf, step)
        node, last = node >> 1, last >> 1
    return last == 0 and leaf == root


def consistency_holds(m: int, n: int, proof: Sequence[bytes], root_m: bytes, root_n: bytes) -> bool:
    """Whether the tree (n, root_n) begins with the tree (m, root_m)."""
    if m in (0, n):
        return not proof and root_m == (root_n if m else root_of([]))
    path = list(proof) if m & (m - 1) else [root_m, *proof]
    if not 0 < m < n or not path:
        return False
    node, last = m - 1, n - 1
    while node & 1:
        node, last = node >> 1, last >> 1
    old = new = path[0]
    for step in path[1:]:
        if last == 0:
            return False
        if node & 1 or node == last:
            old, new = node_hash(step, old), node_hash(step, new)
            while node and not node & 1:
                node, last = node >> 1, last >> 1
        else:
            new = node_hash(new, step)
        node, last = node >> 1, last >> 1
    return last == 0 and old == root_m and new == root_n


# --- notes, checkpoints, policy (C2SP) ------------------------------------------------------------------


class Key(NamedTuple):
    """A public key as notes name it. `kind`: 1 for a log, 4 for a witness."""

    name: str
    public: bytes
    kind: int

    @property
    def key_id(self) -> bytes:
        """The four bytes that signature lines begin with."""
        return hashlib.sha256(self.name.encode() + bytes([10, self.kind]) + self.public).digest()[:4]


class Policy(NamedTuple):
    """policy.txt: who may sign checkpoints, who may witness them, and how many must."""

    logs: list[Key]
    witnesses: dict[str, Key]
    groups: dict[str, tuple[int, list[str]]]
    quorum: str

    def satisfied(self, name: str, cosigned: set[str]) -> bool:
        """Whether the witness or group of this name has co-signed."""
        if name == "none":
            return True
        if name in self.witnesses:
            return name in cosigned
        least, members = self.groups[name]
        return sum(self.satisfied(member, cosigned) for member in members) >= least


class Checkpoint(NamedTuple):
    """A verified tree head and who signed it."""

    origin: str
    size: int
    root: bytes
    text: str
    log_keys: list[str]
    witnesses: dict[str, int]


def parse_vkey(text: str, kind: int) -> Key:
    """A key of the form name+keyid+base64; ValueError if it is not sound."""
    name, key_id, material = text.split("+", 2)
    raw = b64(material, POLICY)
    key = Key(name, raw[1:], raw[0])
    point = point_decode(key.public)
    if key.kind != kind or point is None or is_small_order(point) or key.key_id.hex() != key_id or not name:
        raise ValueError("unsound key")
    return key


def parse_policy(data: bytes) -> Policy:
    """c2sp.org/tlog-policy; each name and each key once, only names that stand before."""
    policy, quorums = Policy([], {}, {}, "none"), []
    for number, line in enumerate(data.decode("utf-8").split("\n"), 1):
        words = re.split(r"[ \t]+", line.strip(" \t"))
        try:
            if words == [""] or words[0].startswith("#"):
                continue
            if words[0] == "log" and len(words) in (2, 3):
                policy.logs.append(parse_vkey(words[1], 1))
            elif words[0] == "witness" and len(words) in (3, 4):
                _new_name(policy, words[1])
                policy.witnesses[words[1]] = parse_vkey(words[2], 4)
            elif words[0] == "group" and len(words) > 3:
                _new_name(policy, words[1])
                policy.groups[words[1]] = _threshold(policy, words[2], words[3:])
            elif words[0] == "quorum" and len(words) == 2:
                _threshold(policy, "all", [] if words[1] == "none" else words[1:])
                quorums.append(words[1])
            else:
                raise ValueError("not understood")
        except (ValueError, IndexError) as error:
            raise Wrong(POLICY, "policy", line=number, why=str(error)) from None
    publics = [key.public for key in [*policy.logs, *policy.witnesses.values()]]
    need(len(quorums) == 1 and bool(policy.logs) and len(set(publics)) == len(publics), POLICY, "lines")
    return policy._replace(quorum=quorums[0])


def _new_name(policy: Policy, name: str) -> None:
    if name == "none" or name in policy.witnesses or name in policy.groups:
        raise ValueError("name used twice")


def _threshold(policy: Policy, word: str, members: list[str]) -> tuple[int, list[str]]:
    least = {"any": 1, "all": len(members)}.get(word) or (int(word) if DECIMAL.fullmatch(word) else 0)
    known = all(name in policy.witnesses or name in policy.groups for name in members)
    if not known or len(set(members)) != len(members) or (members and not 1 <= least <= len(members)):
        raise ValueError("group")
    return least, members


def parse_checkpoint(data: bytes, file: str, policy: Policy) -> Checkpoint:
    """A signed note with a tree head: at least one log key of the policy, and no signature that fails."""
    text = data.decode("utf-8")
    body, found, tail = text.rpartition("\n\n")
    lines = body.split("\n")
    need(bool(found) and len(lines) == 3 and tail.endswith("\n"), file, "checkpoint")
    need(bool(lines[0]) and DECIMAL.fullmatch(lines[1]) is not None, file, "checkpoint")
    root = b64(lines[2], file)
    need(len(root) == 32, file, "root")
    known = {(key.name, key.key_id): key for key in [*policy.logs, *policy.witnesses.values()]}
    names = {key: name for name, key in policy.witnesses.items()}
    seen: set[Key] = set()
    logs: list[str] = []
    witnesses: dict[str, int] = {}
    for line in tail[:-1].split("\n"):
        dash, name, blob = line.split(" ")
        raw = b64(blob, file)
        need(dash == "\u2014" and len(raw) > 4, file, "signature line")
        key = known.get((name, raw[:4]))
        if key is None:
            continue
        if key in seen or not _line_holds(key, (body + "\n").encode(), raw[4:]):
            raise Wrong(file, "signature", key=fingerprint(key.public))
        seen.add(key)
        if key.kind == 1:
            logs.append(fingerprint(key.public))
        else:
            witnesses[names[key]] = int.from_bytes(raw[4:12], "big")
    if not logs:
        raise Wrong(file, "unsigned")
    return Checkpoint(lines[0], int(lines[1]), root, text, logs, witnesses)


def _line_holds(key: Key, body: bytes, blob: bytes) -> bool:
    if key.kind == 1:
        return ed25519_verify(key.public, body, blob)
    seconds = int.from_bytes(blob[:8], "big")
    message = b"cosignature/v1\ntime %d\n" % seconds + body
    return len(blob) == 72 and seconds < 2**63 and ed25519_verify(key.public, message, blob[8:])


def short_code(origin: str, size: int, root: bytes) -> str:
    """The anchor that pages carry: size and 80 bits of the SHA-256 of the checkpoint's text."""
    text = f"{origin}\n{size}\n{base64.b64encode(root).decode()}\n"
    letters = base64.b32encode(hashlib.sha256(text.encode()).digest()[:10]).decode()
    return "-".join([str(size), *(letters[at : at + 4] for at in range(0, 16, 4))])


# --- files ----------------------------------------------------------------------------------------------


def read_folder(top: str, report: Report) -> dict[str, Entry]:
    """Every file below `top` by its path with '/'; links and special files are problems, not followed."""
    entries: dict[str, Entry] = {}
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        try:
            names = sorted(os.listdir(os.path.join(top, folder)))
        except OSError as error:
            report.problem(folder, "unreadable", why=error.strerror)
            continue
        if not names and folder not in ("", "signoff"):
            report.problem(folder, "empty-folder")
        for name in names:
            path = f"{folder}/{name}" if folder else name
            try:
                mode = os.lstat(os.path.join(top, path)).st_mode
            except OSError as error:
                report.problem(path, "unreadable", why=error.strerror)
                continue
            if stat.S_ISLNK(mode):
                report.problem(path, "symlink")
            elif stat.S_ISDIR(mode):
                waiting.append(path)
            elif not stat.S_ISREG(mode):
                report.problem(path, "not-a-file")
            else:
                _read_file(top, path, entries, report)
    return entries


def _read_file(top: str, path: str, entries: dict[str, Entry], report: Report) -> None:
    keep = path.startswith(("audit/", "signoff/")) or path in ("manifest.json", "manifest.dsse.json")
    digest, size, parts = hashlib.sha256(), 0, []
    try:
        with os.fdopen(os.open(os.path.join(top, path), OPEN_FLAGS), "rb") as file:
            for part in iter(lambda: file.read(1 << 20), b""):
                digest.update(part)
                size += len(part)
                if keep:
                    parts.append(part)
    except OSError as error:
        report.problem(path, "unreadable", why=error.strerror)
        return
    entries[path] = Entry(size, digest.hexdigest(), b"".join(parts) if keep else None)


def data_of(entries: Mapping[str, Entry], path: str) -> bytes:
    """Content of a file that has to be there."""
    if path not in entries or entries[path].data is None:
        raise Wrong(path, "missing-part")
    return entries[path].data or b""


def listed_files(statement: Any, file: str) -> dict[str, tuple[str, int]]:
    """path -> (sha256, size) of a manifest, its names checked."""
    subjects = statement["subject"]
    names = [subject["name"] for subject in subjects]
    if names != sorted(set(names)):
        raise Wrong(file, "order")
    listed: dict[str, tuple[str, int]] = {}
    folded: dict[str, str] = {}
    for subject in subjects:
        name, digest, size = subject["name"], subject["digest"]["sha256"], subject["annotations"]["size"]
        sound = all(SEGMENT.fullmatch(part) and part[-1] != "." for part in name.split("/"))
        if not sound or name.startswith("signoff/") or name in UNLISTED:
            raise Wrong(name, "name")
        if name.casefold() in folded:
            raise Wrong(name, "name-collision", other=folded[name.casefold()])
        need(HEX64.fullmatch(digest) is not None and type(size) is int and size >= 0, file, name)
        folded[name.casefold()] = name
        listed[name] = (digest, size)
    count = statement["predicate"]["file_count"]
    if count != len(listed):
        raise Wrong(file, "count", listed=len(listed), count=count)
    return listed


def compare_files(
    listed: Mapping[str, tuple[str, int]], entries: Mapping[str, Entry], report: Report
) -> None:
    """Each file of the list is there with its content, and no other file is."""
    owner = {digest: name for name, (digest, _) in listed.items()}
    folded = {name.casefold(): name for name in entries}
    for name, (digest, size) in listed.items():
        entry = entries.get(name)
        if entry is None:
            other = folded.get(name.casefold())
            report.problem(name, "case" if other else "missing", **({"other": other} if other else {}))
        elif entry.sha256 != digest:
            if entry.size and entry.sha256 in owner:
                report.problem(name, "swapped", other=owner[entry.sha256])
            elif entry.size != size:
                report.problem(name, "size", size=entry.size, listed=size)
            else:
                report.problem(name, "digest")
        elif entry.size != size:
            report.problem(name, "size", size=entry.size, listed=size)
    for name in sorted(entries.keys() - listed.keys() - UNLISTED):
        report.problem(name, "extra")
    if SELF not in listed:
        report.problem(SELF, "missing-part")


# --- manifest and sign-offs (DSSE, in-toto Statement) ---------------------------------------------------


def pae(payload_type: str, payload: bytes) -> bytes:
    """What a DSSE signature is over: the pre-authentication encoding of version 1."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def open_envelope(data: bytes, file: str, predicate_type: str) -> tuple[bytes, Any, list[str]]:
    """Payload, statement and signers' fingerprints of an envelope; every signature has to hold.

    The public keys come from the statement itself: who they belong to is for the reader to know.
    """
    envelope = loads_canonical(data, file)
    need(envelope.keys() == {"payload", "payloadType", "signatures"}, file, "envelope")
    if envelope["payloadType"] != PAYLOAD_TYPE:
        raise Wrong(file, "type", type=envelope["payloadType"])
    payload = b64(envelope["payload"], file)
    statement = loads_canonical(payload, file)
    for field, expected in (("_type", STATEMENT_TYPE), ("predicateType", predicate_type)):
        if statement[field] != expected:
            raise Wrong(file, "type", type=statement[field])
    keys = {}
    for record in statement["predicate"]["signers"]:
        public = b64(record["public_key"], file)
        need(record["fingerprint"] == fingerprint(public), file, "fingerprint")
        keys[record["fingerprint"]] = public
    signed = []
    for signature in envelope["signatures"]:
        need(signature.keys() == {"keyid", "sig"}, file, "signature")
        key = signature["keyid"]
        if key not in keys:
            raise Wrong(file, "keyid", key=key)
        if not ed25519_verify(keys[key], pae(PAYLOAD_TYPE, payload), b64(signature["sig"], file)):
            raise Wrong(file, "signature", key=key)
        signed.append(key)
    if not signed or sorted(keys) != signed:
        raise Wrong(file, "unsigned")
    return payload, statement, signed


def check_manifest(entries: Mapping[str, Entry], report: Report) -> Any:
    """The signed manifest; also compares the folder with its list. None if there is no sound one."""
    opened = report.attempt(
        "manifest.dsse.json",
        lambda: open_envelope(data_of(entries, "manifest.dsse.json"), "manifest.dsse.json", PREDICATE_TYPE),
    )
    plain = report.attempt("manifest.json", data_of, entries, "manifest.json")
    statement = None
    if opened is not None:
        payload, statement, signers = opened
        report.facts["signers"] = signers
        if plain is not None and plain != payload:
            report.problem("manifest.json", "manifest-differs")
    elif plain is not None:
        statement = report.attempt("manifest.json", loads_canonical, plain, "manifest.json")
    if statement is None:
        return None
    listed = report.attempt("manifest.json", listed_files, statement, "manifest.json")
    if listed is not None:
        report.facts["files"] = len(listed)
        compare_files(listed, entries, report)
    if isinstance(statement.get("predicate"), dict) and statement["predicate"].get("simulated"):
        report.note("simulated")
    return statement


def check_signoffs(entries: Mapping[str, Entry], report: Report) -> None:
    """Sign-offs that are there: sound, by their role, over this manifest, not by the exporter."""
    missing = []
    for role in ROLES:
        path = f"signoff/{role}.dsse.json"
        if path in entries:
            report.attempt(path, _check_signoff, entries, path, role, report)
        else:
            missing.append(role)
    if missing:
        report.note("no-sign-off", roles=", ".join(missing))


def _check_signoff(entries: Mapping[str, Entry], path: str, role: str, report: Report) -> None:
    _, statement, signers = open_envelope(data_of(entries, path), path, SIGNOFF_TYPE)
    predicate = statement["predicate"]
    digest = entries["manifest.json"].sha256 if "manifest.json" in entries else ""
    if statement["subject"] != [{"name": "manifest.json", "digest": {"sha256": digest}}]:
        raise Wrong(path, "other-manifest")
    if predicate["role"] != role:
        raise Wrong(path, "role", role=predicate["role"])
    need(predicate["decision"] in DECISIONS, path, "decision")
    if set(signers) & set(report.facts["signers"]):
        raise Wrong(path, "signer-is-exporter")
    report.note("signed-off", role=role, decision=predicate["decision"], key=", ".join(signers))


# --- the audit log --------------------------------------------------------------------------------------

LEAF_FIELDS = {
    "v", "seq", "ts", "actor", "origin", "action", "object", "outcome", "reason_code", "rule_version",
    "before_digest", "after_digest", "transitions", "streams", "trace_id", "adapter", "detail",
}  # fmt: skip


class Leaf(NamedTuple):
    """One line of leaves.jsonl: its bytes, its leaf hash, its value."""

    body: bytes
    hash: bytes
    value: Any


def parse_leaves(data: bytes) -> list[Leaf]:
    """All leaves, hashed anew; each one canonical object of schema 1, in order of seq."""
    need(not data or data.endswith(b"\n"), LEAVES, "last line")
    leaves: list[Leaf] = []
    last = -1
    for number, body in enumerate(data.split(b"\n")[:-1], 1):
        try:
            value = loads_canonical(body, LEAVES)
            sound = value.keys() == LEAF_FIELDS and value["v"] == 1
            sound = sound and all(type(value[field]) is int for field in ("v", "seq", "ts"))
        except (Wrong, ValueError, AttributeError, RecursionError) as error:
            raise Wrong(LEAVES, "leaf", line=number, why=reason(error)) from None
        if not sound:
            raise Wrong(LEAVES, "leaf", line=number, why="fields")
        if value["seq"] <= last:
            raise Wrong(LEAVES, "seq-order", line=number, seq=value["seq"])
        last = value["seq"]
        leaves.append(Leaf(body, hashlib.sha256(b"\x00" + body).digest(), value))
    return leaves


class Log(NamedTuple):
    """The parts of audit/, taken apart."""

    leaves: list[Leaf]
    by_seq: dict[int, Leaf]
    start: Checkpoint
    end: Checkpoint
    policy: Policy
    complete: bool
    asked: list[dict[str, Any]]
    heads_seq: int | None


def check_log(
    entries: Mapping[str, Entry], report: Report, keys: set[str], anchors: Sequence[str]
) -> set[str]:
    """All checks of audit/. Returns the fingerprints known from `keys` through changes of the log's key."""
    policy = report.attempt(POLICY, lambda: parse_policy(data_of(entries, POLICY)))
    leaves = report.attempt(LEAVES, lambda: parse_leaves(data_of(entries, LEAVES)))
    if policy is None:
        return keys
    start = report.attempt(START, lambda: parse_checkpoint(data_of(entries, START), START, policy))
    end = report.attempt(END, lambda: parse_checkpoint(data_of(entries, END), END, policy))
    if leaves is None or start is None or end is None:
        return keys
    heads = report.attempt(HEADS, lambda: _parse_heads(data_of(entries, HEADS)))
    by_seq = {leaf.value["seq"]: leaf for leaf in leaves}
    log = Log(leaves, by_seq, start, end, policy, *(heads or (False, [], None)))
    report.facts.update(leaves=len(leaves), origin=end.origin, log_size=end.size, complete=log.complete)
    report.attempt(LEAVES, check_tree, log, entries)
    report.attempt(CONSISTENCY, check_consistency, log, entries)
    for path in sorted(path for path in entries if path.endswith(".tlog-proof")):
        report.attempt(path, check_proof, log, path, data_of(entries, path))
    report.attempt(LEAVES, check_streams, log, report)
    report.attempt(HEADS, check_heads_leaf, log, report)
    report.attempt(LEAVES, note_blindness, log, report)
    known = report.attempt(LEAVES, check_keys, log, report, keys)
    report.attempt(END, check_witnesses, log, report, keys)
    for anchor in anchors:
        report.attempt(END, check_anchor, log, report, anchor)
    return keys if known is None else known


def _parse_heads(data: bytes) -> tuple[bool, list[dict[str, Any]], int | None]:
    value = loads_canonical(data, HEADS)
    need(value.keys() == {"v", "complete", "seq", "heads"} and value["v"] == 1, HEADS, "fields")
    need(type(value["complete"]) is bool and isinstance(value["heads"], list), HEADS, "fields")
    return value["complete"], value["heads"], value["seq"]


def check_tree(log: Log, entries: Mapping[str, Entry]) -> None:
    """The leaves stand in the tree: all of them make its root, or each has an inclusion proof."""
    if log.complete:
        for number, leaf in enumerate(log.leaves, 1):
            if leaf.value["seq"] != number - 1:
                raise Wrong(LEAVES, "seq", line=number, seq=leaf.value["seq"], expected=number - 1)
        if len(log.leaves) != log.end.size:
            raise Wrong(LEAVES, "count-leaves", count=len(log.leaves), size=log.end.size)
        hashes = [leaf.hash for leaf in log.leaves]
        for file, head in ((END, log.end), (START, log.start)):
            if root_of(hashes[: head.size]) != head.root:
                raise Wrong(LEAVES, "root", file=file)
        return
    for leaf in log.leaves:
        if f"audit/{leaf.value['seq']}.tlog-proof" not in entries:
            raise Wrong(LEAVES, "no-proof", seq=leaf.value["seq"])


def check_proof(log: Log, path: str, data: bytes) -> None:
    """One .tlog-proof file: its leaf stands in the tree of the end checkpoint."""
    head, found, note = data.decode("utf-8").partition("\n\n")
    lines = head.split("\n")
    need(bool(found) and lines.pop(0) == "c2sp.org/tlog-proof@v1", path, "header")
    extra = b64(lines.pop(0)[6:], path) if lines[0].startswith("extra ") else None
    word, index = lines.pop(0).split(" ")
    need(word == "index" and DECIMAL.fullmatch(index) is not None, path, "index")
    if note != log.end.text:
        raise Wrong(path, "proof-checkpoint")
    leaf = log.by_seq.get(int(index))
    if leaf is None or path != f"audit/{index}.tlog-proof":
        raise Wrong(path, "proof-name", seq=index)
    steps = [b64(line, path) for line in lines]
    sound = extra in (None, leaf.body) and all(len(step) == 32 for step in steps)
    if not sound or not inclusion_holds(leaf.hash, int(index), log.end.size, steps, log.end.root):
        raise Wrong(path, "inclusion", seq=index)


def check_consistency(log: Log, entries: Mapping[str, Entry]) -> None:
    """The end checkpoint is of the same log as the start checkpoint, and extends it."""
    if log.start.origin != log.end.origin:
        raise Wrong(START, "origin", origin=log.start.origin, expected=log.end.origin)
    for file, head in ((START, log.start), (END, log.end)):
        if head.origin not in {key.name for key in log.policy.logs}:
            raise Wrong(file, "origin", origin=head.origin, expected=log.policy.logs[0].name)
    if log.start.size > log.end.size:
        raise Wrong(START, "ckpt-order")
    value = loads_canonical(data_of(entries, CONSISTENCY), CONSISTENCY)
    need(value.keys() == {"v", "from", "to", "proof"} and value["v"] == 1, CONSISTENCY, "fields")
    steps = [bytes.fromhex(step) for step in value["proof"] if HEX64.fullmatch(step)]
    m, n = log.start.size, log.end.size
    sound = len(steps) == len(value["proof"]) and (value["from"], value["to"]) == (m, n)
    if not sound or not consistency_holds(m, n, steps, log.start.root, log.end.root):
        raise Wrong(CONSISTENCY, "consistency")


def check_streams(log: Log, report: Report) -> None:
    """Counters without gap, links, and the heads that leaves of the log itself pin."""
    asked = {head["name"] for head in log.asked}
    heads: dict[str, tuple[int, int, str]] = {}
    for leaf in log.leaves:
        value, seq = leaf.value, leaf.value["seq"]
        _check_stream_names(value)
        if value["action"] == "log.stream-heads":
            _check_pinned(log, heads, asked, value)
        names = [entry["name"] for entry in value["streams"]]
        if not log.complete and value["object"]["kind"] != "log" and not asked & set(names):
            raise Wrong(LEAVES, "no-stream", seq=seq)
        for entry in value["streams"]:
            name, n = entry["name"], entry["n"]
            known = heads.get(name)
            expected = (known[0], known[1], known[2]) if known else (0, None, None)
            if n == expected[0]:
                if (entry["prev_seq"], entry["prev"]) != expected[1:]:
                    raise Wrong(LEAVES, "stream-link", seq=seq, name=name)
            elif log.complete or name in asked or n < expected[0]:
                raise Wrong(LEAVES, "stream-gap", seq=seq, name=name, n=n)
            heads[name] = (n + 1, seq, leaf.hash.hex())
    if log.complete:
        report.note("complete")
    elif asked:
        report.note("streams", names=", ".join(sorted(asked)))


def _check_stream_names(value: Any) -> None:
    """The streams are those of the leaf's own object and actor, in their order, each once."""
    names = [entry["name"] for entry in value["streams"]]
    must = [f"object/{value['object']['kind']}/{value['object']['id']}", f"actor/{value['actor']['id']}"]
    rest = names[1:] if names and names[0].startswith("project/") else names
    place = rest[2:]
    fits = rest[:2] == must and len(place) == 1 and (place[0] == "system" or place[0].startswith("cluster/"))
    if not fits or any(entry.keys() != {"name", "n", "prev", "prev_seq"} for entry in value["streams"]):
        raise Wrong(LEAVES, "stream-name", seq=value["seq"])


def _check_pinned(log: Log, heads: Mapping[str, tuple[int, int, str]], asked: set[str], value: Any) -> None:
    """A stream-heads leaf says what the leaves before it say."""
    for head in value["detail"]["heads"]:
        name = head["name"]
        covered = log.complete or name in asked
        if covered and heads.get(name) != (head["n"], head["seq"], head["hash"]):
            raise Wrong(LEAVES, "stream-end", name=name)


def check_heads_leaf(log: Log, report: Report) -> None:
    """stream-heads.json repeats a leaf of the export (none is needed for the complete log)."""
    if log.heads_seq is None and log.complete and not log.asked:
        return
    leaf = log.by_seq.get(-1 if log.heads_seq is None else log.heads_seq)
    value: Any = leaf.value if leaf else {"action": None}
    if value["action"] != "log.stream-heads" or value["detail"]["heads"] != log.asked:
        raise Wrong(HEADS, "heads-leaf", seq=log.heads_seq)


def note_blindness(log: Log, report: Report) -> None:
    """Restores, blindness that the log admits, and steps back of the clock are said, not hidden."""
    back = []
    for before, leaf in zip(log.leaves, log.leaves[1:]):  # noqa: B905 (runs on Python 3.8)
        if leaf.value["ts"] < before.value["ts"]:
            back.append(leaf.value["seq"])
    blind: dict[str, list[int]] = defaultdict(list)
    for leaf in log.leaves:
        if leaf.value["action"] == "log.restored":
            report.note("restored", seq=leaf.value["seq"], time=utc(leaf.value["ts"] // 1_000_000))
        elif leaf.value["action"].startswith("blind."):
            blind[leaf.value["action"]].append(leaf.value["seq"])
    for action, seqs in sorted(blind.items()):
        report.note("blind", action=action, seq=seqs[0], count=len(seqs))
    if back:
        report.note("clock-back", seq=back[0], count=len(back))


def rotation_holds(statement: Any) -> bool:
    """A change of keys is signed with the old and the new key."""
    body = {key: statement[key] for key in statement if key != "signatures"}
    message = ROTATION_DOMAIN + canonical(body)
    for side in ("old", "new"):
        public = b64(body[side]["public_key"], LEAVES)
        signature = b64(statement["signatures"][side], LEAVES)
        if body[side]["fingerprint"] != fingerprint(public) or not ed25519_verify(public, message, signature):
            return False
    return bool(body["kind"] == "key-rotation" and body["v"] == 1 and body["old"] != body["new"])


def check_keys(log: Log, report: Report, keys: set[str]) -> set[str]:
    """Changes and revocations of the log's key; who signed the checkpoints and the manifest by them."""
    changes: list[tuple[int, str, str]] = []
    revoked: dict[str, int] = {}
    known = set(keys)
    for leaf in log.leaves:
        seq, detail = leaf.value["seq"], leaf.value["detail"]
        if leaf.value["action"] == "log.key-revoked":
            revoked[detail["fingerprint"]] = seq
            changes += _given_up(seq, detail, changes, report)
        if leaf.value["action"] != "log.key-rotated":
            continue
        statement = detail["rotation"]
        if not rotation_holds(statement) or statement["seq"] > seq:
            raise Wrong(LEAVES, "rotation", seq=seq)
        old, new = statement["old"]["fingerprint"], statement["new"]["fingerprint"]
        if changes and changes[-1][2] != old:
            raise Wrong(LEAVES, "rotation-chain", seq=seq)
        changes.append((seq, old, new))
        report.note("rotated", seq=seq, old=old, new=new)
        if old in known and old not in revoked:
            known.add(new)
    _check_policy_keys(log, changes)
    for file, head in ((START, log.start), (END, log.end)):
        current = _current_key(changes, head.size)
        if current and current not in head.log_keys:
            raise Wrong(file, "ckpt-key", key=current)
        for key in head.log_keys:
            if revoked.get(key, head.size) < head.size:
                raise Wrong(file, "revoked", key=key)
    _check_exporter(log, report, changes, revoked)
    return known


def _given_up(
    seq: int, detail: Mapping[str, Any], changes: list[tuple[int, str, str]], report: Report
) -> list[tuple[int, str, str]]:
    """A lost key and the one in its place. Who knows the lost one doesn't thereby know the other."""
    if "successor" not in detail:
        return []
    old, new = detail["fingerprint"], detail["successor"]["fingerprint"]
    if old == new or (changes and changes[-1][2] != old):
        raise Wrong(LEAVES, "rotation-chain", seq=seq)
    report.note("key-lost", seq=seq, old=old, new=new, signed=detail["signed_to"])
    return [(seq, old, new)]


def _current_key(changes: list[tuple[int, str, str]], size: int) -> str | None:
    """Fingerprint of the key that signs a checkpoint of this size; None if the leaves don't tell."""
    if not changes:
        return None
    current = changes[0][1]
    for seq, _, new in changes:
        current = new if seq < size else current
    return current


def _check_policy_keys(log: Log, changes: list[tuple[int, str, str]]) -> None:
    chain = {key for change in changes for key in change[1:]}
    for nth, key in enumerate(log.policy.logs):
        print_ = fingerprint(key.public)
        if log.complete and (print_ not in chain if chain else nth > 0):
            raise Wrong(POLICY, "policy-key", key=print_)


def _check_exporter(
    log: Log, report: Report, changes: list[tuple[int, str, str]], revoked: dict[str, int]
) -> None:
    log_keys = {fingerprint(key.public) for key in log.policy.logs}
    current = _current_key(changes, log.end.size)
    for key in report.facts["signers"]:
        if key in revoked:
            raise Wrong("manifest.dsse.json", "revoked", key=key)
        if key not in log_keys:
            report.note("other-signer", key=key, log=current or ", ".join(log.end.log_keys))
        elif current and key != current:
            raise Wrong("manifest.dsse.json", "rotated-out", key=key)


def check_witnesses(log: Log, report: Report, keys: set[str]) -> None:
    """Who co-signed the end checkpoint, and whether that is as many as the policy asks for."""
    own = {fingerprint(key.public) for key in log.policy.logs} | set(report.facts["signers"])
    for name, key in log.policy.witnesses.items():
        if fingerprint(key.public) in own:
            report.problem(POLICY, "witness-key", name=name)
    for name, seconds in log.end.witnesses.items():
        key = log.policy.witnesses[name]
        code = "witnessed-known" if fingerprint(key.public) in keys else "witnessed"
        report.note(code, name=key.name, key=fingerprint(key.public), time=utc(seconds))
    if not log.policy.satisfied(log.policy.quorum, set(log.end.witnesses)):
        report.problem(END, "quorum")
    report.facts["self_attested"] = not log.end.witnesses


def check_anchor(log: Log, report: Report, anchor: str) -> None:
    """A short code kept on paper: the log still begins with what it stood for."""
    size = int(anchor.split("-")[0])
    if size > log.end.size:
        raise Wrong(END, "anchor-short", anchor=anchor)
    roots = {log.start.size: log.start.root, log.end.size: log.end.root}
    if log.complete:
        roots[size] = root_of([leaf.hash for leaf in log.leaves[:size]])
    if size not in roots:
        raise Wrong(END, "anchor-unchecked", anchor=anchor)
    if short_code(log.end.origin, size, roots[size]) != anchor:
        raise Wrong(END, "anchor-differs", anchor=anchor)
    report.note("anchor", anchor=anchor)


# --- usage ----------------------------------------------------------------------------------------------


def check_usage(directory: str) -> list[Finding]:
    """Conservation: at every instant the segments of a resource's dimension sum to its capacity, exactly.

    usage/segments.jsonl: resource, class, dimension, quantity, t0, t1, kind (holding, idle, unavailable or
    unknown); usage/capacity.jsonl: resource, class, dimension, capacity, t0, t1. Integers, µs, half-open;
    other fields are let be. Returns the problems; a note `usage` if there are none.
    """
    report = Report()
    steps: dict[tuple[str, str, str], dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for path, field, sign in ((SEGMENTS, "quantity", 1), (CAPACITY, "capacity", -1)):
        report.attempt(path, _add_rows, directory, path, field, sign, steps)
    if report.problems:
        return report.problems
    for (resource, _, dimension), changes in sorted(steps.items()):
        excess = 0
        for t in sorted(changes):
            excess += changes[t]
            if excess:
                params = {"resource": resource, "dimension": dimension, "t": t, "by": excess}
                report.problem(SEGMENTS, "conservation", **params)
                break
    return report.problems or [Finding("", "usage", {"count": len(steps)})]


def _add_rows(directory: str, path: str, field: str, sign: int,
              steps: dict[tuple[str, str, str], dict[int, int]]) -> None:  # fmt: skip
    try:
        with open(os.path.join(directory, path), "rb") as file:
            lines = file.read().split(b"\n")
    except OSError:
        raise Wrong(path, "missing-part") from None
    for number, line in enumerate(lines, 1):
        if not line and number == len(lines):
            continue
        try:
            row = loads(line, path)
            amount, t0, t1 = row[field], row["t0"], row["t1"]
            sound = all(type(value) is int for value in (amount, t0, t1)) and amount >= 0 and t0 < t1
            sound = sound and (field == "capacity" or row["kind"] in KINDS)
            name = (row["resource"], row["class"], row["dimension"])
            sound = sound and all(isinstance(part, str) for part in name)
        except (Wrong, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise Wrong(path, "row", line=number, why=reason(error)) from None
        if not sound:
            raise Wrong(path, "row", line=number, why="fields")
        steps[name][t0] += sign * amount
        steps[name][t1] -= sign * amount


def check_receipts(directory: str) -> list[Finding]:
    """Each receipt that a leaf has, of an attempt that ended or a member that left one that goes on, stands
    in usage/receipts.jsonl if it was written within the manifest's scope. Returns the problems; a note
    `receipts` if there are none."""
    report = Report()
    report.attempt(RECEIPTS, _compare_receipts, directory, report)
    return report.problems or report.notes


def _compare_receipts(directory: str, report: Report) -> None:
    with open(os.path.join(directory, "manifest.json"), "rb") as file:
        scope = loads(file.read(), "manifest.json")["predicate"]["scope"]
    with open(os.path.join(directory, RECEIPTS), "rb") as file:
        lines = file.read().splitlines()
    known = {_receipt_of(line, number) for number, line in enumerate(lines, 1)}
    with open(os.path.join(directory, LEAVES), "rb") as file:
        for line in file:
            leaf = loads(line, LEAVES) if b'"receipt":{' in line else None
            if leaf is None or leaf["action"].startswith("release."):
                continue  # what was kept back and answered later has its own record, in the log alone
            receipt = leaf["detail"].get("receipt")
            if not isinstance(receipt, dict) or not scope["from"] <= receipt["confirmed"] < scope["to"]:
                continue
            key = (receipt["attempt"], leaf["detail"].get("member"), receipt["state"], receipt["confirmed"])
            if key not in known:
                report.problem(RECEIPTS, "receipt", leaf=leaf["seq"], of=key[1] or key[0])
    report.note("receipts", count=len(lines))


def _receipt_of(line: bytes, number: int) -> tuple[Any, ...]:
    try:
        row = loads(line, RECEIPTS)
        found = row["attempt"], row["member"], row["state"], row["confirmed"]
        hash(found)
        return found
    except (Wrong, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise Wrong(RECEIPTS, "row", line=number, why=reason(error)) from None


# --- all together ---------------------------------------------------------------------------------------


def check_bundle(directory: str, keys: Iterable[str] = (), anchors: Sequence[str] = ()) -> Report:
    """All checks of a bundle. `keys`: fingerprints that the reader knows; `anchors`: short codes kept."""
    report, named = Report(), set(keys)
    known = named
    entries = read_folder(directory, report)
    check_manifest(entries, report)
    if any(path.startswith("audit/") for path in entries):
        known = check_log(entries, report, known, anchors)
    else:
        report.note("no-log")
        for anchor in anchors:
            report.problem(END, "anchor-unchecked", anchor=anchor)
    signers = report.facts["signers"]
    report.facts["key_known"] = bool(known & set(signers))
    if report.facts["key_known"]:
        report.note("key-known", key=", ".join(sorted(known & set(signers))))
    elif named:
        report.problem("manifest.dsse.json", "key-mismatch", key=", ".join(signers) or "-")
    else:
        report.note("key-not-known", key=", ".join(signers) or "-")
    if report.facts["self_attested"]:
        report.note("self-attested")
    if SEGMENTS in entries or CAPACITY in entries:
        for finding in check_usage(directory):
            (report.notes if finding.code == "usage" else report.problems).append(finding)
    else:
        report.note("no-usage")
    if RECEIPTS in entries and LEAVES in entries:
        for finding in check_receipts(directory):
            (report.notes if finding.code == "receipts" else report.problems).append(finding)
    check_signoffs(entries, report)
    return report


def print_report(report: Report, lang: str) -> None:
    """Verdict first, then what is wrong, then what has to be known."""
    facts, nth = report.facts, int(lang == "zh")
    print(TEXTS["fail" if report.problems else "ok"][nth].format(count=len(report.problems)))
    for finding in report.problems:
        print(f"  {visible(finding.file)}: {finding.text(lang)}")
    summary = {
        "files": facts["files"], "leaves": facts["leaves"], "origin": visible(str(facts["origin"])),
        "size": facts["log_size"], "signer": ", ".join(facts["signers"]) or "-",
    }  # fmt: skip
    print(TEXTS["summary"][nth].format(**summary))
    for finding in report.notes:
        print(f"- {finding.text(lang)}")


def print_json(report: Report, lang: str) -> None:
    """The same as one JSON object."""
    findings = {
        kind: [{"file": f.file, "code": f.code, "params": f.params, "text": f.text(lang)} for f in found]
        for kind, found in (("problems", report.problems), ("notes", report.notes))
    }
    value = {"ok": not report.problems, **report.facts, **findings}
    print(json.dumps(value, ensure_ascii=True, sort_keys=True, indent=1, default=str))


def main(argv: Sequence[str] | None = None) -> int:
    """The program; returns the exit status."""
    language = os.environ.get("STEELYARD_LANG") or os.environ.get("LC_ALL") or os.environ.get("LANG") or "en"
    parser = argparse.ArgumentParser(prog="verify.py", description="Verify an evidence bundle offline.")
    parser.add_argument("directory", metavar="DIR", help="folder of the bundle")
    parser.add_argument("--key", action="append", default=[], metavar="FINGERPRINT",
                        help="hex SHA-256 of a public key that you know (log, witness)")  # fmt: skip
    parser.add_argument("--anchor", action="append", default=[], metavar="CODE",
                        help="short code of an earlier checkpoint, as printed on pages")  # fmt: skip
    parser.add_argument("--lang", choices=("zh", "en"), default="zh" if language.startswith("zh") else "en")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args(argv)
    keys = [key.lower().replace(":", "") for key in args.key]
    wrong = [("usage-key", key) for key in keys if not HEX64.fullmatch(key)]
    wrong += [("usage-anchor", anchor) for anchor in args.anchor if not ANCHOR.fullmatch(anchor)]
    wrong += [("usage-folder", args.directory)] if not os.path.isdir(args.directory) else []
    for code, given in wrong:
        print(TEXTS[code][args.lang == "zh"].format(given=visible(given)), file=sys.stderr)
    if wrong:
        return 2
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    report = check_bundle(args.directory, keys, args.anchor)
    (print_json if args.json else print_report)(report, args.lang)
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
