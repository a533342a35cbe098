"""Doctor: is everything in order?"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from steelyard.api.auth import PrincipalDep
from steelyard.api.context import LanguageDep, ServicesDep
from steelyard.locale import text
from steelyard.services import doctor

router = APIRouter(prefix="/v1/doctor", tags=["doctor"])


@router.get("")
def examine(who: PrincipalDep, services: ServicesDep, lang: LanguageDep) -> dict[str, Any]:
    """Every check. `ok` is null where something can't be told or does not apply."""
    folder = services.extra.get("folder")
    found = doctor.examine(services.store, who, services.engines, folder, services.signer)
    return {
        "checks": [
            {
                "id": check.id,
                "ok": check.ok,
                "code": check.code,
                "params": check.params,
                "text": text(f"doctor.{check.code}", check.params, lang),
            }
            for check in found
        ]
    }
