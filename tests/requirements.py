"""Makes sure that what the tests need from the system is there: `python -m tests.requirements`.

As root on Debian or with CI=true it installs what is missing; on a person's machine it names it,
and the tests that need it are skipped, saying so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from tests import pulse

COMMAND_TIMEOUT_S = 600


def missing_packages() -> list[str]:
    """Return the Debian packages that some tests need and that are not installed."""
    missing = pulse.missing_packages()
    if shutil.which("espeak-ng") is None:
        missing.append("espeak-ng")
    return missing


def main() -> int:
    missing = missing_packages()
    if not missing:
        return 0
    on_debian = shutil.which("apt-get") is not None
    if on_debian and os.geteuid() == 0:
        print("installing", *missing, file=sys.stderr)
        environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for words in (["update"], ["install", "--yes", "--no-install-recommends", *missing]):
            command = ["apt-get", "--quiet", "--quiet", *words]
            done = subprocess.run(
                command, env=environ, check=False, stdout=sys.stderr, timeout=COMMAND_TIMEOUT_S
            )
            if done.returncode:
                print("could not install", *missing, file=sys.stderr)
                return 1 if os.environ.get("CI") else 0
        return 0
    print(
        "some tests will be skipped: they need",
        *missing,
        "(Debian and Ubuntu: apt install the same names)",
        file=sys.stderr,
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
