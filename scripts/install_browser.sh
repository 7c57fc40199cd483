#!/usr/bin/env bash
# Install what `make browser` needs, where a Debian package manager and the right to use it are there.
set -euo pipefail
test -x "${STATEWRIGHT_TEST_CHROMIUM:-/usr/bin/chromium}" && exit 0
if test "$(id -u)" -eq 0 && command -v apt-get >/dev/null; then
	export DEBIAN_FRONTEND=noninteractive
	{ apt-get update && apt-get install -y --no-install-recommends chromium fonts-dejavu-core; } >/dev/null 2>&1 && exit 0
fi
echo "No Chromium here, and it could not be installed: the tests of the console in a browser are left out."
