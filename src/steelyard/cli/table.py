"""The commands by name, and where each is: a module is loaded when its command is called, here alone.

The texts of a command are `cli.NAME.help` (one line) and `cli.NAME.more` (the rest), NAME with a dash
for the space; those of a parameter are `cli.NAME.PARAMETER`, else `cli.param.PARAMETER`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_CLI = "steelyard.cli"

#: Section of the help page → command → `module:function`.
SECTIONS: dict[str, dict[str, str]] = {
    "workloads": {
        "submit": f"{_CLI}.submit:submit",
        "list": f"{_CLI}.workloads:list_workloads",
        "show": f"{_CLI}.workloads:show",
        "explain": f"{_CLI}.explain:explain",
        "what-if": f"{_CLI}.what_if:what_if",
        "estimates": f"{_CLI}.foresight:estimates",
        "top": f"{_CLI}.top:top",
        "logs": f"{_CLI}.logs:logs",
        "artifacts": f"{_CLI}.artifacts:artifacts",
        "exec": f"{_CLI}.executions:execute",
        "attach": f"{_CLI}.executions:attach",
        "scale": f"{_CLI}.workloads:scale",
        "cancel": f"{_CLI}.workloads:cancel",
        "retry": f"{_CLI}.workloads:retry",
        "hold": f"{_CLI}.workloads:hold",
        "release": f"{_CLI}.workloads:release",
    },
    "resources": {
        "inventory": f"{_CLI}.resources:inventory",
        "inventory at": f"{_CLI}.inventory:at",
        "inventory diff": f"{_CLI}.inventory:diff",
        "inventory registrations": f"{_CLI}.inventory:registrations",
        "device": f"{_CLI}.devices:show",
        "device show": f"{_CLI}.devices:show",
        "device flags": f"{_CLI}.devices:flags",
        "device cordon": f"{_CLI}.devices:cordon",
        "device uncordon": f"{_CLI}.devices:uncordon",
        "device drain": f"{_CLI}.devices:drain",
        "device maintenance": f"{_CLI}.devices:maintenance",
        "device fence": f"{_CLI}.devices:fence",
        "device verify": f"{_CLI}.devices:verify",
        "device retire": f"{_CLI}.devices:retire",
        "queues": f"{_CLI}.resources:queues",
        "queues waiting": f"{_CLI}.waiting:order",
        "queues inventory": f"{_CLI}.quota_inventory:compare",
        "quotas": f"{_CLI}.resources:quotas",
        "pool list": f"{_CLI}.pools:list_pools",
        "pool show": f"{_CLI}.pools:show",
        "pool close": f"{_CLI}.pools:close",
        "pool open": f"{_CLI}.pools:open_again",
        "label list": f"{_CLI}.labels:list_labels",
        "label lint": f"{_CLI}.labels:lint",
        "label history": f"{_CLI}.labels:history",
        "admission list": f"{_CLI}.admissions:list_admissions",
        "admission start": f"{_CLI}.admissions:start",
        "admission show": f"{_CLI}.admissions:show",
        "admission step": f"{_CLI}.admissions:step",
        "admission finish": f"{_CLI}.admissions:finish",
        "verification list": f"{_CLI}.verifications:list_verifications",
        "verification show": f"{_CLI}.verifications:show",
        "verification end": f"{_CLI}.verifications:end",
        "document list": f"{_CLI}.support:list_documents",
        "document show": f"{_CLI}.support:show",
        "register list": f"{_CLI}.register:list_entries",
        "register show": f"{_CLI}.register:show",
        "release list": f"{_CLI}.releases:list_releases",
        "release show": f"{_CLI}.releases:show",
        "release confirm": f"{_CLI}.releases:confirm",
        "release fence": f"{_CLI}.releases:fence",
    },
    "objects": {
        "apply": f"{_CLI}.objects:apply",
        "diff": f"{_CLI}.objects:diff",
        "export": f"{_CLI}.objects:export",
        "get": f"{_CLI}.objects:get",
        "delete": f"{_CLI}.objects:delete",
        "policy preview": f"{_CLI}.foresight:policy_preview",
    },
    "evidence": {
        "usage": f"{_CLI}.usage:usage",
        "failures": f"{_CLI}.failures:failures",
        "review": f"{_CLI}.review:review",
        "refusals": f"{_CLI}.evidence:refusals",
        "cycles": f"{_CLI}.evidence:cycles",
        "replay": f"{_CLI}.foresight:replay",
        "audit verify": f"{_CLI}.operators:audit_verify",
        "audit check": f"{_CLI}.audit:check",
        "audit export": f"{_CLI}.audit:export",
        "audit checkpoint": f"{_CLI}.audit:checkpoint",
        "audit leaves": f"{_CLI}.audit:leaves",
        "audit rotate-key": f"{_CLI}.operators:audit_rotate_key",
    },
    "access": {
        "login": f"{_CLI}.access:login",
        "logout": f"{_CLI}.access:logout",
        "whoami": f"{_CLI}.access:whoami",
        "users list": f"{_CLI}.access:users_list",
        "users create": f"{_CLI}.access:users_create",
        "users password": f"{_CLI}.access:users_password",
        "users disable": f"{_CLI}.access:users_disable",
        "tokens list": f"{_CLI}.access:tokens_list",
        "tokens create": f"{_CLI}.access:tokens_create",
        "tokens revoke": f"{_CLI}.access:tokens_revoke",
    },
    "operation": {
        "up": f"{_CLI}.operators:up",
        "serve": f"{_CLI}.operators:serve",
        "backup": f"{_CLI}.upkeep:backup",
        "backup verify": f"{_CLI}.upkeep:backup_verify",
        "restore": f"{_CLI}.upkeep:restore",
        "upgrade": f"{_CLI}.upkeep:upgrade",
        "reset-password": f"{_CLI}.operators:reset_password",
        "demo": f"{_CLI}.operators:demo",
        "poc run": f"{_CLI}.operators:poc_run",
        "doctor": f"{_CLI}.system:doctor",
        "version": f"{_CLI}.system:version",
        "completion": f"{_CLI}.completion:completion",
    },
}
COMMANDS: dict[str, str] = {name: target for section in SECTIONS.values() for name, target in section.items()}
#: First words of commands of two words that are no command themselves.
GROUPS = tuple(
    dict.fromkeys(
        first for name in COMMANDS if " " in name and (first := name.split()[0]) not in COMMANDS
    )
)


def load(target: str) -> Any:
    """What `module:name` names; the module is imported now."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


def text_code(name: str, part: str) -> str:
    """The code of a text of a command."""
    return f"cli.{name.replace(' ', '-')}.{part}"
