"""Every run of the tests sees the same examples, so that a failure can be seen again; `-m slow` looks for new ones."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("same", derandomize=True)
if not os.environ.get("HYPOTHESIS_PROFILE"):
    settings.load_profile("same")
