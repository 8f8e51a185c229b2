"""The setting of the example backend."""

from __future__ import annotations

from ocannl.backend import ConfigSetting
from ocannl.base.setting_types import switch

CHECK_INDICES = ConfigSetting(
    "example_check_indices",
    switch,
    False,
    "generated code raises IndexError for negative indices, which Python would count from the end",
    changes_code=True,
)
